//go:build servers

package redisstore_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
)

const soon = 5 * time.Second // above the time of an attempt and a new connection

// behindProxy returns a store whose client connects through a proxy with short timeouts, and a function that
// makes the client hold more idle connections than it makes attempts.
func behindProxy(t *testing.T, parameters string) (st *redisstore.Store, proxy *faultproxy.Proxy,
	fillUp func()) {
	t.Helper()
	return behindProxyTo(t, server.URL(), parameters)
}

func behindProxyTo(t *testing.T, url, parameters string,
	options ...func(*redis.UniversalOptions)) (st *redisstore.Store, proxy *faultproxy.Proxy, fillUp func()) {
	t.Helper()
	proxy, url = faultproxy.StartURL(t, url)
	client := newClient(t, url+parameters, options...)
	st = newStore(t, client, redisstore.Config{})
	return st, proxy, func() {
		t.Helper()
		const many, slow = 2 * redisstore.MaxAttempts, 32 << 10
		proxy.Slow(slow) // so that the connections are in use at the same time
		defer proxy.Slow(0)
		var all sync.WaitGroup
		for range many {
			all.Go(func() {
				_, err := client.Pipelined(t.Context(),
					func(p redis.Pipeliner) error {
						return p.Echo(t.Context(),
							strings.Repeat("e", slow/10)).Err()
					})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := proxy.Connections(); n < many {
			t.Errorf("there are %d connections, want %d", n, many)
		}
	}
}

// overTLS returns a URL of the server over TLS and the client's TLS option.
func overTLS(t *testing.T) (url string, option func(*redis.UniversalOptions)) {
	t.Helper()
	terminator := httptest.NewUnstartedServer(nil) // it has a certificate
	defer terminator.Close()
	terminator.StartTLS()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: terminator.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	carry := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = errors.Join(to.Close(), from.Close())
	}
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", server.Addr())
			if err != nil {
				t.Error(err)
				return
			}
			all.Go(func() { carry(to, conn) })
			all.Go(func() { carry(conn, to) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	url = strings.Replace(strings.Replace(server.URL(), server.Addr(), l.Addr().String(), 1), "redis://",
		"rediss://", 1)
	pool := x509.NewCertPool()
	pool.AddCert(terminator.Certificate())
	return url, func(o *redis.UniversalOptions) {
		o.TLSConfig = &tls.Config{RootCAs: pool,
			ServerName: "example.com"}
	}
}

// All connections of a client fail at once: their host has failed, or the sandbox was frozen so long that a
// firewall dropped them.
func TestOperationSucceedsOverANewConnection(t *testing.T) {
	for name, tc := range map[string]struct {
		fault faultproxy.Fault
		tls   bool
	}{"reset": {fault: faultproxy.Reset}, "silent": {fault: faultproxy.Silent},
		"silent, by TLS": {faultproxy.Silent, true}} {
		t.Run(name, func(t *testing.T) {
			url, option := server.URL(), func(*redis.UniversalOptions) {}
			if tc.tls {
				url, option = overTLS(t)
			}
			st, proxy, fillUp := behindProxyTo(t, url, "?read_timeout=500ms", option)
			fail := func() {
				fillUp()
				proxy.Existing(tc.fault)
			}
			var ss []store.Settlement
			fail()
			faultproxy.Within(t, soon, "claims", func(ctx context.Context) {
				for _, res := range st.Claim(ctx, hundred()) {
					if res.State != store.Claimed {
						t.Fatalf("state %d, %v", res.State, res.Err)
					}
					ss = append(ss, settlement(res.Entry, store.OpComplete))
				}
			})
			fail()
			faultproxy.Within(t, soon, "completions", func(ctx context.Context) {
				if errs := st.Settle(ctx, ss); errs != nil {
					t.Error(errs[0])
				}
			})
			fail()
			faultproxy.Within(t, soon, "get", func(ctx context.Context) {
				if _, err := st.Get(ctx, ss[0].Key); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// No connection gets an answer. The error comes after the last attempt. The store works again when the
// network is back.
func TestSilentServerIsAnError(t *testing.T) {
	st, proxy, fillUp := behindProxy(t, "?read_timeout=500ms&dial_timeout=500ms")
	fillUp()
	proxy.Existing(faultproxy.Silent)
	proxy.New(faultproxy.Silent)
	faultproxy.Within(t, soon, "a claim", func(ctx context.Context) {
		err := st.Claim(ctx, []store.ClaimRequest{request("a", 1)})[0].Err
		wantError(t, err, "timeout")
	})
	proxy.New(faultproxy.None)
	faultproxy.Within(t, soon, "a claim", func(context.Context) { mustClaim(t, st, request("a", 1)) })
}

// A heartbeat that times out leaves time for another heartbeat.
func TestHandlerKeepsItsLeaseWhenConnectionsFail(t *testing.T) {
	st, proxy, fillUp := behindProxy(t, "")
	direct := newStore(t, newClient(t, server.URL()), redisstore.Config{Prefix: st.Prefix()})
	storetest.KeepsLease(t, st, direct, func() {
		fillUp()
		proxy.Existing(faultproxy.Silent)
	})
}

// Requests and answers are small enough for the time of an attempt, whatever the size of results.
func TestBatchOfLargeResultsPassesASlowNetwork(t *testing.T) {
	const (
		size = 100 << 10
		rate = 4 << 20 // bytes a second: all of them take longer than an attempt
	)
	st, proxy, _ := behindProxy(t, "")
	var ss []store.Settlement
	for _, res := range st.Claim(t.Context(), hundred()) {
		set := settlement(res.Entry, store.OpComplete)
		set.Result = bytes.Repeat([]byte("r"), size)
		ss = append(ss, set)
	}
	proxy.Slow(rate)
	if errs := st.Settle(t.Context(), ss); errs != nil {
		t.Fatal(errs[0])
	}
	for _, res := range st.Claim(t.Context(), hundred()) {
		if res.State != store.ClaimCompleted || len(res.Entry.Result) != size {
			t.Fatalf("state %d, %v, %d bytes", res.State, res.Err, len(res.Entry.Result))
		}
	}
	if errs := st.Settle(t.Context(), ss); errs != nil { // sent again
		t.Fatal(errs[0])
	}
}

// endsSoon is a context that ends after a number of calls of Err.
type endsSoon struct {
	context.Context
	looks int
}

func (c *endsSoon) Err() error {
	if c.looks--; c.looks >= 0 {
		return nil
	}
	return context.DeadlineExceeded
}

func TestCallIsAnsweredWheneverItsContextEnds(t *testing.T) {
	st := newStore(t, newClient(t, server.URL()), redisstore.Config{})
	for looks := range 5 {
		ctx := &endsSoon{t.Context(), looks}
		for i, res := range st.Claim(ctx, []store.ClaimRequest{request("a", 1), request("b", 1)}) {
			if res.Err == nil && res.State == store.Claimed {
				continue // it ended too late
			}
			if !errors.Is(res.Err, context.DeadlineExceeded) || strings.Contains(res.Err.Error(), "answer") {
				t.Errorf("claim %d after %d looks: state %d, error %v; want that the context ended", i, looks,
					res.State, res.Err)
			}
		}
	}
}
