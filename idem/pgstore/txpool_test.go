//go:build servers

package pgstore_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
)

func claimOne(t *testing.T, s store.Store, req store.ClaimRequest, want store.ClaimState) store.ClaimResult {
	t.Helper()
	res := s.Claim(t.Context(), []store.ClaimRequest{req})[0]
	if res.State != want {
		t.Fatalf("state %d, error %v; want state %d: %+v", res.State, res.Err, want, res.Entry)
	}
	return res
}

// wantGivenBack checks that no connection is held. It waits for connections that are being closed.
func wantGivenBack(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); pool.Stat().AcquiredConns() > 0; runtime.Gosched() {
		if time.Now().After(limit) {
			t.Fatalf("%d connections were not given back", pool.Stat().AcquiredConns())
		}
	}
}

// inTransaction returns the completion of an entry with an effect, and the context of its handler.
func (b *bank) inTransaction(entry store.Entry) (set store.Settlement, handlers context.Context) {
	b.Helper()
	set = settlement(entry, store.OpComplete)
	set.Effect = b.store.NewEffect()
	handlers = context.WithValue(b.Context(), store.EffectKey{}, func() store.Effect { return set.Effect })
	tx, err := pgstore.TxFrom(handlers)
	if err == nil {
		err = b.write(handlers, tx, "written")
	}
	if err != nil {
		b.Fatal(err)
	}
	return set, handlers
}

// smallPool returns a pool of n connections.
func smallPool(t *testing.T, n int32) *pgxpool.Pool {
	t.Helper()
	pool, err := pgstore.NewPool(server.URL(), func(c *pgxpool.Config) { c.MaxConns = n })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// With as many handlers in transactions as the pool allows, and others waiting for one, a connection is left
// for the claims, heartbeats and settlements of all.
func TestHandlersInTransactionsLeaveAConnection(t *testing.T) {
	const conns, handlers = 3, 8
	pool := smallPool(t, conns)
	b := newBank(t, pool, idem.Config{Lease: 3 * time.Second})
	observer := newStore(t, newPool(t, server.URL()), pgstore.Config{Table: b.table})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	inside, done := make(chan struct{}, handlers), make(chan idem.Outcome, handlers)
	goOn := make(chan struct{})
	for n := range handlers {
		go func() {
			done <- b.engine.Do(ctx, b.task(string(rune('a'+n)),
				func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
					if err := b.write(ctx, tx, "x"); err != nil {
						return nil, err
					}
					inside <- struct{}{}
					select {
					case <-goOn:
						return nil, nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}))
		}()
	}
	for range conns - 1 {
		<-inside
	}
	for n := range handlers { // until the lease of each handler, running or waiting, was extended
		key := string(rune('a' + n))
		extended := func() bool {
			entry, err := observer.Get(ctx, key)
			return err == nil && entry.LeaseUntil.After(entry.CreatedAt.Add(4*time.Second))
		}
		for !extended() && ctx.Err() == nil {
		}
	}
	other := idem.Task{Key: "other", Handler: idem.HandlerFunc(
		func(context.Context) ([]byte, error) { return nil, nil })}
	b.want(b.engine.Do(ctx, other), idem.Executed)
	close(goOn)
	for range handlers {
		b.want(<-done, idem.Executed)
	}
	if n := b.effects(); n != handlers {
		t.Errorf("%d effects; want %d", n, handlers)
	}
	wantGivenBack(t, pool)
}

func TestPoolOfOneConnectionHasNoTransactions(t *testing.T) {
	b := newBank(t, smallPool(t, 1), idem.Config{})
	out := b.engine.Do(t.Context(), b.task("k", b.pays("r", nil)))
	b.want(out, idem.DependencyDown)
	if !strings.Contains(out.Err.Error(), "pool_max_conns") {
		t.Errorf("%v; want what to do", out.Err)
	}
	b.want(b.engine.Do(t.Context(), idem.Task{Key: "k",
		Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) { return nil, nil })}), idem.Executed)
}

