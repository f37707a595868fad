package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/twmb/franz-go/pkg/kgo"
	saslaws "github.com/twmb/franz-go/pkg/sasl/aws"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/idemsk/idemsk/internal/secret"
)

// dialTimeout is the timeout of a connection, including the request for the secret.
const dialTimeout = 5 * time.Second

// options returns the options of the Kafka client. Credentials and secrets are read when a connection is opened, so that
// changes are noticed.
func (s *security) options(cfg aws.Config) ([]kgo.Opt, error) {
	credentials := &login{reader: secret.New(cfg, s.secret, "IDEMSK_KAFKA_SECRET_ARN")}
	var opts []kgo.Opt
	if s.tls {
		conf, err := s.tlsConfig(credentials)
		if err != nil {
			return nil, err
		}
		dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: conf}
		opts = append(opts, kgo.Dialer(dialer.DialContext))
	}
	switch s.auth {
	case authIAM:
		opts = append(opts, kgo.SASL(saslaws.ManagedStreamingIAM(func(ctx context.Context) (saslaws.Auth, error) { return iam(ctx, cfg) })))
	case authSCRAM512:
		opts = append(opts, kgo.SASL(scram.Sha512(credentials.scram)))
	case authSCRAM256:
		opts = append(opts, kgo.SASL(scram.Sha256(credentials.scram)))
	}
	return opts, nil
}

func (s *security) tlsConfig(credentials *login) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(s.ca) > 0 {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(s.ca) {
			return nil, errors.New("IDEMSK_KAFKA_CA contains no certificate in PEM")
		}
	}
	if s.auth == authMTLS {
		conf.GetClientCertificate = func(req *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return credentials.certificate(req.Context())
		}
	}
	return conf, nil
}

func iam(ctx context.Context, cfg aws.Config) (saslaws.Auth, error) {
	if cfg.Credentials == nil {
		return saslaws.Auth{}, errors.New("there are no AWS credentials for IDEMSK_KAFKA_AUTH=iam")
	}
	c, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return saslaws.Auth{}, fmt.Errorf("AWS credentials for IDEMSK_KAFKA_AUTH=iam: %w", err)
	}
	return saslaws.Auth{AccessKey: c.AccessKeyID, SecretKey: c.SecretAccessKey, SessionToken: c.SessionToken}, nil
}

// content is the value of the secret.
type content struct {
	Username    string `json:"username"`
	Password    string `json:"password"`
	Certificate string `json:"certificate"` // in PEM, followed by the intermediate certificates
	PrivateKey  string `json:"privateKey"`  // in PEM, not encrypted
}

// fresh is how long a secret is used before it is read again.
const fresh = 30 * time.Second

// login is the content of a secret in Secrets Manager.
type login struct {
	reader *secret.Reader

	mu   sync.Mutex
	last content
	at   time.Time
}

func (s *login) read(ctx context.Context) (content, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.at.IsZero() && time.Since(s.at) < fresh {
		return s.last, nil
	}
	text, err := s.reader.Read(ctx)
	if err != nil {
		return content{}, err
	}
	var c content
	if err := json.Unmarshal([]byte(text), &c); err != nil { // the error may quote the text
		return content{}, fmt.Errorf("the secret %s is not JSON: want an object with username and password, or certificate and privateKey", s.reader.ARN)
	}
	s.last, s.at = c, time.Now()
	return c, nil
}

func (s *login) scram(ctx context.Context) (scram.Auth, error) {
	c, err := s.read(ctx)
	if err == nil && (c.Username == "" || c.Password == "") {
		err = fmt.Errorf("the secret %s has no username or no password", s.reader.ARN)
	}
	return scram.Auth{User: c.Username, Pass: c.Password}, err
}

func (s *login) certificate(ctx context.Context) (*tls.Certificate, error) {
	c, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair([]byte(c.Certificate), []byte(c.PrivateKey))
	if err != nil { // the error does not contain the key
		return nil, fmt.Errorf("the secret %s: certificate and privateKey, in PEM, the key not encrypted: %w", s.reader.ARN, err)
	}
	return &cert, nil
}
