//go:build servers

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/pgserver"
)

// inMidBatch sends a batch of 100, injects a fault while the server processes it, and returns the batch's
// answers.
func inMidBatch[R any](t *testing.T, pool *pgxpool.Pool, table string, batch func() R,
	fault func(pid int)) R {
	t.Helper()
	holder, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.Background())
	if _, err := holder.Exec(t.Context(), `BEGIN; LOCK TABLE `+table); err != nil {
		t.Fatal(err)
	}
	answer := make(chan R)
	go func() { answer <- batch() }()
	for pid := 0; ; runtime.Gosched() {
		err := holder.QueryRow(t.Context(),
			`SELECT coalesce(max(pid), 0) FROM pg_locks WHERE NOT granted AND relation = $1::regclass`,
			table).Scan(&pid)
		if err != nil {
			t.Fatal(err)
		}
		if pid != 0 {
			fault(pid)
			break
		}
	}
	holder.Close(context.Background())
	return <-answer
}

func hundred() (reqs []store.ClaimRequest) {
	for i := range pgstore.MaxBatchSize {
		reqs = append(reqs, request(fmt.Sprint("key ", i), i))
	}
	return reqs
}

func TestKilledConnectionDuringBatchIsRetried(t *testing.T) {
	root := newPool(t, server.URL())
	pool := newPool(t, server.URL())
	st := newStore(t, pool, pgstore.Config{})
	kill := func(pid int) {
		if !ask[bool](t, root, `SELECT pg_terminate_backend($1, 5000)`, pid) {
			t.Error("the connection was not killed")
		}
	}
	results := inMidBatch(t, pool, st.Table(),
		func() []store.ClaimResult { return st.Claim(t.Context(), hundred()) }, kill)
	var ss []store.Settlement
	for _, res := range results {
		if res.State != store.Claimed || res.Entry.Attempts != 1 {
			t.Fatalf("state %d, error %v, %+v", res.State, res.Err, res.Entry)
		}
		ss = append(ss, settlement(res.Entry, store.OpComplete))
	}
	if errs := inMidBatch(t, pool, st.Table(), func() []error { return st.Settle(t.Context(), ss) },
		kill); errs != nil {
		t.Fatal(errs[0])
	}
	for i, res := range st.Claim(t.Context(), hundred()) {
		if res.State != store.ClaimCompleted {
			t.Fatalf("%d: state %d, error %v", i, res.State, res.Err)
		}
	}
}

func TestServerRestartDuringBatchLosesNothing(t *testing.T) {
	for name, end := range map[string]func(*pgserver.Server) error{"stopped": (*pgserver.Server).Stop,
		"crashed": (*pgserver.Server).Crash} {
		t.Run(name, func(t *testing.T) {
			srv := ownServer(t, nil)
			pool := newPool(t, srv.URL())
			st := newStore(t, pool, pgstore.Config{})
			restart := func(int) {
				if err := errors.Join(end(srv), srv.Restart(t.Context())); err != nil {
					t.Error(err)
				}
			}
			results := inMidBatch(t, pool, st.Table(),
				func() []store.ClaimResult { return st.Claim(t.Context(), hundred()) }, restart)
			for _, res := range results {
				if err := res.Err; err != nil && !strings.Contains(err.Error(), "being stopped or started") &&
					!strings.Contains(err.Error(), "can't be reached") {
					t.Fatal(err)
				}
			}
			var ss []store.Settlement
			for _, res := range st.Claim(t.Context(), hundred()) { // retried by the same owners
				if res.State != store.Claimed || res.Entry.Attempts != 1 {
					t.Fatalf("state %d, error %v, %+v", res.State, res.Err, res.Entry)
				}
				ss = append(ss, settlement(res.Entry, store.OpComplete))
			}
			inMidBatch(t, pool, st.Table(), func() []error { return st.Settle(t.Context(), ss) }, restart)
			if errs := st.Settle(t.Context(), ss); errs != nil { // retried
				t.Fatal(errs)
			}
			for i, res := range st.Claim(t.Context(), hundred()) {
				if res.State != store.ClaimCompleted || res.Entry.Attempts != 1 {
					t.Fatalf("%d: state %d, error %v, %+v", i, res.State, res.Err, res.Entry)
				}
			}
		})
	}
}

func TestKilledConnectionRollsTheTransactionBack(t *testing.T) {
	for name, after := range map[string]func(ctx context.Context, b *bank, tx pgx.Tx) error{
		"while its handler writes": func(ctx context.Context, b *bank,
			tx pgx.Tx) error {
			return b.write(ctx, tx, "second")
		},
		"when its handler is done": func(context.Context, *bank, pgx.Tx) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, newPool(t, server.URL()), idem.Config{})
			out := b.engine.Do(t.Context(), b.task("k", func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
				if err := b.write(ctx, tx, "first"); err != nil {
					return nil, err
				}
				if !ask[bool](t, b.pool, `SELECT pg_terminate_backend($1, 5000)`, tx.Conn().PgConn().PID()) {
					t.Error("the connection was not killed")
				}
				return nil, after(ctx, b, tx)
			}))
			if out.Kind.Settled() || out.Err == nil || b.effects() != 0 {
				t.Fatalf("%v: %v, %d effects", out.Kind, out.Err, b.effects())
			}
			out = b.engine.Do(t.Context(), b.task("k", b.pays("again", nil)))
			b.want(out, idem.Executed)
			if b.effects() != 1 || out.Attempt != 2 {
				t.Errorf("%d effects, attempt %d; want 1 and 2", b.effects(), out.Attempt)
			}
		})
	}
}

// Batches that share keys lock them in the same order, whatever the order of their requests.
func TestBatchesInAnyOrderDoNotDeadlock(t *testing.T) {
	srv := ownServer(t, map[string]string{"deadlock_timeout": "10ms"})
	st := newStore(t, newPool(t, srv.URL()), pgstore.Config{MaxClockSkew: -1})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for range 20 {
				reqs := hundred()
				for i := range reqs {
					// taken over at once
					reqs[i].Owner, reqs[i].Lease = fmt.Sprint(reqs[i].Owner, " of ", w), 0
				}
				if w%2 == 1 {
					slices.Reverse(reqs)
				}
				var ss []store.Settlement
				for _, res := range st.Claim(t.Context(), reqs) {
					if res.Err != nil {
						t.Error(res.Err)
					}
					if res.State == store.Claimed {
						ss = append(ss, settlement(res.Entry, store.OpRelease))
					}
				}
				st.Settle(t.Context(), ss) // most have lost their keys by now
			}
		})
	}
	wg.Wait()
	if log := srv.Log(); strings.Contains(log, "deadlock detected") {
		t.Error("there were deadlocks")
	}
}
