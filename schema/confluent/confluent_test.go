package confluent_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/idemsk/idemsk/schema/confluent"
)

// An answer of more than 4 MiB is an error, also with TLS and with an HTTP client of the program. The text of
// an error is cut.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	status, size := http.StatusOK, 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		// the client may not read it all
		_, _ = fmt.Fprintf(w, `{"schema":"%s"}`, strings.Repeat("x", size-len(`{"schema":""}`)))
	}))
	t.Cleanup(server.Close)
	trusted := server.Client().Transport.(*http.Transport).TLSClientConfig
	for name, option := range map[string]sr.ClientOpt{
		"its own": sr.HTTPClient(server.Client()),
		"TLS":     sr.DialTLSConfig(&tls.Config{RootCAs: trusted.RootCAs}),
	} {
		registry, err := confluent.New([]string{server.URL}, option)
		if err != nil {
			t.Fatal(err)
		}
		status = http.StatusOK
		for _, size = range []int{4 << 20, 4<<20 + 1} {
			s, err := registry.Fetch(t.Context(), "1")
			if within := size == 4<<20; within && (err != nil || len(s.Text) < 4<<20-100) ||
				!within && (err == nil || !strings.Contains(err.Error(), "more than 4194304 bytes")) {
				t.Errorf("%s: %d bytes: %v", name, size, err)
			}
		}
		status = http.StatusInternalServerError
		if _, err := registry.Fetch(t.Context(), "1"); err == nil || len(err.Error()) > 10_000 ||
			!strings.Contains(err.Error(), "500") {
			t.Errorf("%s: an error of %d bytes", name, len(fmt.Sprint(err)))
		}
	}
}

// User and password of a URL are sent, and are in no error and no name.
func TestUserOfTheURLIsInNoError(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "us3r" || password != "pa55" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = fmt.Fprint(w, `{"schema":"\"string\""}`)
	}))
	t.Cleanup(server.Close)
	with := func(user string) string { return strings.Replace(server.URL, "://", "://"+user+"@", 1) }
	registry, err := confluent.New([]string{with("us3r:pa55"), server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registry.Fetch(t.Context(), "1"); err != nil {
		t.Error(err)
	}
	server.Close()
	_, silent := registry.Fetch(t.Context(), "1")
	errs := []error{silent, fmt.Errorf("%v", registry)}
	for _, urls := range [][]string{
		{"us3r:pa55@registry.example.com"}, {"http://us3r:pa55@a b"}, {with("us3r:pa55"), with("us3r:pa56")},
		{server.URL + "?apikey=pa55"},
	} {
		_, err := confluent.New(urls)
		errs = append(errs, err)
	}
	for _, err := range errs {
		if err == nil || strings.Contains(err.Error(), "pa55") || strings.Contains(err.Error(), "us3r") {
			t.Errorf("%v; want an error without user and password", err)
		}
	}
}
