//go:build servers

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
)

// enlists is a handler that enlists the insertion of an effect.
func (b *bank) enlists(what string) idem.HandlerFunc {
	return func(ctx context.Context) ([]byte, error) {
		return []byte(what), pgstore.Enlist(ctx, `INSERT INTO `+b.table+`_effects VALUES ($1)`, what)
	}
}

// handled is a task whose handler is not a txHandler.
func (b *bank) handled(key string, h idem.Handler) idem.Task {
	t := b.task(key, nil)
	t.Handler = h
	return t
}

func TestEnlistedStatementsCommitWithTheCompletion(t *testing.T) {
	b := newBank(t, newPool(t, server.URL()), idem.Config{MaxAttempts: 1})
	count := `SELECT 1 FROM ` + b.table + `_effects WHERE what = $1`
	noAccount := errors.New("no such account")
	for _, tc := range []struct {
		name    string
		enlist  func(ctx context.Context) error
		want    idem.Kind
		says    string
		effects int64
	}{
		{"two statements", func(ctx context.Context) error {
			_, err := b.enlists("a")(ctx)
			return errors.Join(err, pgstore.EnlistRows(ctx, 1, nil,
				`UPDATE `+b.table+`_effects SET what = 'b' WHERE what = $1;`, "a"))
		}, idem.Executed, "", 1},
		{"words in strings and comments", func(ctx context.Context) error {
			err := pgstore.EnlistRows(ctx, 1, nil, "-- name: note\nINSERT INTO "+b.table+
				"_effects VALUES ('returning customer') -- done")
			return errors.Join(err, pgstore.EnlistRows(ctx, 1, nil, "/* no\nword */ DELETE FROM "+b.table+
				"_effects WHERE what LIKE 'returning%'"))
		}, idem.Executed, "", 1},
		{"after a transaction", func(ctx context.Context) error {
			tx, err := pgstore.TxFrom(ctx)
			if err == nil {
				err = b.write(ctx, tx, "c")
			}
			return errors.Join(err, pgstore.EnlistRows(ctx, 1, nil, count, "c"))
		}, idem.Executed, "", 2},
		{"a condition holds", func(ctx context.Context) error {
			_, err := b.enlists("d")(ctx)
			return errors.Join(err, pgstore.EnlistRows(ctx, 1, noAccount, count, "c"),
				pgstore.EnlistRows(ctx, 1, nil, `WITH x AS (SELECT 'c' AS what) SELECT what FROM x`))
		}, idem.Executed, "", 3},
		{"a condition does not hold", func(ctx context.Context) error {
			_, err := b.enlists("e")(ctx)
			return errors.Join(err, pgstore.EnlistRows(ctx, 1, noAccount, count, "nobody"))
		}, idem.DeadLettered, "no such account", 3},
		{"another number of rows, after a transaction", func(ctx context.Context) error {
			tx, err := pgstore.TxFrom(ctx)
			if err == nil {
				err = b.write(ctx, tx, "e")
			}
			return errors.Join(err, pgstore.EnlistRows(ctx, 1, nil, `DELETE FROM `+b.table+`_effects`))
		}, idem.DeadLettered, "1, but it changed 4", 3},
		{"a statement that fails", func(ctx context.Context) error {
			_, err := b.enlists("e")(ctx)
			return errors.Join(err, pgstore.Enlist(ctx, `SELECT 1/0`))
		}, idem.DeadLettered, "division by zero", 3},
		{"a statement that can't be prepared", func(ctx context.Context) error {
			return pgstore.Enlist(ctx, `INSERT INTO no_such_table VALUES (1)`)
		}, idem.DeadLettered, "no_such_table", 3},
		{"a COMMIT, whose error is ignored", func(ctx context.Context) error {
			_, err := b.enlists("e")(ctx)
			_ = pgstore.Enlist(ctx, `COMMIT`)
			return err
		}, idem.DeadLettered, `begins with "COMMIT"`, 3},
		{"an argument that writes COMMIT, whose error is ignored", func(ctx context.Context) error {
			_, err := b.enlists("e")(ctx)
			_ = pgstore.Enlist(ctx, `SELECT 1`, rewriter(`COMMIT`))
			return err
		}, idem.DeadLettered, "rewriter rewrites it", 3},
		{"an error of the handler", func(ctx context.Context) error {
			_, err := b.enlists("e")(ctx)
			return errors.Join(err, errBoom)
		}, idem.DeadLettered, "boom", 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := b.engine.Do(t.Context(), b.handled(tc.name, idem.HandlerFunc(
				func(ctx context.Context) ([]byte, error) { return nil, tc.enlist(ctx) })))
			b.want(out, tc.want)
			if tc.says != "" && !strings.Contains(out.Err.Error(), tc.says) {
				t.Errorf("error %v; want %q in it", out.Err, tc.says)
			}
			if n := b.effects(); n != tc.effects {
				t.Errorf("%d effects; want %d", n, tc.effects)
			}
			wantGivenBack(t, b.pool)
		})
	}
}

