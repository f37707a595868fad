//go:build postgres || redis

package app

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

const secretARN = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:payments/database-AbCdEf"

// secrets is a Secrets Manager with one secret.
type secrets struct {
	mu     sync.Mutex
	answer map[string]any
	status int
	reads  int
}

// newSecrets starts one, and points the SDK at it.
func newSecrets(t *testing.T, content string) *secrets {
	t.Helper()
	s := &secrets{}
	s.hold(content)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_SECRETS_MANAGER": server.URL, "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_CONFIG_FILE": "/dev/null",
	} {
		t.Setenv(name, value)
	}
	return s
}

func (s *secrets) set(status int, answer map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.answer = status, answer
}

func (s *secrets) hold(content string) {
	s.set(http.StatusOK, map[string]any{"ARN": secretARN, "SecretString": content})
}

func (s *secrets) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// ServeHTTP implements http.Handler.
func (s *secrets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if err != nil || r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" || !strings.Contains(string(body), secretARN) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(s.status)
	_ = json.NewEncoder(w).Encode(s.answer)
}

func (s *secrets) open(t *testing.T) *secret {
	return newSecret(must(loadOnce()(t.Context())), secretARN)
}

func TestALoginIsReadAgainOnlyAfterItWasRefused(t *testing.T) {
	all := newSecrets(t, `{"username":"u","password":"two"}`)
	s := all.open(t)
	first := login{"u", "one"}
	for range 2 {
		equal(t, "login", must(s.login(t.Context(), first)), first)
	}
	equal(t, "reads", all.count(), 0)
	s.refuse()
	for range 2 {
		equal(t, "login", must(s.login(t.Context(), first)), login{"u", "two"})
	}
	equal(t, "reads", all.count(), 1)
	s.refuse()
	equal(t, "login that is refused soon after", must(s.login(t.Context(), first)), login{"u", "two"})
	equal(t, "reads", all.count(), 1)
	s.tried = s.tried.Add(-secretPause)
	equal(t, "login", must(s.login(t.Context(), first)), login{"u", "two"})
	s.tried = s.tried.Add(-secretPause)
	equal(t, "login that was not refused since", must(s.login(t.Context(), first)), login{"u", "two"})
	equal(t, "reads", all.count(), 2)
	s.refuse()
	all.hold("postgres://:three@h/d")
	equal(t, "login of a URL without a user", must(s.login(t.Context(), first)), login{"u", "three"})
}

func TestASecretThatCannotBeRead(t *testing.T) {
	all := newSecrets(t, "")
	for name, tc := range map[string]struct {
		status int
		answer map[string]any
		says   string
	}{
		"no permission": {http.StatusBadRequest, map[string]any{"__type": "AccessDeniedException", "Message": "no"}, "secretsmanager:GetSecretValue"},
		"no such":       {http.StatusBadRequest, map[string]any{"__type": "ResourceNotFoundException", "Message": "no"}, "ResourceNotFoundException"},
		"binary":        {http.StatusOK, map[string]any{"SecretBinary": "aHVzaA=="}, "binary"},
		"no password":   {http.StatusOK, map[string]any{"SecretString": `{"host":"hush"}`}, "no password"},
		"no JSON":       {http.StatusOK, map[string]any{"SecretString": `{"password":"hush`}, "neither a URL nor"},
		"no URL":        {http.StatusOK, map[string]any{"SecretString": "postgres://u:hush%zz@h"}, "neither a URL nor"},
	} {
		t.Run(name, func(t *testing.T) {
			all.set(tc.status, tc.answer)
			s := all.open(t)
			s.refuse()
			_, err := s.login(t.Context(), login{"u", "one"})
			if err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "IDEMSK_STORE_SECRET_ARN") && !strings.Contains(err.Error(), secretARN) {
				t.Errorf("error %v; want %q, which secret it is, and nothing of what it holds", err, tc.says)
			}
		})
	}
}

func TestASecretIsReadWhenTheNetworkHasFallenSilent(t *testing.T) {
	t.Parallel()
	content := &secrets{}
	content.hold(`{"username":"u","password":"p"}`)
	proxy, awsCfg := behindProxy(t, content)
	s := newSecret(awsCfg, secretARN)
	goesOn(t, proxy, func(ctx context.Context) error {
		c, err := s.read(ctx)
		if err == nil {
			equal(t, "user", c.Username, "u")
		}
		return err
	})
}

// settle delivers the event until it succeeds: the first delivery may find the login refused.
func (f *function) settle(t *testing.T) {
	t.Helper()
	var err error
	for range 2 {
		if _, err = f.Invoke(t.Context(), []byte(event)); err == nil {
			return
		}
	}
	t.Fatal(err)
}
