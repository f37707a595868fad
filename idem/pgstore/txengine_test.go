//go:build servers

package pgstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
)

// bank is an engine whose handlers write effects to a table in their transactions.
type bank struct {
	*testing.T
	pool   *pgxpool.Pool
	store  *pgstore.Store
	engine *idem.Engine
	table  string

	mu      sync.Mutex
	letters []idem.DeadLetter
}

func newBank(t *testing.T, pool *pgxpool.Pool, cfg idem.Config) *bank {
	t.Helper()
	b := &bank{T: t, pool: pool, table: newTable(t, pool)}
	b.store = newStore(t, pool, pgstore.Config{Table: b.table})
	var err error
	if b.engine, err = idem.New(b.store, cfg); err != nil {
		t.Fatal(err)
	}
	execute(t, pool, `CREATE TABLE `+b.table+`_effects (what text)`)
	return b
}

func (b *bank) write(ctx context.Context, tx pgx.Tx, what string) error {
	_, err := tx.Exec(ctx, `INSERT INTO `+b.table+`_effects VALUES ($1)`, what)
	return err
}

// effects returns the number of effects.
func (b *bank) effects() int64 {
	b.Helper()
	return ask[int64](b, b.pool, `SELECT count(*) FROM `+b.table+`_effects`)
}

func (b *bank) get(key string) store.Entry {
	b.Helper()
	entry, err := b.store.Get(context.Background(), key)
	if err != nil {
		b.Fatal(err)
	}
	return entry
}

func (b *bank) task(key string, h txHandler) idem.Task {
	return idem.Task{
		Key: key, Handler: h, Fingerprint: store.FingerprintOf([]byte(key)), Source: "payments-0@1",
		DeadLetters: idem.DeadLetterFunc(func(_ context.Context, letter idem.DeadLetter) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.letters = append(b.letters, letter)
			return nil
		}),
	}
}

// pays returns a handler that writes an effect and returns the given result and error.
func (b *bank) pays(result string, err error) txHandler {
	return func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		return []byte(result), errors.Join(b.write(ctx, tx, result), err)
	}
}

func (b *bank) want(out idem.Outcome, kind idem.Kind) {
	b.Helper()
	if out.Kind != kind {
		b.Fatalf("%v: %v; want %v", out.Kind, out.Err, kind)
	}
}

var errBoom = errors.New("boom")

func TestEffectAndCompletionCommitTogether(t *testing.T) {
	b := newBank(t, newPool(t, server.URL()), idem.Config{})
	out := b.engine.Do(t.Context(), b.task("k", func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		if err := b.write(ctx, tx, "once"); err != nil {
			return nil, err
		}
		if n := b.effects(); n != 0 {
			t.Errorf("%d effects are seen before the handler has returned", n)
		}
		if st := b.get("k").Status; st != store.StatusStarted {
			t.Errorf("the key is %s while its handler runs", st)
		}
		return []byte("paid"), nil
	}))
	b.want(out, idem.Executed)
	if b.effects() != 1 || b.get("k").Status != store.StatusCompleted {
		t.Errorf("%d effects, %+v", b.effects(), b.get("k"))
	}
	out = b.engine.Do(t.Context(), b.task("k", b.pays("again", nil)))
	b.want(out, idem.Replayed)
	if string(out.Result) != "paid" || b.effects() != 1 {
		t.Errorf("replayed %q, %d effects", out.Result, b.effects())
	}
}

