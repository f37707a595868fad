package faultproxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Within checks that f returns within a limit. The context that f gets lasts much longer.
func Within(tb testing.TB, limit time.Duration, what string, f func(ctx context.Context)) {
	tb.Helper()
	const longer = 6
	ctx, cancel := context.WithTimeout(context.Background(), longer*limit)
	defer cancel()
	begun := time.Now()
	f(ctx)
	if took := time.Since(begun); took > limit {
		tb.Errorf("%s took %v, want at most %v", what, took, limit)
	}
}

// Serve starts an HTTP service and a proxy before it, and returns the proxy and its URL. Both are closed at
// the test's end.
func Serve(tb testing.TB, service http.Handler) (p *Proxy, url string) {
	tb.Helper()
	server := httptest.NewServer(service)
	tb.Cleanup(server.Close)
	p, url = StartURL(tb, server.URL)
	tb.Cleanup(func() { p.Existing(Reset) })
	return p, url
}

// WantToGoOn wants ask to succeed, also over a new connection when its own has failed, and to fail when
// nothing answers: each within the limit.
func (p *Proxy) WantToGoOn(tb testing.TB, limit time.Duration, ask func(ctx context.Context) error) {
	tb.Helper()
	inTime := func() error {
		ctx, cancel := context.WithTimeout(tb.Context(), limit)
		defer cancel()
		err := ask(ctx)
		if ctx.Err() != nil {
			tb.Errorf("it took more than %v", limit)
		}
		return err
	}
	for what, fault := range map[string]Fault{"well": None, "reset": Reset, "silent": Silent} {
		if err := inTime(); err != nil {
			tb.Fatal(err)
		}
		p.Existing(fault)
		if err := inTime(); err != nil {
			tb.Errorf("%s: %v", what, err)
		}
	}
	p.Existing(Silent)
	p.New(Silent)
	if err := inTime(); err == nil || !strings.Contains(err.Error(), "no answer for") &&
		!strings.Contains(err.Error(), "deadline exceeded") {
		tb.Errorf("nothing answers: %v", err)
	}
}
