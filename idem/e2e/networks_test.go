//go:build rest

package e2e_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
)

// A connection falls silent while a claim, an extension or a completion is in flight: before the server has
// it, or before its reply arrives. Each succeeds over a new connection and counts once. An open transaction
// of PostgreSQL ends with its connection: its completion is not confirmed, its record is redelivered, and the
// effect happens once.
func silentNetworks(t *testing.T, kind, url string) {
	t.Helper()
	const noAnswer = 4 * time.Second // more than a busy machine takes for a request
	for name, silence := range map[string]func(*faultproxy.Proxy){
		"the request is lost": func(p *faultproxy.Proxy) { p.Existing(faultproxy.Silent) },
		"the reply is lost":   func(p *faultproxy.Proxy) { p.NextReply(faultproxy.Silent) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, proxied := faultproxy.StartURL(t, url)
			direct, b := open(t, kind, url, 0), open(t, kind, proxied, noAnswer)
			t.Cleanup(func() { proxy.Existing(faultproxy.Reset) }) // before the pool of b is closed
			key := kind + ": " + name
			// no heartbeat disturbs
			engine, err := idem.New(b.store,
				idem.Config{Lease: store.MaxLease, Unbatched: kinds[kind].unbatched})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.store.Get(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
				// opens a connection
				t.Fatal(err)
			}
			connections := 0
			fallSilent := func() {
				connections = proxy.Connections()
				silence(proxy)
			}
			wantNewConnection := func(what string) {
				if proxy.Connections() == connections {
					t.Errorf("%s: no new connection", what)
				}
			}
			fallSilent()
			out := engine.Do(patient(t),
				idem.Task{Key: key, Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
					wantNewConnection("the claim")
					held, err := direct.store.Get(ctx, key)
					if err != nil {
						return nil, err
					}
					fallSilent()
					errs := b.store.Settle(ctx, []store.Settlement{{
						Op: store.OpExtend, Key: key, Token: held.Token, Owner: held.Owner,
						Lease: 2 * store.MaxLease, Retention: 4 * store.MaxLease,
					}})
					wantNewConnection("the extension")
					if now := direct.entry(ctx, t,
						key); now.LeaseUntil.Sub(held.LeaseUntil) < store.MaxLease/2 {
						t.Errorf("the lease was extended from %v to %v; %v", held.LeaseUntil, now.LeaseUntil,
							errs)
					}
					err = errors.Join(errors.Join(errs...), b.effect(ctx, key))
					fallSilent()
					return []byte("done"), err
				})})
			wantNewConnection("the completion")
			attempts := 1
			if kinds[kind].server == onPostgres && kinds[kind].atomic {
				if attempts++; out.Kind.Settled() {
					t.Errorf("%v: the transaction's connection is silent", out.Kind)
				}
				out = engine.Do(patient(t),
					idem.Task{Key: key, Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
						return []byte("done"), b.effect(ctx, key)
					})})
			}
			if out.Kind != idem.Executed || out.Attempt != attempts || out.Err != nil {
				t.Errorf("%v, attempt %d: %v", out.Kind, out.Attempt, out.Err)
			}
			if e := direct.entry(t.Context(), t, key); e.Status != store.StatusCompleted ||
				e.Attempts != attempts || string(e.Result) != "done" {
				t.Errorf("%+v", e)
			}
			direct.wantEffects(t, key, 1)
		})
	}
}