func TestHandlerResultDecidesTheTransaction(t *testing.T) {
	pool := newPool(t, server.URL())
	aborts := func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		_, _ = tx.Exec(ctx, `SELECT 1/0`)
		return nil, nil
	}
	for _, tc := range []struct {
		name    string
		handler func(b *bank) txHandler
		want    idem.Kind
		says    string
		status  store.Status
		charged int
		effects int64
	}{
		{"success", func(b *bank) txHandler { return b.pays("r", nil) }, idem.Executed, "",
			store.StatusCompleted, 1, 1},
		{"an error", func(b *bank) txHandler { return b.pays("r", errBoom) }, idem.Retry, "boom",
			store.StatusStarted, 1, 0},
		{"a permanent one", func(b *bank) txHandler { return b.pays("r", idem.Permanent(errBoom)) },
			idem.DeadLettered, "boom", store.StatusFailed, 1, 0},
		{"an unavailable one", func(b *bank) txHandler { return b.pays("r", idem.Unavailable(errBoom)) },
			idem.DependencyDown, "boom", store.StatusStarted, 0, 0},
		{"one that may pass later", func(
			b *bank) txHandler {
			return b.pays("r", idem.RetryAfter(errBoom, time.Hour))
		}, idem.Retry,
			"boom", store.StatusStarted, 1, 0},
		{"a result that can't be encoded",
			func(b *bank) txHandler { return b.pays("r", idem.ResultUnavailable(errBoom)) }, idem.Executed,
			"boom", store.StatusCompleted, 1, 1},
		{"a panic", func(b *bank) txHandler {
			return func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
				_ = b.write(ctx, tx, "x")
				panic("boom")
			}
		}, idem.Retry, "boom", store.StatusStarted, 1, 0},
		{"success after a statement that failed", func(*bank) txHandler { return aborts }, idem.Retry,
			"a statement of the transaction failed", store.StatusStarted, 1, 0},
		{"success after a savepoint that was rolled back", func(b *bank) txHandler {
			return func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
				_ = pgx.BeginFunc(ctx, tx,
					func(tx pgx.Tx) error { _, err := aborts(ctx, tx); return errors.Join(err, errBoom) })
				return nil, b.write(ctx, tx, "x")
			}
		}, idem.Executed, "", store.StatusCompleted, 1, 1},
		{"a search path in which the keys are not", func(*bank) txHandler {
			return func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
				_, err := tx.Exec(ctx, `SET LOCAL search_path = pg_temp`)
				return nil, err
			}
		}, idem.Retry, "does it set another role or search path", store.StatusStarted, 1, 0},
		{"COMMIT by itself", func(*bank) txHandler {
			return func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
				_, err := tx.Exec(ctx, `COMMIT`)
				return nil, err
			}
		}, idem.DeadLettered, "ended the transaction itself", store.StatusFailed, 1, 0},
		{"the error of tx.Commit", func(b *bank) txHandler {
			return func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
				return nil, errors.Join(b.write(ctx, tx, "x"), tx.Commit(ctx), tx.Rollback(ctx))
			}
		}, idem.Retry, "committed when the handler returns", store.StatusStarted, 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBank(t, pool, idem.Config{})
			out := b.engine.Do(t.Context(), b.task("k", tc.handler(b)))
			b.want(out, tc.want)
			if tc.says != "" && (out.Err == nil || !strings.Contains(out.Err.Error(), tc.says)) {
				t.Errorf("error %v; want %q in it", out.Err, tc.says)
			}
			entry := b.get("k")
			if entry.Status != tc.status || entry.Attempts != tc.charged || b.effects() != tc.effects {
				t.Errorf("%s, %d attempts, %d effects; want %s, %d, %d", entry.Status, entry.Attempts,
					b.effects(), tc.status, tc.charged, tc.effects)
			}
			if entry.Status == store.StatusStarted && (!entry.Released() || entry.Failure == nil) {
				t.Errorf("the key was not released with its failure: %+v", entry)
			}
			if (tc.want == idem.DeadLettered) != (len(b.letters) == 1) {
				t.Errorf("%d dead letters", len(b.letters))
			}
			wantGivenBack(t, pool)
		})
	}
}

// A deferred constraint fails at COMMIT, after the handler has returned. This counts as an error of the
// handler.
func TestRefusedCommitIsRolledBack(t *testing.T) {
	b := newBank(t, newPool(t, server.URL()), idem.Config{MaxAttempts: 2})
	execute(t, b.pool, `ALTER TABLE `+b.table+`_effects ADD UNIQUE (what) DEFERRABLE INITIALLY DEFERRED`)
	b.want(b.engine.Do(t.Context(), b.task("k1", b.pays("same", nil))), idem.Executed)
	b.want(b.engine.Do(t.Context(), b.task("k2", b.pays("same", nil))), idem.Retry)
	entry := b.get("k2")
	if b.effects() != 1 || entry.Attempts != 1 || entry.Failure == nil ||
		!strings.Contains(entry.Failure.Message, "duplicate key") {
		t.Errorf("%d effects, %+v", b.effects(), entry)
	}
	b.want(b.engine.Do(t.Context(), b.task("k2", b.pays("same", nil))), idem.DeadLettered)
	if len(b.letters) != 1 || !strings.Contains(b.letters[0].Failure.Message, "duplicate key") ||
		b.effects() != 1 {
		t.Errorf("%d effects, dead letters %+v", b.effects(), b.letters)
	}
	wantGivenBack(t, b.pool)
}

// An owner that lost its key, because the entry was deleted or the lease expired, has no effect.
func TestOwnerThatLostItsKeyHasNoEffect(t *testing.T) {
	b := newBank(t, newPool(t, server.URL()), idem.Config{})
	out := b.engine.Do(t.Context(), b.task("k", func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		if err := b.store.Delete(ctx, "k", b.get("k").Token); err != nil {
			return nil, err
		}
		return nil, b.write(ctx, tx, "late")
	}))
	b.want(out, idem.Fenced)
	if b.effects() != 0 {
		t.Error("its effect was committed")
	}
}

