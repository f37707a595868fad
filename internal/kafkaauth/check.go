package kafkaauth

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/internal/text/redact"
)

// Setting is a part of a Config, as the environment variable that sets it.
type Setting string

// The settings.
const (
	SettingBrokers     Setting = "IDEMSK_KAFKA_BROKERS"
	SettingAuth        Setting = "IDEMSK_KAFKA_AUTH"
	SettingTLS         Setting = "IDEMSK_KAFKA_TLS"
	SettingCA          Setting = "IDEMSK_KAFKA_TLS_CA"
	SettingCertificate Setting = "IDEMSK_KAFKA_TLS_CERT"
	SettingKey         Setting = "IDEMSK_KAFKA_TLS_KEY"
	SettingUsername    Setting = "IDEMSK_KAFKA_USERNAME"
	SettingPassword    Setting = "IDEMSK_KAFKA_PASSWORD"   //nolint:gosec // a name
	SettingSecretARN   Setting = "IDEMSK_KAFKA_SECRET_ARN" //nolint:gosec // a name
)

// Flag returns the name of the command's flag for the setting: tls-ca for IDEMSK_KAFKA_TLS_CA. Username and
// password have none, because flags are visible in the list of processes.
func (s Setting) Flag() string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(string(s), "IDEMSK_KAFKA_"), "_", "-"))
}

// SettingError is an error in a Config.
type SettingError struct {
	Setting Setting
	Value   string // "" if it is missing, or may be secret
	Secret  bool   // the value is not shown
	Want    string // describes valid values
}

func (e SettingError) Error() string { return e.Text(string(e.Setting)) }

// Text returns the error's text with another name of the setting.
func (e SettingError) Text(name string) string {
	if e.Secret {
		return fmt.Sprintf("%s is missing or wrong: want %s", name, e.Want)
	}
	return fmt.Sprintf("%s is %q: want %s", name, redact.Setting(name, e.Value), e.Want)
}

// checker collects the errors in a Config.
type checker struct {
	*Config
	errs []SettingError
}

// Check returns the errors in the configuration. It reads the files, and no secret.
func (c *Config) Check() []SettingError {
	ch := &checker{Config: c}
	if methods := Methods(); !slices.Contains(methods, c.method()) {
		ch.fail(SettingAuth, string(c.Method),
			"one of "+strings.Trim(strings.ReplaceAll(fmt.Sprint(methods), " ", ", "), "[]"))
		return ch.errs
	}
	ch.encryption()
	ch.files()
	switch c.method() {
	case None, IAM:
		ch.noCredentials()
	case SCRAM512, SCRAM256, Plain:
		ch.password()
	case MTLS:
		ch.certificate()
	}
	return ch.errs
}

func (c *checker) fail(s Setting, value, want string) {
	c.errs = append(c.errs, SettingError{Setting: s, Value: value, Want: want})
}

func (c *checker) failSecret(s Setting, want string) {
	c.errs = append(c.errs, SettingError{Setting: s, Secret: true, Want: want})
}

func (c *checker) encryption() {
	switch m := c.method(); {
	case c.encrypted():
	case m == IAM, m == MTLS:
		c.fail(SettingTLS, "false", "true: the authentication "+string(m)+" needs TLS")
	case m == Plain && !allLocal(c.Brokers):
		c.fail(SettingTLS, "false", "true: the authentication plain would send the password unencrypted")
	case c.CA != "" || c.Certificate != "":
		c.fail(SettingTLS, "false", "true, or neither a CA nor a client certificate, which are for TLS")
	}
}

// files checks the CA and the client certificate.
func (c *checker) files() {
	if c.CA != "" {
		if _, err := pool(c.CA); err != nil {
			want := "certificates in PEM, or their file (" + err.Error() + ")"
			if isPEM(c.CA) { // long
				c.failSecret(SettingCA, want)
			} else {
				c.fail(SettingCA, c.CA, want)
			}
		}
	}
	switch {
	case c.Certificate == "" && c.Key == "":
	case c.method() == None:
		c.fail(SettingAuth, string(None), "mtls with a client certificate")
	case c.Certificate == "":
		c.fail(SettingCertificate, "", "the certificate of the private key, in PEM, or its file")
	case c.Key == "":
		c.failSecret(SettingKey, "the private key of the client certificate, in PEM, or its file")
	default:
		if _, err := readKeyPair(c.Certificate, c.Key); err != nil {
			c.failSecret(SettingKey, "the private key of the client certificate, both in PEM, the key not encrypted, or their files ("+err.Error()+")")
		}
	}
}

// noCredentials reports credentials that the method does not use: the wrong method is more likely than
// superfluous credentials.
func (c *checker) noCredentials() {
	if c.SecretARN != "" {
		c.fail(SettingSecretARN, c.SecretARN,
			"none with the authentication "+string(c.method())+", which uses no secret")
	}
	c.noPassword()
}

func (c *checker) noPassword() {
	want := "none with the authentication " + string(c.method()) + ", which uses no password"
	switch {
	case c.Username != "":
		c.fail(SettingUsername, c.Username, want)
	case c.Password != "":
		c.failSecret(SettingPassword, want)
	}
}

func (c *checker) password() {
	given := c.Username != "" || c.Password != ""
	switch {
	case c.SecretARN != "" && given:
		c.fail(SettingSecretARN, c.SecretARN,
			"either a secret or "+string(SettingUsername)+" and "+string(SettingPassword))
	case c.SecretARN != "":
	case !given:
		c.fail(SettingSecretARN, "", "the ARN of a secret with username and password, or set "+
			string(SettingUsername)+" and "+string(SettingPassword))
	case c.Username == "":
		c.fail(SettingUsername, "", "the user of the password")
	case c.Password == "":
		c.failSecret(SettingPassword, "the password of the user")
	}
}

func (c *checker) certificate() {
	given := c.Certificate != "" || c.Key != ""
	switch {
	case c.SecretARN != "" && given:
		c.fail(SettingSecretARN, c.SecretARN, "either a secret or a client certificate and its key")
	case c.SecretARN == "" && !given:
		c.fail(SettingSecretARN, "", "the ARN of a secret with certificate and privateKey, or a client certificate and its key")
	}
	c.noPassword()
}

// allLocal reports whether all brokers are on this machine.
func allLocal(brokers []string) bool {
	return !slices.ContainsFunc(brokers, func(broker string) bool {
		host, _, err := net.SplitHostPort(broker)
		ip := net.ParseIP(host)
		return err != nil || (host != "localhost" && (ip == nil || !ip.IsLoopback()))
	})
}