// rewriter is an argument that replaces its statement.
type rewriter string

// RewriteQuery implements pgx.QueryRewriter.
func (r rewriter) RewriteQuery(context.Context, *pgx.Conn, string, []any) (string, []any, error) {
	return string(r), nil, nil
}

func TestNothingIsEnlistedAfterTheHandlerReturned(t *testing.T) {
	b := newBank(t, newPool(t, server.URL()), idem.Config{})
	var kept context.Context
	b.want(b.engine.Do(t.Context(), b.handled("k", idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
		kept = ctx //nolint:fatcontext // that is the point
		return b.enlists("x")(ctx)
	}))), idem.Executed)
	if _, err := b.enlists("late")(kept); err == nil {
		t.Error("it was enlisted")
	}
	if _, err := b.enlists("unprotected")(t.Context()); !idem.IsUnavailable(err) {
		t.Errorf("without a transaction: %v", err)
	}
}

// transactions returns how many transactions of the server have changed the table of effects.
func (b *bank) transactions() int64 {
	b.Helper()
	return ask[int64](b, b.pool, `SELECT count(DISTINCT xmin::text) FROM `+b.table+`_effects`)
}

// Records whose handlers end together commit in few transactions, except those whose statements fail.
func TestEnlistedStatementsOfManyRecordsCommitTogether(t *testing.T) {
	const records = 400
	b := newBank(t, newPool(t, server.URL()), idem.Config{})
	scheduler, err := idem.NewScheduler(b.engine, idem.SchedulerConfig{Concurrency: 100})
	if err != nil {
		t.Fatal(err)
	}
	var lanes [][]*idem.Item
	for i := range records {
		h := b.enlists(fmt.Sprint(i))
		if i%50 == 0 {
			h = func(ctx context.Context) ([]byte, error) {
				_, err := b.enlists("undone")(ctx)
				return nil, errors.Join(err,
					pgstore.EnlistRows(ctx, 1, idem.Permanent(errBoom), `SELECT 1 WHERE false`))
			}
		}
		lanes = append(lanes, []*idem.Item{{Task: b.handled(fmt.Sprint("k", i), h)}})
	}
	scheduler.Run(t.Context(), lanes)
	for i, lane := range lanes {
		want := idem.Executed
		if i%50 == 0 {
			want = idem.DeadLettered
		}
		b.want(lane[0].Outcome, want)
	}
	if n := b.effects(); n != records-records/50 {
		t.Errorf("%d effects", n)
	}
	if n := b.transactions(); n > records/8 {
		t.Errorf("%d records committed in %d transactions", records, n)
	}
}

// group returns claimed completions, each with an enlisted insertion.
func (b *bank) group(n int) []store.Settlement {
	b.Helper()
	ss := make([]store.Settlement, n)
	for i := range ss {
		ss[i] = settlement(claimOne(b.T, b.store, request(fmt.Sprint("k", i), 1), store.Claimed).Entry,
			store.OpComplete)
		ss[i].Effect = b.store.NewEffect()
		ctx := context.WithValue(b.Context(), store.EffectKey{}, func() store.Effect { return ss[i].Effect })
		if _, err := b.enlists(fmt.Sprint(i))(ctx); err != nil {
			b.Fatal(err)
		}
		if _, err := ss[i].Effect.Seal(); err != nil {
			b.Fatal(err)
		}
	}
	return ss
}

