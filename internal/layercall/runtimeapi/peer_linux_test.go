package runtimeapi_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// addressOf returns the address of the API, as the function sees it.
func addressOf(t *testing.T, f *runtimeapi.Function) string {
	t.Helper()
	_, address, _ := strings.Cut(string(invoke(t, f, `{"do":"environment"}`).Payload), "AWS_LAMBDA_RUNTIME_API=")
	address, _, _ = strings.Cut(address, `"`)
	return address
}

// A process that is not the function's, though of the same user, can neither take an event nor answer one, and
// what it sends is in no error.
func TestRequestsOfAnotherProcess(t *testing.T) {
	t.Parallel()
	cfg := config(t, "lambda")
	hanging := make(chan struct{})
	cfg.Stdout = func([]byte) { close(hanging) }
	f := start(t, cfg)
	at := "http://" + addressOf(t, f) + "/2018-06-01/runtime/"
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	refused := func(method, path string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, at+path, strings.NewReader("null"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusForbidden || err != nil ||
			!strings.Contains(string(body), "another process") {
			t.Errorf("%s %s: %s %s, %v; want 403", method, path, resp.Status, body, err)
		}
	}
	for range 3 {
		refused(http.MethodGet, "invocation/next")
		refused(http.MethodPost, "invocation/8476a536-e9f4-11e8-9739-2dfe598c3fcd/response")
		refused(http.MethodPost, "invocation/8476a536-e9f4-11e8-9739-2dfe598c3fcd/error")
		refused(http.MethodPost, "init/error")
		if got := string(invoke(t, f, `{"do":"echo"}`).Payload); got != `{"do":"echo"}` {
			t.Errorf("the answer is %s", got)
		}
	}
	ended := make(chan error)
	go func() {
		_, err := f.Invoke(context.Background(), []byte(`{"do":"hang"}`))
		ended <- err
	}()
	<-hanging
	refused(http.MethodGet, "alice")
	f.Kill()
	if err := <-ended; strings.Contains(err.Error(), "alice") {
		t.Errorf("the error of the function has the request of another process: %v", err)
	}
}

// All processes of a function may use the API: also those behind a shell, or in a session of their own, and with
// sockets of IPv6.
func TestRequestsOfTheFunction(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"plain", "in a session of its own", "with sockets of IPv6"} {
		for _, shell := range []bool{false, true} {
			cfg := config(t, mode)
			if shell {
				cfg.Command = []string{"sh", "-c", `"$0"; exit $?`, cfg.Command[0]}
			}
			f := start(t, cfg)
			if got := string(invoke(t, f, `"hello"`).Payload); got != `"hello"` {
				t.Errorf("%s: the answer is %s", mode, got)
			}
		}
	}
}
