package storeserver

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/test/apptest"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *Secret {
	t.Helper()
	cfg, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return newSecret(cfg, apptest.SecretARN)
}

func TestLoginIsReadAgainOnlyAfterItWasRefused(t *testing.T) {
	all := apptest.NewSecrets(t, `{"username":"u","password":"two"}`)
	s := open(t)
	first := Login{"u", "one"}
	for range 2 {
		apptest.Equal(t, "login", apptest.Must(s.Login(t.Context(), first)), first)
	}
	apptest.Equal(t, "reads", all.Count(), 0)
	s.Refuse()
	for range 2 {
		apptest.Equal(t, "login", apptest.Must(s.Login(t.Context(), first)), Login{"u", "two"})
	}
	apptest.Equal(t, "reads", all.Count(), 1)
	s.Refuse()
	apptest.Equal(t, "login that is refused soon after", apptest.Must(s.Login(t.Context(), first)),
		Login{"u", "two"})
	apptest.Equal(t, "reads", all.Count(), 1)
	s.tried = s.tried.Add(-secretPause)
	apptest.Equal(t, "login", apptest.Must(s.Login(t.Context(), first)), Login{"u", "two"})
	s.tried = s.tried.Add(-secretPause)
	apptest.Equal(t, "login that was not refused since", apptest.Must(s.Login(t.Context(), first)),
		Login{"u", "two"})
	apptest.Equal(t, "reads", all.Count(), 2)
	s.Refuse()
	all.Hold("postgres://:three@h/d")
	apptest.Equal(t, "login of a URL without a user", apptest.Must(s.Login(t.Context(), first)),
		Login{"u", "three"})
}

func TestUnreadableSecret(t *testing.T) {
	all := apptest.NewSecrets(t, "")
	for name, tc := range map[string]struct {
		status int
		answer map[string]any
		says   string
	}{
		"no permission": {http.StatusBadRequest,
			map[string]any{"__type": "AccessDeniedException", "Message": "no"},
			"secretsmanager:GetSecretValue"},
		"no such": {http.StatusBadRequest,
			map[string]any{"__type": "ResourceNotFoundException", "Message": "no"},
			"ResourceNotFoundException"},
		"binary":      {http.StatusOK, map[string]any{"SecretBinary": "aHVzaA=="}, "binary"},
		"no password": {http.StatusOK, map[string]any{"SecretString": `{"host":"hush"}`}, "no password"},
		"no JSON":     {http.StatusOK, map[string]any{"SecretString": `{"password":"hush`}, "neither a URL nor"},
		"no URL": {http.StatusOK, map[string]any{"SecretString": "postgres://u:hush%zz@h"},
			"neither a URL nor"},
	} {
		t.Run(name, func(t *testing.T) {
			all.Set(tc.status, tc.answer)
			s := open(t)
			s.Refuse()
			_, err := s.Login(t.Context(), Login{"u", "one"})
			if err == nil || !strings.Contains(err.Error(), tc.says) ||
				strings.Contains(err.Error(), "hush") ||
				!strings.Contains(err.Error(), "IDEMSK_STORE_SECRET_ARN") &&
					!strings.Contains(err.Error(), apptest.SecretARN) {
				t.Errorf("error %v; want %q, which secret it is, and nothing of what it holds", err, tc.says)
			}
		})
	}
}

func TestSecretIsReadAfterConnectionsFallSilent(t *testing.T) {
	t.Parallel()
	content := &apptest.Secrets{}
	content.Hold(`{"username":"u","password":"p"}`)
	proxy, url := faultproxy.Serve(t, content)
	cfg := aws.Config{Region: "eu-central-1", BaseEndpoint: &url,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
	s := newSecret(cfg, apptest.SecretARN)
	proxy.WantToGoOn(t, 15*dynamostore.AttemptTimeout, func(ctx context.Context) error {
		c, err := s.read(ctx)
		if err == nil {
			apptest.Equal(t, "user", c.Username, "u")
		}
		return err
	})
}