// A group that is sent again after its answer was lost, or beside one that took its key, commits nothing twice.
// So it is if its statements fail, because they meet the effects of the first try.
func TestGroupThatIsSentAgainCommitsOnce(t *testing.T) {
	for name, constraint := range map[string]string{
		"its completions are refused": "", "its statements fail": "ADD UNIQUE (what)",
		"its end fails": "ADD UNIQUE (what) DEFERRABLE INITIALLY DEFERRED",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, newPool(t, server.URL()), idem.Config{})
			if constraint != "" {
				execute(t, b.pool, `ALTER TABLE `+b.table+`_effects `+constraint)
			}
			ss := b.group(10)
			for range 2 {
				if errs := b.store.Settle(t.Context(), ss); errs != nil {
					t.Fatal(errs)
				}
			}
			if n, tx := b.effects(), b.transactions(); n != 10 || tx != 1 {
				t.Errorf("%d effects in %d transactions; want 10 in 1", n, tx)
			}
		})
	}
}

// A conflict with another transaction is retried, and one that lasts costs the records that meet it only.
func TestGroupMeetsConflicts(t *testing.T) {
	for name, conflicts := range map[string]int{"once": 1, "with all tries of the group": pgstore.MaxTries} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, newPool(t, server.URL()), idem.Config{})
			ss := b.group(10)
			met := newConflicts(t, b.pool, b.store.Table(), "40P01")
			met.next(conflicts)
			if errs := b.store.Settle(t.Context(), ss); errs != nil {
				t.Fatal(errs)
			}
			if left := met.left(); left > 0 || b.effects() != 10 {
				t.Errorf("%d conflicts were not met, %d effects", left, b.effects())
			}
		})
	}
}

// A deferred constraint is checked at the end of the transaction, where no statement is named.
func TestDeferredConstraintOfAGroup(t *testing.T) {
	b := newBank(t, newPool(t, server.URL()), idem.Config{})
	execute(t, b.pool, `ALTER TABLE `+b.table+`_effects ADD UNIQUE (what) DEFERRABLE INITIALLY DEFERRED`)
	execute(t, b.pool, `INSERT INTO `+b.table+`_effects VALUES ('3')`)
	for i, err := range b.store.Settle(t.Context(), b.group(6)) {
		if (i == 3) != errors.Is(err, store.ErrRejected) || i != 3 && err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if n := b.effects(); n != 6 {
		t.Errorf("%d effects; want 6", n)
	}
}

// The store's own faults are no errors of the handlers.
func TestGroupWithoutItsTable(t *testing.T) {
	b := newBank(t, newPool(t, server.URL()), idem.Config{})
	ss := b.group(3)
	execute(t, b.pool, `DROP TABLE `+b.store.Table())
	for i, err := range b.store.Settle(t.Context(), ss) {
		if err == nil || errors.Is(err, store.ErrRejected) || errors.Is(err, store.ErrFenced) {
			t.Errorf("%d: %v; want an error of the store", i, err)
		}
	}
	if n := b.effects(); n != 0 {
		t.Errorf("%d effects", n)
	}
}

// A group whose statements take longer than a round trip may is made smaller until it is answered.
func TestSlowStatementsMakeSmallerGroups(t *testing.T) {
	const records = 40
	// the server ends the statements of a client that has gone
	server := ownServer(t, map[string]string{"client_connection_check_interval": "100ms"})
	b := newBank(t, newPool(t, server.URL()), idem.Config{})
	b.store = newStore(t, b.pool, pgstore.Config{Table: b.table, RoundTripTimeout: 500 * time.Millisecond})
	var err error
	if b.engine, err = idem.New(b.store, idem.Config{}); err != nil {
		t.Fatal(err)
	}
	scheduler, err := idem.NewScheduler(b.engine, idem.SchedulerConfig{Concurrency: records})
	if err != nil {
		t.Fatal(err)
	}
	var lanes [][]*idem.Item
	for i := range records {
		h := func(ctx context.Context) ([]byte, error) {
			_, err := b.enlists(fmt.Sprint(i))(ctx)
			return nil, errors.Join(err, pgstore.Enlist(ctx, `SELECT pg_sleep(0.05)`))
		}
		lanes = append(lanes, []*idem.Item{{Task: b.handled(fmt.Sprint("k", i), idem.HandlerFunc(h))}})
	}
	scheduler.Run(t.Context(), lanes)
	for _, lane := range lanes {
		b.want(lane[0].Outcome, idem.Executed)
	}
	if n := b.effects(); n != records {
		t.Errorf("%d effects; want %d", n, records)
	}
}
