//go:build servers

package pgstore_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
)

// wantFree waits until no connection of a pool is taken: a claim whose connection stays taken would leave the pool without any in
// the end.
func wantFree(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for end := time.Now().Add(soon); pool.Stat().AcquiredConns() > 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d connections are still taken after %v", pool.Stat().AcquiredConns(), soon)
		}
	}
}

// A claim that has waited for its turn is extended before its handler begins. Where it is found lost, nothing will settle it.
func TestAClaimThatIsFoundLostGivesItsConnectionBack(t *testing.T) {
	for name, lose := range map[string]func(s *pgstore.TxStore, rec store.Entry) (context.Context, error){
		"its record was deleted": func(s *pgstore.TxStore, rec store.Entry) (context.Context, error) {
			return t.Context(), s.Delete(t.Context(), rec.Key, rec.Token)
		},
		"the session has ended": func(*pgstore.TxStore, store.Entry) (context.Context, error) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t, server.URL())
			s := txStore(t, pool, newTable(t, pool))
			rec := claimOne(t, s, request("k", 1), store.Claimed).Entry
			ctx, err := lose(s, rec)
			if err != nil {
				t.Fatal(err)
			}
			if errs := s.Settle(ctx, []store.Settlement{settlement(rec, store.OpExtend)}); errs == nil {
				t.Error("it was extended")
			}
			wantFree(t, pool)
		})
	}
}

// A handler that is told by its heartbeat that its claim is lost is still at work: its transaction is not taken away under it.
func TestAHandlerWhoseClaimIsLostKeepsItsConnectionUntilItReturns(t *testing.T) {
	b := newBank(t, newPool(t, server.URL()), idem.Config{})
	out := b.engine.Do(t.Context(), b.task("k", func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		rec := b.get("k")
		if err := b.store.Delete(ctx, "k", rec.Token); err != nil {
			t.Error(err)
		}
		if errs := b.store.Settle(ctx, []store.Settlement{settlement(rec, store.OpExtend)}); !errors.Is(errors.Join(errs...), store.ErrFenced) {
			t.Errorf("the extension: %v, want it fenced", errs)
		}
		return nil, b.write(ctx, tx, "undone")
	}))
	b.want(out, idem.Fenced)
	if n := b.effects(); n != 0 {
		t.Errorf("%d effects, want none", n)
	}
	wantFree(t, b.pool)
}

func TestAHandlerThatDoesNotReturnGivesItsConnectionBack(t *testing.T) {
	for name, end := range map[string]func(){"it ends its goroutine": runtime.Goexit, "it panics": func() { panic("boom") }} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, newPool(t, server.URL()), idem.Config{})
			var handler sync.WaitGroup
			handler.Go(func() {
				b.engine.Do(t.Context(), b.task("k", func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
					err := b.write(ctx, tx, "undone")
					end()
					return nil, err
				}))
			})
			handler.Wait()
			wantFree(t, b.pool)
			b.want(b.engine.Do(t.Context(), b.task("k", b.pays("once", nil))), idem.Executed)
			if n := b.effects(); n != 1 {
				t.Errorf("%d effects, want 1", n)
			}
		})
	}
}
