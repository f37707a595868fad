package adapters_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/test/adapters"
)

// quick is the configuration that docs/adapters.md recommends for requests.
func quick() idem.Config {
	return idem.Config{Wait: -1, RetryDelay: -1, OutageFailures: -1, MaxResult: 1000}
}

// payments is a service behind the adapter.
type payments struct {
	*testing.T
	url string
}

func serve(t *testing.T, keys store.Store, cfg idem.Config, handler http.HandlerFunc) payments {
	t.Helper()
	engine, err := idem.New(keys, cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(adapters.Idempotent(engine, account, handler))
	t.Cleanup(server.Close)
	return payments{t, server.URL}
}

func account(r *http.Request) string { return r.Header.Get("Authorization") }

// post sends a request, and returns its answer.
func (p payments) post(path, user, key, body string) (status int, fields http.Header, text string) {
	p.Helper()
	req, err := http.NewRequestWithContext(p.Context(), http.MethodPost, p.url+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	req.Header.Set("Authorization", user)
	req.Header.Set("Idempotency-Key", key)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		p.Error(err)
		return 0, nil, ""
	}
	defer func() { _ = answer.Body.Close() }()
	read, err := io.ReadAll(answer.Body)
	if err != nil {
		p.Error(err)
	}
	return answer.StatusCode, answer.Header, string(read)
}

// want posts a payment, and compares the status of its answer, and a part of its text.
func (p payments) want(status int, part, path, user, key, body string) http.Header {
	p.Helper()
	got, fields, text := p.post(path, user, key, body)
	if got != status || !strings.Contains(text, part) {
		p.Errorf("POST %s %s %s %s: %d %q; want %d and %q", path, user, key, body, got, text, status, part)
	}
	return fields
}

// counting is a handler that numbers its answers.
func counting(mu *sync.Mutex, calls *int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		mu.Lock()
		defer mu.Unlock()
		*calls++
		w.Header().Set("Location", fmt.Sprintf("/payments/%d", *calls))
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "payment %d of %s", *calls, body)
	}
}

func TestHTTPAnswersADuplicateWithTheStoredAnswer(t *testing.T) {
	var mu sync.Mutex
	calls := 0
	p := serve(t, memstore.New(memstore.Config{}), quick(), counting(&mu, &calls))
	for range 2 {
		fields := p.want(http.StatusCreated, "payment 1 of 5", "/payments", "ann", "k", "5")
		if got := fields.Get("Location"); got != "/payments/1" {
			t.Errorf("Location is %q", got)
		}
	}
	p.want(http.StatusUnprocessableEntity, "another request", "/payments", "ann", "k", "6")
	p.want(http.StatusUnprocessableEntity, "another request", "/refunds", "ann", "k", "5")
	p.want(http.StatusBadRequest, "want an Idempotency-Key", "/payments", "ann", "", "5")
	p.want(http.StatusCreated, "payment 2 of 6", "/payments", "bob", "k", "6")
	p.want(http.StatusCreated, "payment 1 of 5", "/payments", "ann", "k", "5")
	// A client and a key can't be cut in another place.
	p.want(http.StatusCreated, "payment 3 of 1", "/payments", "a", "b#c", "1")
	p.want(http.StatusCreated, "payment 4 of 2", "/payments", "a#b", "c", "2")
	if calls != 4 {
		t.Errorf("%d calls; want 4", calls)
	}
}

func TestHTTPRefusesARequestInFlight(t *testing.T) {
	begun, end := make(chan struct{}, 100), make(chan struct{})
	p := serve(t, memstore.New(memstore.Config{}), quick(), func(w http.ResponseWriter, _ *http.Request) {
		begun <- struct{}{}
		<-end
		_, _ = io.WriteString(w, "paid")
	})
	var first, others sync.WaitGroup
	first.Go(func() { p.want(http.StatusOK, "paid", "/payments", "ann", "k", "5") })
	<-begun
	for range 20 {
		others.Go(func() {
			fields := p.want(http.StatusConflict, "in progress", "/payments", "ann", "k", "5")
			if fields.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		})
	}
	others.Go(func() { p.want(http.StatusUnprocessableEntity, "another", "/payments", "ann", "k", "6") })
	others.Wait()
	close(end)
	first.Wait()
	p.want(http.StatusOK, "paid", "/payments", "ann", "k", "5")
	if len(begun) > 0 {
		t.Error("the handler was called again")
	}
}

