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
	"github.com/idemsk/idemsk/idem/storetest"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
)

const (
	shortLimit = 500 * time.Millisecond // of a round trip, in these tests
	soon       = 5 * time.Second        // much more than a new connection takes, much less than patience
	patience   = 30 * time.Second       // the timeout of the callers
)

// behindProxy returns a pool whose connections go through a proxy. It adds parameters to the URL.
func behindProxy(t *testing.T, parameters string,
	open func(t *testing.T, url string) *pgxpool.Pool) (*pgxpool.Pool, *faultproxy.Proxy) {
	t.Helper()
	proxy, url := faultproxy.StartURL(t, server.URL())
	pool := open(t, url+parameters)
	// otherwise pgx takes 15 s to close a connection that does not answer
	t.Cleanup(func() { proxy.Existing(faultproxy.Reset) })
	return pool, proxy
}

// ourPool returns a function that makes a pool of n connections with NewPool.
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

// anotherPool returns a function that makes a pool without NewPool. It pings each connection, without a time
// limit.
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

// fillUp makes a pool open all its connections, except those that it may need for other uses.
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

// twice calls a function for two keys concurrently.
func twice(t *testing.T, what string, f func(ctx context.Context, key string)) {
	t.Helper()
	faultproxy.Within(t, soon, what, func(ctx context.Context) {
		var both sync.WaitGroup
		for _, key := range []string{"a", "b"} {
			both.Go(func() { f(ctx, key) })
		}
		both.Wait()
	})
}