// A handler waits for a transaction until its deadline at most, and the attempt is not counted.
func TestWaitingForATransactionIsNotCountedAsAttempt(t *testing.T) {
	b := newBank(t, smallPool(t, 2), idem.Config{})
	out := b.engine.Do(t.Context(), b.task("first", func(ctx context.Context, _ pgx.Tx) ([]byte, error) {
		second, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		out := b.engine.Do(second, b.task("second", b.pays("r", nil)))
		if out.Kind != idem.DependencyDown || !strings.Contains(out.Err.Error(), "raise pool_max_conns") {
			t.Errorf("%v: %v", out.Kind, out.Err)
		}
		return nil, nil
	}))
	b.want(out, idem.Executed)
	if entry := b.get("second"); entry.Attempts != 0 || !entry.Released() {
		t.Errorf("%+v; want it released, and its attempt given back", entry)
	}
}

// The transaction's connection is returned to the pool even if the caller has given up.
func TestCancelledCallerLeavesNoTransaction(t *testing.T) {
	pool := newPool(t, server.URL())
	b := newBank(t, pool, idem.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	entry := claimOne(t, b.store, request("k", 1), store.Claimed).Entry
	set, _ := b.inTransaction(entry)
	if errs := b.store.Settle(ctx, []store.Settlement{set}); errs == nil ||
		errors.Is(errs[0], store.ErrFenced) {
		t.Errorf("%v; want an error of the caller's", errs)
	}
	wantGivenBack(t, pool)
	if errs := b.store.Settle(t.Context(), []store.Settlement{set}); errs == nil ||
		!errors.Is(errs[0], store.ErrRejected) {
		t.Errorf("sent again: %v; want it rejected", errs)
	}
	if entry := b.get("k"); !store.Holds(&set, &entry) || b.effects() != 0 {
		t.Errorf("%d effects, %+v; want none, and the key held", b.effects(), entry)
	}
}

func TestNoTransactionBeginsAfterTheHandlerReturned(t *testing.T) {
	b := newBank(t, newPool(t, server.URL()), idem.Config{})
	var kept context.Context
	b.want(b.engine.Do(t.Context(), b.task("k", func(ctx context.Context, _ pgx.Tx) ([]byte, error) {
		kept = ctx //nolint:fatcontext // that is the point
		return nil, nil
	})), idem.Executed)
	if _, err := pgstore.TxFrom(kept); err == nil {
		t.Error("there is a transaction")
	}
	wantGivenBack(t, b.pool)
}

// A lost key and an effect that the server refuses need no second connection.
func TestRefusedSettlementNeedsOneConnection(t *testing.T) {
	root := newPool(t, server.URL())
	b := newBank(t, smallPool(t, 2), idem.Config{})
	execute(t, root, `ALTER TABLE `+b.table+`_effects ADD UNIQUE (what) DEFERRABLE INITIALLY DEFERRED`)
	for name, tc := range map[string]struct {
		handler txHandler
		want    idem.Kind
	}{
		"its record is gone": {func(ctx context.Context, _ pgx.Tx) ([]byte, error) {
			_, err := root.Exec(ctx, `DELETE FROM `+b.table)
			return nil, err
		}, idem.Fenced},
		"a constraint refuses": {func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			return nil, errors.Join(b.write(ctx, tx, "same"), b.write(ctx, tx, "same"))
		}, idem.Retry},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		if out := b.engine.Do(ctx, b.task(name, tc.handler)); out.Kind != tc.want || ctx.Err() != nil {
			t.Errorf("%s: %v: %v", name, out.Kind, out.Err)
		}
		cancel()
		wantGivenBack(t, b.pool)
	}
}

func TestOverrunReturnsItsConnection(t *testing.T) {
	for name, end := range map[string]func(){"it ends its goroutine": runtime.Goexit,
		"it panics": func() { panic("boom") }} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, newPool(t, server.URL()), idem.Config{})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				b.engine.Do(t.Context(), b.task("k", func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
					err := b.write(ctx, tx, "undone")
					end()
					return nil, err
				}))
			}()
			<-ended
			wantGivenBack(t, b.pool)
			if n := b.effects(); n != 0 {
				t.Errorf("%d effects, want none", n)
			}
		})
	}
}
