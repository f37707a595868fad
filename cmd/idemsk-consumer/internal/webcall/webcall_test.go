package webcall_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/cmd/idemsk-consumer/internal/webcall"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

// run runs the tests with the certificate of TLS servers, which all have the same one, as the only authority.
func run(m *testing.M) int {
	service := httptest.NewTLSServer(nil)
	service.Close()
	file := filepath.Join(os.TempDir(), fmt.Sprint("webcall-", os.Getpid(), ".pem"))
	defer func() { _ = os.Remove(file) }()
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: service.Certificate().Raw})
	if err := errors.Join(os.WriteFile(file, block, 0o600), os.Setenv("SSL_CERT_FILE", file)); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

const patience = time.Minute // of a client that gets an answer

// client returns a client of a service with a handler.
func client(t *testing.T, timeout time.Duration, handler http.HandlerFunc) *webcall.Client {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise its context does not end with the connection
		handler(w, r)
	}))
	t.Cleanup(service.Close)
	return clientOf(t, service.URL, timeout)
}

func clientOf(t *testing.T, url string, timeout time.Duration) *webcall.Client {
	t.Helper()
	c, err := webcall.New(url, timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// classOf returns the class of an error, with its delay, and whether its outcome is unknown.
func classOf(err error) string {
	class := "failed"
	switch {
	case err == nil:
		return "ok"
	case idem.IsPermanent(err):
		class = "permanent"
	case idem.IsUnavailable(err):
		class = "unavailable"
	}
	if after := idem.RetryDelay(err); after > 0 {
		class += " " + after.String()
	}
	if idem.IsOutcomeUnknown(err) {
		class += ", unknown"
	}
	return class
}

// The status of an answer says what becomes of the call, and so does a document of a Lambda error, which
// counts more. A status that a proxy sends when the service's answer is missing leaves the outcome unknown.
func TestStatusOfAnAnswer(t *testing.T) {
	t.Parallel()
	const none = ""
	for _, tc := range []struct {
		status     int
		retryAfter string
		body       string
		class      string
	}{
		{200, none, `{"batchItemFailures":[]}`, "ok"}, {201, none, "created", "ok"}, {204, none, none, "ok"},
		{302, none, none, "failed"}, {404, none, "no such page", "failed"}, {401, none, none, "failed"},
		{409, none, none, "failed"}, {500, none, "oops", "failed"}, {501, none, none, "failed"},
		{507, none, none, "failed"},
		{408, none, none, "failed, unknown"}, {502, none, none, "failed, unknown"},
		{504, "7", none, "failed, unknown"}, {520, none, none, "failed, unknown"},
		{521, none, none, "failed, unknown"}, {522, none, none, "failed, unknown"},
		{523, none, none, "failed, unknown"}, {524, none, none, "failed, unknown"},
		{599, none, none, "failed, unknown"},
		{400, none, "bad", "permanent"}, {413, none, none, "permanent"}, {422, none, "{}", "permanent"},
		{503, none, none, "unavailable, unknown"}, {503, "7", none, "unavailable 7s, unknown"},
		{429, none, none, "unavailable"}, {429, "1", none, "unavailable 1s"}, {429, "soon", none, "unavailable"},
		{429, "-1", none, "unavailable"}, {429, "999999999", none, "unavailable 24h0m0s"},
		{429, "Sun, 06 Nov 1994 08:49:37 GMT", none, "unavailable"},
		{500, none, `{"errorType":"PermanentError","errorMessage":"closed"}`, "permanent"},
		{400, none, `{"errorType":"UnavailableError","errorMessage":"retry after 30s"}`, "unavailable 30s"},
		{503, none, `{"errorType":"UnavailableError","errorMessage":"overloaded"}`, "unavailable"},
		{500, none, `{"errorType":"ReadTimeout","errorMessage":"no answer of the bank"}`, "failed, unknown"},
		{422, none, `{"errorType":"ValueError","errorMessage":"x"}`, "permanent"},
		{200, none, `{"errorType":"UnavailableError","errorMessage":"overloaded"}`, "unavailable"},
		{200, none, `{"errorType":"ValueError","errorMessage":"x"}`, "failed"},
		{200, none, `{"errorType":"a type of order"}`, "ok"},
	} {
		c := client(t, patience, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("the request is %s of %q", r.Method, r.Header)
			}
			if tc.retryAfter != none {
				w.Header().Set("Retry-After", tc.retryAfter)
			}
			if tc.status == http.StatusFound {
				w.Header().Set("Location", "/elsewhere")
			}
			w.WriteHeader(tc.status)
			fmt.Fprint(w, tc.body)
		})
		answer, err := c.Call(t.Context(), []byte("{}"))
		if got := classOf(err); got != tc.class || err == nil && string(answer) != tc.body ||
			err != nil && !strings.Contains(err.Error(), fmt.Sprint("answered ", tc.status)) {
			t.Errorf("%d %s %s: %s, %s, %v; want %s", tc.status, tc.retryAfter, tc.body, answer, got, err,
				tc.class)
		}
	}
}

