//go:build servers

package pgstore_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/faultproxy"
)

const (
	shortLimit = 500 * time.Millisecond // of a round trip, in these tests
	soon       = 5 * time.Second        // far above what a new connection takes, and far below patience
	patience   = 30 * time.Second       // of the callers here
)

// within wants f to end soon, in a context that lasts much longer.
func within(t *testing.T, what string, f func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	begun := time.Now()
	f(ctx)
	if took := time.Since(begun); took > soon {
		t.Errorf("%s took %v, want at most %v", what, took, soon)
	}
}

// behindProxy returns a pool whose connections go through a proxy, with parameters added to the URL.
func behindProxy(t *testing.T, parameters string, open func(t *testing.T, url string) *pgxpool.Pool) (*pgxpool.Pool, *faultproxy.Proxy) {
	t.Helper()
	proxy, url := faultproxy.StartURL(t, server.URL())
	pool := open(t, url+parameters)
	t.Cleanup(func() { proxy.Existing(faultproxy.Reset) }) // pgx gives silent connections 15 s to be closed
	return pool, proxy
}

// ourPool returns how to make a pool of n connections.
func ourPool(n int32) func(t *testing.T, url string) *pgxpool.Pool {
	return func(t *testing.T, url string) *pgxpool.Pool {
		t.Helper()
		pool, err := pgstore.NewPool(url, func(c *pgxpool.Config) { c.MaxConns = n })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
}

// anotherPool is one that NewPool did not make: it pings each connection, with no limit.
func anotherPool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 24
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true }
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// fillUp has a pool make all its connections, but for some that it may need for others.
func fillUp(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for range min(8, pool.Config().MaxConns) {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}
}

// twice does something for two keys at once.
func twice(t *testing.T, what string, f func(ctx context.Context, key string)) {
	t.Helper()
	within(t, what, func(ctx context.Context) {
		var both sync.WaitGroup
		for _, key := range []string{"a", "b"} {
			both.Go(func() { f(ctx, key) })
		}
		both.Wait()
	})
}