func TestPaymentWaitsForItsKeyInFlight(t *testing.T) {
	b := newBank(t, newPool(t, server.URL()), idem.Config{})
	begun, waiting := make(chan struct{}), make(chan idem.Outcome)
	go func() {
		<-begun
		waiting <- b.engine.Do(t.Context(), b.task("k", b.pays("second", nil)))
	}()
	out := b.engine.Do(t.Context(), b.task("k", func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		close(begun)
		return []byte("first"), b.write(ctx, tx, "first")
	}))
	b.want(out, idem.Executed)
	out = <-waiting
	b.want(out, idem.Replayed)
	if string(out.Result) != "first" || b.effects() != 1 {
		t.Errorf("replayed %q, %d effects", out.Result, b.effects())
	}
}

func TestMismatchAndRedriveOfAPayment(t *testing.T) {
	b := newBank(t, newPool(t, server.URL()), idem.Config{})
	b.want(b.engine.Do(t.Context(), b.task("k", b.pays("r", idem.Permanent(errBoom)))), idem.DeadLettered)
	b.want(b.engine.Do(t.Context(), b.task("k", b.pays("r", nil))), idem.ReplayedFailed)
	other := b.task("k", b.pays("r", nil))
	other.Fingerprint = store.FingerprintOf([]byte("another"))
	b.want(b.engine.Do(t.Context(), other), idem.Mismatched)
	again := b.task("k", b.pays("r", nil))
	again.RedriveToken = b.letters[0].Attempt.Token
	b.want(b.engine.Do(t.Context(), again), idem.Executed)
	if b.effects() != 1 {
		t.Errorf("%d effects", b.effects())
	}
}

func TestHashedKeysFindTheirTransaction(t *testing.T) {
	b := newBank(t, newPool(t, server.URL()), idem.Config{HashKeys: true})
	b.want(b.engine.Do(t.Context(), b.task("k", b.pays("r", nil))), idem.Executed)
	if b.effects() != 1 {
		t.Errorf("%d effects", b.effects())
	}
}

// downStore does not answer.
type downStore struct{ store.Store }

// Claim implements store.Store.
func (downStore) Claim(_ context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	return slices.Repeat([]store.ClaimResult{{Err: errors.New("no answer")}}, len(reqs))
}

func TestNothingIsWrittenWithoutATransaction(t *testing.T) {
	b := newBank(t, newPool(t, server.URL()), idem.Config{})
	engine, err := idem.New(downStore{}, idem.Config{FailOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	b.want(engine.Do(t.Context(), b.task("k", b.pays("r", nil))), idem.DependencyDown)
}

func TestIdleTransactionIsRolledBack(t *testing.T) {
	pool := newPool(t, server.URL())
	b := newBank(t, pool, idem.Config{})
	b.store = newStore(t, pool, pgstore.Config{Table: b.table, IdleLimit: time.Millisecond})
	var err error
	if b.engine, err = idem.New(b.store, idem.Config{}); err != nil {
		t.Fatal(err)
	}
	out := b.engine.Do(t.Context(), b.task("k", func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		for ask[int64](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND pid = $1`, tx.Conn().PgConn().PID()) > 0 {
		}
		return nil, b.write(ctx, tx, "late")
	}))
	b.want(out, idem.Retry)
	if entry := b.get("k"); b.effects() != 0 || !entry.Released() {
		t.Errorf("%d effects, %+v", b.effects(), entry)
	}
	if !strings.Contains(out.Err.Error(), "idle-in-transaction") {
		t.Error(out.Err)
	}
}

// The statements of a call of several items that fails as a whole are rolled back before its items are
// handled alone.
func TestStatementsOfAFailedCallAreRolledBack(t *testing.T) {
	b := newBank(t, newPool(t, server.URL()), idem.Config{})
	calls := 0
	scheduler, err := idem.NewScheduler(b.engine, idem.SchedulerConfig{
		Bulk: func(_ context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
			calls++
			for _, it := range items {
				tx, err := pgstore.TxFrom(it.Context())
				if err == nil {
					err = b.write(it.Context(), tx, it.Task.Key)
				}
				if err != nil {
					return nil, err
				}
			}
			if calls == 1 {
				return nil, errors.New("after all statements")
			}
			return make([]idem.BulkResult, len(items)), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	items := []*idem.Item{{Task: b.task("a", nil)}, {Task: b.task("b", nil)}, {Task: b.task("c", nil)}}
	scheduler.Run(t.Context(), [][]*idem.Item{items})
	if calls != 4 || b.effects() != 3 {
		t.Errorf("%d calls, %d effects; want 4 and 3", calls, b.effects())
	}
	for _, it := range items {
		b.want(it.Outcome, idem.Executed)
	}
}
