package kafkaauth

import (
	"net"
	"strings"
)

// Variables reads environment variables and collects errors in them. *app.Vars implements it.
type Variables interface {
	// String returns a variable, or def if it is not set.
	String(name, def string) string
	// Fail records that a variable's value is invalid; want describes valid values.
	Fail(name, value, want string)
	// FailSecret records that a variable's value is missing or invalid, without repeating the value.
	FailSecret(name, want string)
}

// Read reads the variables IDEMSK_KAFKA_BROKERS, _AUTH, _TLS, _TLS_CA, _TLS_CERT, _TLS_KEY, _USERNAME,
// _PASSWORD and _SECRET_ARN, and records all errors. The caller sets the field AWS of the result if it
// NeedsAWS.
func Read(v Variables) Config {
	text := func(s Setting) string { return v.String(string(s), "") }
	c := Config{
		Brokers:     readBrokers(v),
		Method:      Method(text(SettingAuth)),
		CA:          text(SettingCA),
		Certificate: text(SettingCertificate),
		Key:         text(SettingKey),
		Username:    text(SettingUsername),
		Password:    text(SettingPassword),
		SecretARN:   text(SettingSecretARN),
	}
	switch s := text(SettingTLS); s {
	case "":
	case "true":
		c.TLS = TLSOn
	case "false":
		c.TLS = TLSOff
	default:
		v.Fail(string(SettingTLS), s, "true or false")
	}
	for _, err := range c.Check() {
		if err.Secret {
			v.FailSecret(string(err.Setting), err.Want)
		} else {
			v.Fail(string(err.Setting), err.Value, err.Want)
		}
	}
	return c
}

func readBrokers(v Variables) []string {
	s := v.String(string(SettingBrokers), "")
	brokers := strings.Split(s, ",")
	for i, b := range brokers {
		brokers[i] = strings.TrimSpace(b)
		if host, port, err := net.SplitHostPort(brokers[i]); err != nil || host == "" || port == "" {
			v.Fail(string(SettingBrokers), s, "the addresses of some brokers, host:port,host:port")
			break
		}
	}
	return brokers
}