// All the connections of a pool fail at once: with a host that has gone, or in a sandbox that was frozen for so long that a
// firewall has forgotten them.
func TestAnOperationSucceedsOverANewConnection(t *testing.T) {
	faults := map[string]faultproxy.Fault{"reset": faultproxy.Reset, "silent": faultproxy.Silent}
	pools := map[string]func(t *testing.T, url string) *pgxpool.Pool{
		"a small pool": ourPool(2), // nothing is left when both are silent
		"a large pool": ourPool(8), // there are more of them than tries
		"another pool": anotherPool,
	}
	for name, fault := range faults {
		for whose, open := range pools {
			t.Run(name+", "+whose, func(t *testing.T) {
				t.Parallel()
				pool, proxy := behindProxy(t, "", open)
				st := newStore(t, pool, pgstore.Config{RoundTripTimeout: shortLimit})
				fail := func() {
					fillUp(t, pool)
					proxy.Existing(fault)
				}
				claims := map[string]store.ClaimRequest{"a": request("a", 1), "b": request("b", 1)}
				fail()
				twice(t, "claim", func(ctx context.Context, key string) {
					if res := st.Claim(ctx, []store.ClaimRequest{claims[key]})[0]; res.State != store.Claimed {
						t.Errorf("claim: state %d, %v", res.State, res.Err)
					}
				})
				held := make(map[string]store.Entry)
				for key := range claims {
					held[key] = st.Claim(t.Context(), []store.ClaimRequest{claims[key]})[0].Entry
				}
				for _, op := range []store.SettleOp{store.OpExtend, store.OpComplete} {
					fail()
					twice(t, op.String(), func(ctx context.Context, key string) {
						if errs := st.Settle(ctx, []store.Settlement{settlement(held[key], op)}); errs != nil {
							t.Errorf("%s: %v", op, errs[0])
						}
					})
				}
				fail()
				twice(t, "delete", func(ctx context.Context, key string) {
					if err := st.Delete(ctx, key, held[key].Token); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// Nothing answers, on no connection: the error comes within the limits of a round trip and of a connection. When the network is back,
// so is the store.
func TestAServerThatIsSilentIsAnErrorThatSaysSo(t *testing.T) {
	pool, proxy := behindProxy(t, "&connect_timeout=1", ourPool(2))
	st := newStore(t, pool, pgstore.Config{RoundTripTimeout: shortLimit})
	fillUp(t, pool)
	proxy.Existing(faultproxy.Silent)
	proxy.New(faultproxy.Silent)
	twice(t, "claim", func(ctx context.Context, key string) {
		err := st.Claim(ctx, []store.ClaimRequest{request(key, 1)})[0].Err
		if err == nil || !strings.Contains(err.Error(), "can't be reached") || errors.Is(err, context.Canceled) {
			t.Errorf("%v, want that the server can't be reached", err)
		}
	})
	proxy.New(faultproxy.None)
	twice(t, "claim", func(ctx context.Context, key string) {
		if res := st.Claim(ctx, []store.ClaimRequest{request(key, 1)})[0]; res.State != store.Claimed {
			t.Errorf("state %d, %v", res.State, res.Err)
		}
	})
}

// A completion must land while its lease lasts, and its effect is not to happen again.
func TestACompletionLandsOverANewConnection(t *testing.T) {
	pool, proxy := behindProxy(t, "", ourPool(8))
	engine, err := idem.New(newStore(t, pool, pgstore.Config{RoundTripTimeout: shortLimit}), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	within(t, "a task", func(ctx context.Context) {
		out := engine.Do(ctx, idem.Task{Key: "k", Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) {
			fillUp(t, pool)
			proxy.Existing(faultproxy.Silent)
			return nil, nil
		})})
		if out.Kind != idem.Executed || out.Err != nil {
			t.Errorf("%v: %v", out.Kind, out.Err)
		}
	})
}

// A heartbeat that meets with silence leaves time for another one.
func TestAHandlerKeepsItsLeaseWhileConnectionsFallSilent(t *testing.T) {
	const lease = 3 * time.Second
	pool, proxy := behindProxy(t, "", ourPool(8))
	st := newStore(t, pool, pgstore.Config{})
	observer := newStore(t, newPool(t, server.URL()), pgstore.Config{Table: st.Table()})
	engine, err := idem.New(st, idem.Config{Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out := engine.Do(ctx, idem.Task{Key: "k", Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
		begun, err := observer.Get(ctx, "k")
		fillUp(t, pool)
		proxy.Existing(faultproxy.Silent)
		for rec := begun; err == nil && !rec.LeaseUntil.After(begun.LeaseUntil); { // until it has been extended
			rec, err = observer.Get(ctx, "k")
		}
		return nil, errors.Join(err, context.Cause(ctx))
	})})
	if out.Kind != idem.Executed {
		t.Errorf("%v: %v", out.Kind, out.Err)
	}
}

// newBankBehind returns a bank whose own connections are not those of the handlers.
func newBankBehind(t *testing.T, idle time.Duration) (b *bank, proxy *faultproxy.Proxy) {
	t.Helper()
	b = newBank(t, newPool(t, server.URL()), idem.Config{})
	pool, proxy := behindProxy(t, "", ourPool(8))
	st := newStore(t, pool, pgstore.Config{Table: b.table, RoundTripTimeout: shortLimit, IdleLimit: idle})
	var err error
	if b.engine, err = idem.New(st, idem.Config{}); err != nil {
		t.Fatal(err)
	}
	b.store = st
	return b, proxy
}

// The transaction has been committed, but the answer does not come: a new connection tells.
func TestACommitWhoseReplyIsLostCountsOnce(t *testing.T) {
	for name, fault := range map[string]faultproxy.Fault{"reset": faultproxy.Reset, "silent": faultproxy.Silent} {
		t.Run(name, func(t *testing.T) {
			b, proxy := newBankBehind(t, 0)
			connections := 0
			within(t, "a payment", func(ctx context.Context) {
				b.want(b.engine.Do(ctx, b.task("first", b.pays("", nil))), idem.Executed) // the statements are prepared now
				connections = proxy.Connections()
				out := b.engine.Do(ctx, b.task("k", func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
					err := b.write(ctx, tx, "once")
					proxy.NextReply(fault)
					return []byte("paid"), err
				}))
				b.want(out, idem.Executed)
			})
			if n := b.effects(); n != 2 || proxy.Connections() == connections {
				t.Errorf("%d effects, want 2; a new connection was made: %t", n, proxy.Connections() > connections)
			}
		})
	}
}

// The commit has not arrived. It is undone by the settlement that is sent again, over a new connection; the server ends the transaction
// after IdleLimit.
func TestACommitThatDoesNotArriveIsUndone(t *testing.T) {
	b, proxy := newBankBehind(t, time.Second)
	silenced := func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		err := b.write(ctx, tx, "undone")
		proxy.Existing(faultproxy.Silent)
		return nil, err
	}
	within(t, "a payment", func(ctx context.Context) {
		out := b.engine.Do(ctx, b.task("k", silenced))
		if out.Kind.Settled() || b.effects() != 0 {
			t.Errorf("%v: %v; %d effects, want none", out.Kind, out.Err, b.effects())
		}
		out = b.engine.Do(ctx, b.task("k", b.pays("once", nil)))
		b.want(out, idem.Executed)
	})
	if n := b.effects(); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// A round trip is bounded by its silence, not by its size.
func TestABatchOfLargeResultsPassesASlowNetwork(t *testing.T) {
	const (
		size = 100 << 10
		rate = 4 << 20 // bytes a second: all of them take longer than the server may be silent
	)
	pool, proxy := behindProxy(t, "", ourPool(2))
	st := newStore(t, pool, pgstore.Config{RoundTripTimeout: time.Second})
	var ss []store.Settlement
	for _, res := range st.Claim(t.Context(), hundred()) {
		set := settlement(res.Entry, store.OpComplete)
		set.Result = bytes.Repeat([]byte("r"), size)
		ss = append(ss, set)
	}
	proxy.Slow(rate)
	within(t, "a hundred completions", func(ctx context.Context) {
		if errs := st.Settle(ctx, ss); errs != nil {
			t.Error(errs[0])
		}
	})
	within(t, "a hundred duplicates", func(ctx context.Context) {
		for _, res := range st.Claim(ctx, hundred()) {
			if res.State != store.ClaimCompleted || len(res.Entry.Result) != size {
				t.Fatalf("state %d, %v, %d bytes", res.State, res.Err, len(res.Entry.Result))
			}
		}
	})
}
