package webcall_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk-consumer/internal/webcall"
)

// No error of a call or of a URL has what the URL has beside the scheme and the host, and none has the body of
// an answer.
func TestSecretsOfTheURL(t *testing.T) {
	t.Parallel()
	secrets := []string{"us3r", "pa55", "t0ken", "p4th", "fr4gment", "alice"}
	const beside = "us3r:pa55@"
	const path = "/p4th?token=t0ken#fr4gment"
	wantNone := func(what string, err error) {
		if err == nil {
			t.Errorf("%s: no error", what)
			return
		}
		for _, secret := range secrets {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v has %s", what, err, secret)
			}
		}
	}
	for what, answer := range map[string]http.HandlerFunc{
		"a failure": func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "us3r" || password != "pa55" || r.URL.RawQuery != "token=t0ken" {
				t.Errorf("the request has the URL %s and the user %s", r.URL, user)
			}
			http.Error(w, "no such account: alice, "+r.URL.String(), http.StatusInternalServerError)
		},
		"a rejection": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, r.URL.String(), http.StatusUnprocessableEntity)
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.String()+"&", http.StatusFound)
		},
		"a timeout":         func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"a lost connection": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a large answer":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 6<<20+101)) },
		"an invalid redirect": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://%")
			w.WriteHeader(http.StatusFound)
		},
	} {
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			answer(w, r)
		}))
		t.Cleanup(service.Close)
		_, err := clientOf(t, "http://"+beside+strings.TrimPrefix(service.URL, "http://")+path,
			100*time.Millisecond).Call(t.Context(), []byte("{}"))
		wantNone(what, err)
	}
	_, err := clientOf(t, "http://"+beside+"127.0.0.1:1"+path, patience).Call(t.Context(), nil)
	wantNone("nobody listens", err)
	_, err = clientOf(t, "http://"+beside+"service.invalid"+path, patience).Call(t.Context(), nil)
	wantNone("no such host", err)
	for _, address := range []string{"http://" + beside + "a b" + path, "http://" + beside + "a:t0ken" + path,
		"ftp://" + beside + "a" + path, "http://us3r:pa55", "://" + beside + "a" + path} {
		_, err := webcall.New(address, patience)
		wantNone(address, err)
	}
}
