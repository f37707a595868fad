package schemaenv

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// keep is how long user and password of a secret are used. A schema is fetched once, so the secret is seldom
// read, and one that was changed is soon used.
const keep = time.Minute

// login adds user and password of a secret to the requests.
type login struct {
	read func(ctx context.Context) (string, error)
	arn  string

	mu    sync.Mutex
	known credentials
	until time.Time
}

// credentials are what a secret has, as those of the event source mappings for Kafka.
type credentials struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// add is an sr.PreReq.
func (l *login) add(r *http.Request) error {
	c, err := l.credentials(r.Context())
	if err != nil {
		return err
	}
	r.SetBasicAuth(c.Username, c.Password)
	return nil
}

func (l *login) credentials(ctx context.Context) (credentials, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.until) {
		return l.known, nil
	}
	text, err := l.read(ctx)
	if err != nil {
		return credentials{}, err
	}
	var c credentials
	if err := json.Unmarshal([]byte(text), &c); err != nil || c.Username == "" || c.Password == "" {
		return credentials{}, fmt.Errorf("the secret %s: want JSON with username and password", l.arn)
	}
	l.known, l.until = c, time.Now().Add(keep)
	return c, nil
}