func TestHTTPPerformsARequestAgainThatFailed(t *testing.T) {
	calls := 0
	p := serve(t, memstore.New(memstore.Config{}), quick(), func(w http.ResponseWriter, _ *http.Request) {
		switch calls++; calls {
		case 1:
			http.Error(w, "the bank is closed", http.StatusBadGateway)
		case 2:
			panic(errors.New("a bug"))
		default:
			http.Error(w, "no such account", http.StatusNotFound)
		}
	})
	p.want(http.StatusBadGateway, "the bank is closed", "/payments", "ann", "k", "5")
	p.want(http.StatusServiceUnavailable, "try again", "/payments", "ann", "k", "5")
	for range 2 { // the service's decision is an answer
		p.want(http.StatusNotFound, "no such account", "/payments", "ann", "k", "5")
	}
	if calls != 3 {
		t.Errorf("%d calls; want 3", calls)
	}
}

func TestHTTPSaysThatAnAnswerWasNotStored(t *testing.T) {
	calls := 0
	p := serve(t, memstore.New(memstore.Config{}), quick(), func(w http.ResponseWriter, _ *http.Request) {
		calls++
		_, _ = io.WriteString(w, strings.Repeat("x", 2000))
	})
	p.want(http.StatusOK, "xxx", "/payments", "ann", "k", "5")
	p.want(http.StatusGone, "too large", "/payments", "ann", "k", "5")
	p.want(http.StatusBadRequest, "at most 1 MiB", "/payments", "ann", "l", strings.Repeat("x", 2<<20))
	if calls != 1 {
		t.Errorf("%d calls; want 1", calls)
	}
}

// down is a store that does not answer.
type down struct{ store.Store }

func (down) Claim(_ context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results := make([]store.ClaimResult, len(reqs))
	for i := range results {
		results[i].Err = errors.New("no route to the store")
	}
	return results
}

func TestHTTPCallsNoHandlerWithoutAStore(t *testing.T) {
	p := serve(t, down{memstore.New(memstore.Config{})}, quick(), func(http.ResponseWriter, *http.Request) {
		t.Error("the handler was called")
	})
	p.want(http.StatusServiceUnavailable, "try again", "/payments", "ann", "k", "5")
}

// A process dies in the handler. Until its lease ends, requests are refused; then one is performed.
func TestHTTPAfterTheDeathOfAProcess(t *testing.T) {
	url := startStore(t)
	processDies(t, "http", url, "", "")
	l := newLedger()
	keys, err := newStore(url)
	if err != nil {
		t.Fatal(err)
	}
	p := serve(t, keys, quick(), func(w http.ResponseWriter, r *http.Request) {
		text, _ := l.book(r.Context(), "k")
		_, _ = w.Write(text)
	})
	p.want(http.StatusConflict, "in progress", "/payments", "ann", "k", "5")
	until(t, "the lease is over", func() bool {
		status, _, _ := p.post("/payments", "ann", "k", "5")
		return status == http.StatusOK
	})
	p.want(http.StatusOK, "booked k", "/payments", "ann", "k", "5")
	l.want(t, map[string]int{"k": 2})
}

// dyingHTTP is the process that dies.
func dyingHTTP(engine *idem.Engine) {
	handler := adapters.Idempotent(engine, account, http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) { _, _ = die(r.Context()) }))
	r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader("5"))
	r.Header.Set("Authorization", "ann")
	r.Header.Set("Idempotency-Key", "k")
	handler.ServeHTTP(httptest.NewRecorder(), r)
}
