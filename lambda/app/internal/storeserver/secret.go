package storeserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/awsclient"
)

// How long Secrets Manager may take, and how often it is asked for a password that the server goes on refusing.
const (
	secretTimeout  = 5 * time.Second
	secretAttempts = 3
	secretPause    = 5 * time.Second
)

// Login is a user and a password.
type Login struct{ User, Password string }

// content is what a secret holds: a URL, or the JSON that RDS and ElastiCache users keep.
type content struct {
	URL      string      `json:"url"`
	Host     string      `json:"host"`
	Port     json.Number `json:"port"` // a number, or one in quotes
	DBName   string      `json:"dbname"`
	Username string      `json:"username"`
	Password string      `json:"password"`
}

var errSecretForm = errors.New("it is neither a URL nor a JSON object with the texts url, host, port, dbname, username, password")

// parseContent reads a secret. Its errors repeat nothing of it.
func parseContent(text string) (content, error) {
	var c content
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "{") {
		c.URL = text
		return c, nil
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, errSecretForm // the parser's error may quote the text
	}
	return c, nil
}

// login returns the secret's own user and password; what it lacks is that of the URL.
func (c *content) login(inURL *url.Userinfo) Login {
	l := Login{User: c.Username, Password: c.Password}
	if l.User == "" {
		l.User = inURL.Username()
	}
	if l.Password == "" {
		l.Password, _ = inURL.Password()
	}
	return l
}

// Secret is a login in Secrets Manager. After the server has refused it, it is read again: it may have been rotated.
type Secret struct {
	client *secretsmanager.Client
	arn    string

	mu      sync.Mutex
	refused bool
	tried   time.Time // to read it again
	last    Login
}

func newSecret(cfg aws.Config, arn string) *Secret {
	return &Secret{arn: arn, client: secretsmanager.NewFromConfig(cfg, func(o *secretsmanager.Options) {
		o.HTTPClient = awsclient.New(cfg.HTTPClient, dynamostore.AttemptTimeout)
		o.Retryer = retry.AddWithMaxAttempts(o.Retryer, secretAttempts)
	})}
}

func (s *Secret) read(ctx context.Context) (content, error) {
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	out, err := s.client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &s.arn})
	if err != nil {
		return content{}, fmt.Errorf("reading IDEMSK_STORE_SECRET_ARN (the function needs secretsmanager:GetSecretValue on it, kms:Decrypt on its key, "+
			"and in a VPC a way to Secrets Manager): %w", err)
	}
	if out.SecretString == nil {
		return content{}, fmt.Errorf("the secret %s is binary: %w", s.arn, errSecretForm)
	}
	c, err := parseContent(*out.SecretString)
	if err != nil {
		return content{}, fmt.Errorf("the secret %s: %w", s.arn, err)
	}
	return c, nil
}

// Login returns the login for a new connection: atStart, until it was refused.
func (s *Secret) Login(ctx context.Context, atStart Login) (Login, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == (Login{}) {
		s.last = atStart
	}
	if !s.refused || time.Since(s.tried) < secretPause {
		return s.last, nil
	}
	s.tried = time.Now()
	c, err := s.read(ctx)
	if err != nil {
		return Login{}, err
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return Login{}, fmt.Errorf("the secret %s: %w", s.arn, errSecretForm)
	}
	s.refused = false
	l := c.login(u.User)
	if l.User == "" {
		l.User = atStart.User
	}
	if l.Password == "" {
		return Login{}, fmt.Errorf("the secret %s: %w", s.arn, errNoPassword)
	}
	s.last = l
	return l, nil
}

// Refuse notes that the server did not take the login.
func (s *Secret) Refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = true
}
