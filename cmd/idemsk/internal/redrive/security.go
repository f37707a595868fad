package redrive

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	saslaws "github.com/twmb/franz-go/pkg/sasl/aws"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The mechanisms that Security.SASL can name.
const (
	ScramSHA512 = "scram-sha-512"
	ScramSHA256 = "scram-sha-256"
	Plain       = "plain"
	AWSIAM      = "aws-iam"
)

// Security is how to prove to a cluster who one is, and the other way round.
type Security struct {
	TLS                bool
	CA, Cert, Key      string // files in PEM
	SASL               string // a mechanism, or ""
	Username, Password string // for all but AWSIAM
	AWS                aws.CredentialsProvider
}

// encrypted reports whether TLS is used: also where something asks for it that makes no sense without.
func (s *Security) encrypted() bool {
	return s.TLS || s.CA != "" || s.Cert != "" || s.SASL == AWSIAM
}

// dialTimeout is for a connection with TLS to be made.
const dialTimeout = 10 * time.Second

// Options are the client's options that prove it.
func (s *Security) Options() ([]kgo.Opt, error) {
	var opts []kgo.Opt
	if s.encrypted() {
		cfg, err := s.tls()
		if err != nil {
			return nil, err
		}
		dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: cfg}
		opts = append(opts, kgo.Dialer(dialer.DialContext))
	}
	if s.SASL != "" {
		mechanism, err := s.mechanism()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, nil
}

func (s *Security) tls() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		pem, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, fmt.Errorf("the CA certificates: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the CA certificates: %s has none in PEM format", s.CA)
		}
	}
	if s.Cert != "" || s.Key != "" {
		cert, err := tls.LoadX509KeyPair(s.Cert, s.Key)
		if err != nil {
			return nil, fmt.Errorf("the client's certificate and key: %w", err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, nil
}

func (s *Security) mechanism() (sasl.Mechanism, error) {
	if s.SASL == AWSIAM {
		return saslaws.ManagedStreamingIAM(s.iam), nil
	}
	if s.Username == "" || s.Password == "" {
		return nil, errors.New("SASL needs a user and a password")
	}
	switch s.SASL {
	case ScramSHA512:
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha512Mechanism(), nil
	case ScramSHA256:
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha256Mechanism(), nil
	case Plain:
		return plain.Auth{User: s.Username, Pass: s.Password}.AsMechanism(), nil
	}
	return nil, fmt.Errorf("the SASL mechanism is %q: want %s, %s, %s or %s", s.SASL, ScramSHA512, ScramSHA256, Plain, AWSIAM)
}

// credentialTimeout bounds the search for AWS credentials.
const credentialTimeout = 20 * time.Second

func (s *Security) iam(ctx context.Context) (saslaws.Auth, error) {
	ctx, cancel := context.WithTimeout(ctx, credentialTimeout)
	defer cancel()
	c, err := s.AWS.Retrieve(ctx)
	if err != nil {
		return saslaws.Auth{}, fmt.Errorf("AWS credentials for the cluster: %w", err)
	}
	return saslaws.Auth{AccessKey: c.AccessKeyID, SecretKey: c.SecretAccessKey, SessionToken: c.SessionToken}, nil
}
