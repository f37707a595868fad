package kafkaauth

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/idemsk/idemsk/internal/awsclient/secret"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
)

// secretsManager is a fake of Secrets Manager with one secret.
type secretsManager struct {
	secret atomic.Pointer[string]
	asked  atomic.Int32
}

func newSecretsManager(t *testing.T) (s *secretsManager, url string) {
	t.Helper()
	s = &secretsManager{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL
}

func (s *secretsManager) hold(text string) { s.secret.Store(&text) }

// ServeHTTP implements http.Handler.
func (s *secretsManager) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.asked.Add(1)
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_ = json.NewEncoder(w).Encode(map[string]string{"SecretString": *s.secret.Load()})
}

// at returns the login with the secret of the fake at a URL.
func at(url string) *login {
	return newLogin(&Config{Method: SCRAM512, SecretARN: "arn:of:the:secret", AWS: aws.Config{
		BaseEndpoint: &url, Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	}})
}

// Connections that are opened at the same time read the secret once. Those that are opened later read it
// again, because it may have been rotated.
func TestSecretIsReadAgain(t *testing.T) {
	t.Parallel()
	s, url := newSecretsManager(t)
	s.hold(`{"username":"relay","password":"old"}`)
	l := at(url)
	want := func(password string, asked int32) {
		t.Helper()
		if got, err := l.scram(t.Context()); err != nil || got.Pass != password || s.asked.Load() != asked {
			t.Errorf("the password is %q, read %d times, %v; want %q, %d", got.Pass, s.asked.Load(), err,
				password, asked)
		}
	}
	want("old", 1)
	s.hold(`{"username":"relay","password":"new"}`)
	want("old", 1)
	l.at = l.at.Add(-maxAge)
	want("new", 2)
}

func TestSecretIsReadAfterConnectionsFallSilent(t *testing.T) {
	t.Parallel()
	s, url := newSecretsManager(t)
	s.hold(`{"username":"relay","password":"p"}`)
	proxy, url := faultproxy.StartURL(t, url)
	t.Cleanup(func() { proxy.Existing(faultproxy.Reset) })
	l := at(url)
	read := func() error {
		t.Helper()
		begun := time.Now()
		l.at = time.Time{} // as if it were old
		_, err := l.plain(t.Context())
		if took := time.Since(begun); took > secret.Timeout+time.Second {
			t.Errorf("it took %v, want at most %v", took, secret.Timeout)
		}
		return err
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	proxy.Existing(faultproxy.Silent)
	if err := read(); err != nil {
		t.Errorf("over a new connection: %v", err)
	}
	proxy.Existing(faultproxy.Silent)
	proxy.New(faultproxy.Silent)
	if err := read(); err == nil {
		t.Error("nothing answers, and there is no error")
	}
}

func TestAWSCredentialsAreThoseOfTheConnection(t *testing.T) {
	t.Parallel()
	session := "one"
	provider := aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the search for credentials has no deadline")
		}
		if session == "" {
			return aws.Credentials{}, errors.New("expired")
		}
		return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key", SessionToken: session}, nil
	})
	l := newLogin(&Config{Method: IAM, AWS: aws.Config{Credentials: provider}})
	for _, session = range []string{"one", "two"} {
		if got, err := l.iam(t.Context()); err != nil || got.AccessKey != "id" || got.SecretKey != "key" ||
			got.SessionToken != session {
			t.Errorf("%+v, %v; want the session %s", got, err, session)
		}
	}
	session = ""
	if _, err := l.iam(t.Context()); err == nil || !strings.Contains(err.Error(), "AWS credentials") ||
		!strings.Contains(err.Error(), "expired") {
		t.Errorf("%v", err)
	}
	if _, err := newLogin(&Config{Method: IAM}).iam(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "no AWS credentials") {
		t.Errorf("%v", err)
	}
}
