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

	"github.com/idemsk/idemsk/internal/awsclient/secret"
)

// secretPause is the minimum time between two reads of a password that the server keeps refusing.
const secretPause = 5 * time.Second

// Login is a user and a password.
type Login struct{ User, Password string }

// content is the value of a secret: a URL, or the JSON of a secret of RDS or ElastiCache.
type content struct {
	URL      string      `json:"url"`
	Host     string      `json:"host"`
	Port     json.Number `json:"port"` // a number, or one in quotes
	DBName   string      `json:"dbname"`
	Username string      `json:"username"`
	Password string      `json:"password"`
}

var errSecretForm = errors.New("it is neither a URL nor a JSON object with the texts url, host, port, dbname, username, password")

// parseContent parses a secret. Its errors do not contain any part of it.
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

// login returns the secret's user and password, or those of the URL for what the secret does not contain.
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

// Secret is a login in Secrets Manager. It is read again after the server has refused the login, because it
// may have been rotated.
type Secret struct {
	reader *secret.Reader

	mu      sync.Mutex
	refused bool
	tried   time.Time // when it was last read again
	last    Login
}

func newSecret(cfg aws.Config, arn string) *Secret {
	return &Secret{reader: secret.New(cfg, arn)}
}

func (s *Secret) read(ctx context.Context) (content, error) {
	text, err := s.reader.Read(ctx)
	if err != nil {
		return content{}, err
	}
	if text == "" {
		return content{}, fmt.Errorf("the secret %s is binary or empty: %w", s.reader.ARN, errSecretForm)
	}
	c, err := parseContent(text)
	if err != nil {
		return content{}, fmt.Errorf("the secret %s: %w", s.reader.ARN, err)
	}
	return c, nil
}

// Login returns the login for a new connection. It is atStart until the server has refused it.
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
		return Login{}, fmt.Errorf("the secret %s: %w", s.reader.ARN, errSecretForm)
	}
	s.refused = false
	l := c.login(u.User)
	if l.User == "" {
		l.User = atStart.User
	}
	if l.Password == "" {
		return Login{}, fmt.Errorf("the secret %s: %w", s.reader.ARN, errNoPassword)
	}
	s.last = l
	return l, nil
}

// Refuse records that the server refused the login.
func (s *Secret) Refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = true
}