// A service that is silent, resets the connection or ends in its answer may have handled the records: the
// call has failed, and the client does not repeat it.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	hijack := func(w http.ResponseWriter) *net.TCPConn {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Fatal(err)
		}
		return conn.(*net.TCPConn)
	}
	for name, tc := range map[string]struct {
		lose func(w http.ResponseWriter, r *http.Request)
		says string
	}{
		"silent": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			"gave no answer within 100ms, and may still handle the records"},
		"silent in its answer": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("{"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "gave no answer within 100ms"},
		"closed": {func(w http.ResponseWriter, _ *http.Request) { _ = hijack(w).Close() }, "is lost: "},
		"reset": {func(w http.ResponseWriter, _ *http.Request) {
			conn := hijack(w)
			_ = conn.SetLinger(0)
			_ = conn.Close()
		}, "is lost: "},
		"ended in its answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		}, "is lost: "},
		"too large": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 6<<20+101))
		}, "exceeds 6291556 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			timeout := patience
			if strings.HasPrefix(name, "silent") {
				timeout = 100 * time.Millisecond
			}
			c := client(t, timeout, func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) > 1 { // the first one makes a connection that the second one uses again
					tc.lose(w, r)
				}
			})
			attempt(t, func(ctx context.Context) {
				if _, err := c.Call(ctx, []byte("{}")); err != nil {
					t.Error(err)
				}
				_, err := c.Call(ctx, []byte("{}"))
				if classOf(err) != "failed, unknown" || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%v; want a failure that says %q", err, tc.says)
				}
			})
			if n := calls.Load(); n != 2 {
				t.Errorf("the service was called %d times, want 2", n)
			}
		})
	}
}

// Over HTTP/2 too the outcome of a request that was sent is unknown if its answer is lost, on a new connection
// and on one that is used again, and the client does not repeat it.
func TestLostAnswersOverHTTP2(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	service := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if calls.Add(1); r.ProtoMajor != 2 {
			t.Errorf("the request is one of %s", r.Proto)
		}
		panic(http.ErrAbortHandler)
	}))
	service.EnableHTTP2 = true
	service.StartTLS()
	t.Cleanup(service.Close)
	c := clientOf(t, service.URL, patience)
	attempt(t, func(ctx context.Context) {
		for range 2 { // the stream is lost, not the connection
			if _, err := c.Call(ctx, []byte("{}")); classOf(err) != "failed, unknown" || !strings.Contains(fmt.Sprint(err), "INTERNAL_ERROR") {
				t.Errorf("%s, %v; want an unknown outcome, and the error code of the stream", classOf(err), err)
			}
		}
	})
	if n := calls.Load(); n != 2 {
		t.Errorf("the service was called %d times, want 2", n)
	}
}

// A call ends with its context, which is no timeout of the service.
func TestCallThatIsGivenUp(t *testing.T) {
	t.Parallel()
	c := client(t, patience, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, nil); !errors.Is(err, context.DeadlineExceeded) ||
		strings.Contains(err.Error(), "gave no answer") {
		t.Errorf("%v; want the error of the context", err)
	}
}

// attempt runs a function in a context with an attempt.
func attempt(t *testing.T, f func(ctx context.Context)) {
	t.Helper()
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	out := engine.Do(t.Context(), idem.Task{Key: "ledger#payments#50% of\nzwölf", Source: "payments-0@1",
		Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) { f(ctx); return nil, nil })})
	if out.Kind != idem.Executed {
		t.Error(out)
	}
}

// A request that has one record has the key and the attempt in its headers.
func TestHeadersOfARecord(t *testing.T) {
	t.Parallel()
	var header http.Header
	c := client(t, patience, func(_ http.ResponseWriter, r *http.Request) { header = r.Header })
	if _, err := c.Call(t.Context(), nil); err != nil || header.Get("Idempotency-Key") != "" {
		t.Errorf("%v, %v; want no key", header, err)
	}
	attempt(t, func(ctx context.Context) {
		if _, err := c.Call(ctx, nil); err != nil {
			t.Error(err)
		}
		a, _ := idem.AttemptFrom(ctx)
		for name, want := range map[string]string{
			"Idempotency-Key": "ledger#payments#50%25%20of%0Azw%C3%B6lf",
			"Idemsk-Attempt":  "1", "Idemsk-Token": fmt.Sprint(a.Token),
		} {
			if got := header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	})
}

func TestInvalidURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "127.0.0.1:8080", "ftp://a", "http://", "http://a b", "/records"} {
		if _, err := webcall.New(url, patience); err == nil || !strings.Contains(err.Error(), "want http://") {
			t.Errorf("%q: %v; want an error", url, err)
		}
	}
}
