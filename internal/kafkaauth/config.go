// Package kafkaauth configures the authentication of a Kafka client at its brokers, and TLS: from environment
// variables (Read), or from the flags of a command.
package kafkaauth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/twmb/franz-go/pkg/kgo"
	saslaws "github.com/twmb/franz-go/pkg/sasl/aws"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Method is a method of authentication.
type Method string

// The methods.
const (
	None     Method = "none"
	IAM      Method = "iam"           // AWS credentials; MSK only
	SCRAM512 Method = "scram-sha-512" // username and password; the one of MSK
	SCRAM256 Method = "scram-sha-256"
	Plain    Method = "plain"
	MTLS     Method = "mtls" // a client certificate
)

// Methods returns all methods.
func Methods() []Method { return []Method{None, IAM, SCRAM512, SCRAM256, Plain, MTLS} }

// TLS tells whether connections are encrypted.
type TLS int

// The values of TLS.
const (
	TLSDefault TLS = iota // with every method except None, and with a CA or a client certificate
	TLSOn
	TLSOff // not with IAM and MTLS, and with Plain only for brokers on this machine
)

// Config is the configuration of authentication and TLS. Check validates it.
type Config struct {
	Brokers []string // host:port
	Method  Method   // "" is None
	TLS     TLS
	CA      string // the certificates to trust, in PEM, or their file; "": the system's

	// Certificate and Key are the client's certificate, followed by the intermediate certificates, and its
	// private key, not encrypted: each in PEM, or its file. MTLS needs them; they are also used with the
	// methods for which a broker wants both. A file is read for each connection.
	Certificate, Key string

	// Username and Password are for SCRAM and Plain.
	Username, Password string

	// SecretARN is a secret in Secrets Manager with username and password, or certificate and privateKey, as
	// an event source mapping has them. It replaces the fields above. It is read for new connections, at most
	// every 30 s.
	SecretARN string

	// AWS is used by IAM and for the secret. See NeedsAWS.
	AWS aws.Config
}

// NeedsAWS reports whether Options uses the field AWS.
func (c *Config) NeedsAWS() bool { return c.Method == IAM || c.SecretARN != "" }

// encrypted reports whether connections use TLS.
func (c *Config) encrypted() bool {
	if c.TLS == TLSDefault {
		return c.method() != None || c.CA != "" || c.Certificate != ""
	}
	return c.TLS == TLSOn
}

func (c *Config) method() Method {
	if c.Method == "" {
		return None
	}
	return c.Method
}

// dialTimeout is the timeout of a connection, including the TLS handshake and, for it, the request for the
// secret.
const dialTimeout = 5 * time.Second

// Options returns the options of a client with this configuration, including its brokers. It fails with all
// errors that Check finds. Credentials are determined when a connection is opened, so that changes are
// noticed.
func (c *Config) Options() ([]kgo.Opt, error) {
	var errs []error
	for _, err := range c.Check() {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	login := newLogin(c)
	opts := []kgo.Opt{kgo.SeedBrokers(c.Brokers...), kgo.DialTimeout(dialTimeout)}
	if c.encrypted() {
		conf, err := c.tlsConfig(login)
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(conf))
	}
	switch c.method() {
	case IAM:
		opts = append(opts, kgo.SASL(saslaws.ManagedStreamingIAM(login.iam)))
	case SCRAM512:
		opts = append(opts, kgo.SASL(scram.Sha512(login.scram)))
	case SCRAM256:
		opts = append(opts, kgo.SASL(scram.Sha256(login.scram)))
	case Plain:
		opts = append(opts, kgo.SASL(plain.Plain(login.plain)))
	case None, MTLS:
	}
	return opts, nil
}

func (c *Config) tlsConfig(l *login) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		var err error
		if conf.RootCAs, err = pool(c.CA); err != nil {
			return nil, fmt.Errorf("the CA of Kafka's brokers: %w", err)
		}
	}
	if c.method() == MTLS || c.Certificate != "" {
		conf.GetClientCertificate = func(req *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return l.certificate(req.Context())
		}
	}
	return conf, nil
}

// pool returns the certificates of a PEM text or file.
func pool(pemOrFile string) (*x509.CertPool, error) {
	text, err := readPEM(pemOrFile)
	if err != nil {
		return nil, err
	}
	certs := x509.NewCertPool()
	if !certs.AppendCertsFromPEM(text) {
		return nil, errors.New("it contains no certificate in PEM")
	}
	return certs, nil
}