// All connections of a pool fail at once if the host is lost, or if a sandbox was frozen for so long that a
// firewall dropped their state.
func TestOperationsSucceedOverANewConnection(t *testing.T) {
	faults := map[string]faultproxy.Fault{"reset": faultproxy.Reset, "silent": faultproxy.Silent}
	pools := map[string]func(t *testing.T, url string) *pgxpool.Pool{
		"a small pool": ourPool(2), // no connection is left when both do not answer
		"a large pool": ourPool(8), // more connections than tries
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
					if res := st.Claim(ctx,
						[]store.ClaimRequest{claims[key]})[0]; res.State != store.Claimed {
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
						if errs := st.Settle(ctx,
							[]store.Settlement{settlement(held[key], op)}); errs != nil {
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

// If no connection is answered, the error comes within the limits of a round trip and of a connection
// attempt. The store works again when the network does.
func TestErrorNamesAServerThatDoesNotAnswer(t *testing.T) {
	pool, proxy := behindProxy(t, "&connect_timeout=1", ourPool(2))
	st := newStore(t, pool, pgstore.Config{RoundTripTimeout: shortLimit})
	fillUp(t, pool)
	proxy.Existing(faultproxy.Silent)
	proxy.New(faultproxy.Silent)
	twice(t, "claim", func(ctx context.Context, key string) {
		err := st.Claim(ctx, []store.ClaimRequest{request(key, 1)})[0].Err
		if err == nil || !strings.Contains(err.Error(), "can't be reached") ||
			errors.Is(err, context.Canceled) {
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

// A completion must be applied while its lease lasts, and its effect must not be repeated.
func TestCompletionSucceedsOverANewConnection(t *testing.T) {
	pool, proxy := behindProxy(t, "", ourPool(8))
	engine, err := idem.New(newStore(t, pool, pgstore.Config{RoundTripTimeout: shortLimit}), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	faultproxy.Within(t, soon, "a task", func(ctx context.Context) {
		out := engine.Do(ctx, idem.Task{Key: "k",
			Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) {
				fillUp(t, pool)
				proxy.Existing(faultproxy.Silent)
				return nil, nil
			})})
		if out.Kind != idem.Executed || out.Err != nil {
			t.Errorf("%v: %v", out.Kind, out.Err)
		}
	})
}

// A heartbeat that is not answered leaves time for another one before the lease ends.
func TestHandlerKeepsItsLeaseWhenConnectionsStopAnswering(t *testing.T) {
	pool, proxy := behindProxy(t, "", ourPool(8))
	st := newStore(t, pool, pgstore.Config{})
	direct := newStore(t, newPool(t, server.URL()), pgstore.Config{Table: st.Table()})
	storetest.KeepsLease(t, st, direct, func() {
		fillUp(t, pool)
		proxy.Existing(faultproxy.Silent)
	})
}

// newBankBehind returns a bank that reads its effects over other connections than its handlers.
func newBankBehind(t *testing.T, cfg idem.Config, idle time.Duration) (b *bank, proxy *faultproxy.Proxy) {
	t.Helper()
	b = newBank(t, newPool(t, server.URL()), idem.Config{})
	pool, proxy := behindProxy(t, "", ourPool(8))
	st := newStore(t, pool, pgstore.Config{Table: b.table, RoundTripTimeout: shortLimit, IdleLimit: idle})
	var err error
	if b.engine, err = idem.New(st, cfg); err != nil {
		t.Fatal(err)
	}
	b.store = st
	return b, proxy
}

// prepareCommit prepares the statements that commit a transaction, so that the next reply is that of the COMMIT.
// A connection that another transaction had may have prepared them, but the pool may give a new one.
func (b *bank) prepareCommit(ctx context.Context, tx pgx.Tx) {
	b.Helper()
	for _, sql := range b.store.CommitStatements() {
		if _, err := tx.Prepare(ctx, sql, sql); err != nil { // the name of a statement that pgx would prepare
			b.Error(err)
		}
	}
}

// The transaction was committed, but the reply is lost. The retry on a new connection finds the completion.
func TestCommitWithLostReplyCountsOnce(t *testing.T) {
	for name, fault := range map[string]faultproxy.Fault{"reset": faultproxy.Reset,
		"silent": faultproxy.Silent} {
		t.Run(name, func(t *testing.T) {
			b, proxy := newBankBehind(t, idem.Config{}, 0)
			connections := 0
			faultproxy.Within(t, soon, "a payment", func(ctx context.Context) {
				b.want(b.engine.Do(ctx, b.task("first", b.pays("", nil))), idem.Executed)
				connections = proxy.Connections()
				out := b.engine.Do(ctx, b.task("k", func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
					err := b.write(ctx, tx, "once")
					b.prepareCommit(ctx, tx)
					proxy.NextReply(fault)
					return []byte("paid"), err
				}))
				b.want(out, idem.Executed)
			})
			if n := b.effects(); n != 2 || proxy.Connections() == connections {
				t.Errorf("%d effects, want 2; a new connection was made: %t", n,
					proxy.Connections() > connections)
			}
		})
	}
}

// The COMMIT does not reach the server. The retry of the settlement on a new connection releases the key, and
// the server ends the transaction after IdleLimit.
func TestLostCommitIsRolledBack(t *testing.T) {
	b, proxy := newBankBehind(t, idem.Config{}, time.Second)
	silenced := func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		err := b.write(ctx, tx, "undone")
		proxy.Existing(faultproxy.Silent)
		return nil, err
	}
	faultproxy.Within(t, soon, "a payment", func(ctx context.Context) {
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

// RoundTripTimeout bounds the time without an answer, not the duration of a round trip.
func TestLargeResultsSucceedOverASlowNetwork(t *testing.T) {
	const (
		size = 30 << 10
		rate = 2 << 20 // bytes a second: the results take longer than RoundTripTimeout
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
	faultproxy.Within(t, soon, "a hundred completions", func(ctx context.Context) {
		if errs := st.Settle(ctx, ss); errs != nil {
			t.Error(errs[0])
		}
	})
	faultproxy.Within(t, soon, "a hundred duplicates", func(ctx context.Context) {
		for _, res := range st.Claim(ctx, hundred()) {
			if res.State != store.ClaimCompleted || len(res.Entry.Result) != size {
				t.Fatalf("state %d, %v, %d bytes", res.State, res.Err, len(res.Entry.Result))
			}
		}
	})
}
