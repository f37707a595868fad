package kafkaauth

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	saslaws "github.com/twmb/franz-go/pkg/sasl/aws"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/idemsk/idemsk/internal/awsclient/secret"
)

// content is the value of the secret.
type content struct {
	Username    string `json:"username"`
	Password    string `json:"password"`
	Certificate string `json:"certificate"` // in PEM, followed by the intermediate certificates
	PrivateKey  string `json:"privateKey"`  // in PEM, not encrypted
}

// maxAge is how long a secret is used before it is read again.
const maxAge = 30 * time.Second

// credentialTimeout bounds the search for AWS credentials.
const credentialTimeout = 20 * time.Second

// login determines the credentials of a new connection.
type login struct {
	given            content // if there is no secret
	certFile, key    string  // Config.Certificate and Key
	secret           *secret.Reader
	credentialsOfAWS aws.CredentialsProvider

	mu   sync.Mutex
	last content
	at   time.Time
}

func newLogin(c *Config) *login {
	l := &login{
		given: content{Username: c.Username, Password: c.Password}, certFile: c.Certificate, key: c.Key,
		credentialsOfAWS: c.AWS.Credentials,
	}
	if c.SecretARN != "" {
		l.secret = secret.New(c.AWS, c.SecretARN)
	}
	return l
}

// read returns the secret's content, which connections that are opened at the same time read once.
func (l *login) read(ctx context.Context) (content, error) {
	if l.secret == nil {
		return l.given, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.at.IsZero() && time.Since(l.at) < maxAge {
		return l.last, nil
	}
	text, err := l.secret.Read(ctx)
	if err != nil {
		return content{}, err
	}
	var c content
	if err := json.Unmarshal([]byte(text), &c); err != nil { // the error may quote the text
		return content{}, fmt.Errorf("the secret %s is not JSON: want an object with username and password, or certificate and privateKey", l.secret.ARN)
	}
	l.last, l.at = c, time.Now()
	return c, nil
}

func (l *login) password(ctx context.Context) (content, error) {
	c, err := l.read(ctx)
	if err == nil && (c.Username == "" || c.Password == "") { // Check has seen to those that are given
		err = fmt.Errorf("the secret %s has no username or no password", l.secret.ARN)
	}
	return c, err
}

func (l *login) scram(ctx context.Context) (scram.Auth, error) {
	c, err := l.password(ctx)
	return scram.Auth{User: c.Username, Pass: c.Password}, err
}

func (l *login) plain(ctx context.Context) (plain.Auth, error) {
	c, err := l.password(ctx)
	return plain.Auth{User: c.Username, Pass: c.Password}, err
}

func (l *login) certificate(ctx context.Context) (*tls.Certificate, error) {
	if l.certFile != "" {
		cert, err := readKeyPair(l.certFile, l.key)
		if err != nil {
			return nil, fmt.Errorf("the client's certificate and key for Kafka: %w", err)
		}
		return cert, nil
	}
	c, err := l.read(ctx)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair([]byte(c.Certificate), []byte(c.PrivateKey))
	if err != nil { // the error does not contain the key
		return nil, fmt.Errorf("the secret %s: certificate and privateKey, in PEM, the key not encrypted: %w",
			l.secret.ARN, err)
	}
	return &cert, nil
}

func (l *login) iam(ctx context.Context) (saslaws.Auth, error) {
	if l.credentialsOfAWS == nil {
		return saslaws.Auth{}, errors.New("there are no AWS credentials for Kafka's authentication iam")
	}
	ctx, cancel := context.WithTimeout(ctx, credentialTimeout)
	defer cancel()
	c, err := l.credentialsOfAWS.Retrieve(ctx)
	if err != nil {
		return saslaws.Auth{}, fmt.Errorf("AWS credentials for Kafka's authentication iam: %w", err)
	}
	return saslaws.Auth{AccessKey: c.AccessKeyID, SecretKey: c.SecretAccessKey, SessionToken: c.SessionToken},
		nil
}
