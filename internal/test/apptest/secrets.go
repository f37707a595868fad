package apptest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// SecretARN is the ARN of the only secret.
const SecretARN = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:payments/database-AbCdEf" //nolint:gosec // a name, no secret

// Secrets is a fake Secrets Manager with one secret.
type Secrets struct {
	mu     sync.Mutex
	answer map[string]any
	status int
	reads  int
}

// NewSecrets starts the fake, and sets the SDK's variables to its address.
func NewSecrets(t *testing.T, content string) *Secrets {
	t.Helper()
	s := &Secrets{}
	s.Hold(content)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_SECRETS_MANAGER": server.URL, "AWS_REGION": "eu-central-1",
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_CONFIG_FILE": "/dev/null",
	} {
		t.Setenv(name, value)
	}
	return s
}

// Set sets the response to every read.
func (s *Secrets) Set(status int, answer map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.answer = status, answer
}

// Hold sets the text of the secret.
func (s *Secrets) Hold(content string) {
	s.Set(http.StatusOK, map[string]any{"ARN": SecretARN, "SecretString": content})
}

// Count returns the number of reads of the secret.
func (s *Secrets) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// ServeHTTP implements http.Handler.
func (s *Secrets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if err != nil || r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" ||
		!strings.Contains(string(body), SecretARN) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(s.status)
	_ = json.NewEncoder(w).Encode(s.answer)
}
