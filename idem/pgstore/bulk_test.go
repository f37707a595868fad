//go:build servers

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
)

// inCall does something in the transaction of a call.
type inCall func(ctx context.Context, tx pgx.Tx, items []*idem.Item) error

// bulk runs items with these keys with a bulk handler that copies an effect for each of them in the
// transaction of the call. then is called in this transaction; its error is that of the call. bulk returns
// the numbers of items of the calls.
func (b *bank) bulk(ctx context.Context, keys []string,
	then inCall) (items []*idem.Item, calls []int) {
	b.Helper()
	return b.bulkInLanes(ctx, keys, 1, then)
}

// bulkInLanes is bulk with several items in a lane.
func (b *bank) bulkInLanes(ctx context.Context, keys []string, inLane int,
	then inCall) (items []*idem.Item, calls []int) {
	b.Helper()
	scheduler, err := idem.NewScheduler(b.engine, idem.SchedulerConfig{
		Bulk: func(ctx context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
			calls = append(calls, len(items))
			tx, err := pgstore.TxFrom(ctx)
			if err != nil {
				return nil, err
			}
			_, err = tx.CopyFrom(ctx, pgx.Identifier{b.table + "_effects"}, []string{"what"},
				pgx.CopyFromSlice(len(items), func(i int) ([]any, error) {
					return []any{items[i].Task.Key}, nil
				}))
			if err == nil && then != nil {
				err = then(ctx, tx, items)
			}
			return make([]idem.BulkResult, len(items)), err
		}})
	if err != nil {
		b.Fatal(err)
	}
	for _, key := range keys {
		items = append(items, &idem.Item{Task: b.task(key, nil)})
	}
	scheduler.Run(ctx, slices.Collect(slices.Chunk(items, inLane)))
	return items, calls
}

// wantOnce checks that all items were executed except those with other kinds, each with one effect.
func (b *bank) wantOnce(items []*idem.Item, others map[string]idem.Kind) {
	b.Helper()
	for _, it := range items {
		kind, other := others[it.Task.Key]
		if !other {
			kind = idem.Executed
		}
		if it.Outcome.Kind != kind {
			b.Errorf("%s: %v: %v; want %v", it.Task.Key, it.Outcome.Kind, it.Outcome.Err, kind)
		}
	}
	distinct := ask[int](b.T, b.pool, `SELECT count(DISTINCT what) FROM `+b.table+`_effects`)
	completed := ask[int](b.T, b.pool, `SELECT count(*) FROM `+b.table+` WHERE status = 'COMPLETED'`)
	if want := len(items) - len(others); int(b.effects()) != want || distinct != want || completed != want {
		b.Errorf("%d effects of %d items, %d completed; want %d", b.effects(), distinct, completed, want)
	}
	wantGivenBack(b.T, b.pool)
}

func numbered(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%04d", i)
	}
	return keys
}

// A call is one transaction, also if its completions are several statements.
func TestCallCommitsWithItsCompletions(t *testing.T) {
	b := newBank(t, newPool(t, server.URL()), idem.Config{CommitWindow: 2500})
	keys := numbered(2500)
	items, calls := b.bulk(t.Context(), keys, func(_ context.Context, _ pgx.Tx, items []*idem.Item) error {
		if n := b.effects(); n != 0 {
			t.Errorf("%d effects are seen before the handler has returned", n)
		}
		return pgstore.EnlistRows(items[0].Context(), 2500, nil, `SELECT * FROM `+b.table+`_effects`)
	})
	if !slices.Equal(calls, []int{2500}) {
		t.Errorf("calls of %v items", calls)
	}
	b.wantOnce(items, nil)
	if n := ask[int](t, b.pool, `SELECT count(DISTINCT xmin::text) FROM `+b.table+
		` WHERE status = 'COMPLETED'`); n != 1 {
		t.Errorf("the completions were %d transactions; want 1", n)
	}
}

// A handler that only enlists statements with the call needs no transaction of its own before.
func TestStatementsEnlistedWithACall(t *testing.T) {
	b := newBank(t, newPool(t, server.URL()), idem.Config{})
	noAccount := errors.New("no such account")
	scheduler, err := idem.NewScheduler(b.engine, idem.SchedulerConfig{
		Bulk: func(ctx context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
			rows := int64(1)
			for _, it := range items {
				if it.Task.Key == "k0001" {
					rows = 2
				}
			}
			return make([]idem.BulkResult, len(items)), errors.Join(
				pgstore.Enlist(ctx, `INSERT INTO `+b.table+`_effects SELECT unnest($1::text[])`,
					keysOfItems(items)),
				pgstore.EnlistRows(ctx, rows, idem.Permanent(noAccount), `SELECT 1`))
		}})
	if err != nil {
		t.Fatal(err)
	}
	var items []*idem.Item
	for _, key := range numbered(3) {
		items = append(items, &idem.Item{Task: b.task(key, nil)})
	}
	scheduler.Run(t.Context(), [][]*idem.Item{items})
	b.wantOnce(items, map[string]idem.Kind{"k0001": idem.DeadLettered})
	if !errors.Is(items[1].Outcome.Err, noAccount) {
		t.Error(items[1].Outcome.Err)
	}
}

func keysOfItems(items []*idem.Item) (keys []string) {
	for _, it := range items {
		keys = append(keys, it.Task.Key)
	}
	return keys
}

// A call whose transaction can't be committed is rolled back, and its items are handled alone.
func TestCallThatCantCommit(t *testing.T) {
	has := func(items []*idem.Item) bool { return slices.Contains(keysOfItems(items), "k0001") }
	retried := map[string]idem.Kind{"k0001": idem.Retry}
	for _, tc := range []struct {
		name  string
		then  func(ctx context.Context, b *bank, tx pgx.Tx) error // in calls that have k0001
		calls []int
		kinds map[string]idem.Kind
		says  string
	}{
		{"a statement fails", func(ctx context.Context, _ *bank, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT 1/0`)
			return err
		}, []int{3, 1, 1, 1}, retried, "division by zero"},
		{"a statement fails, which the handler ignores", func(ctx context.Context, _ *bank, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, `SELECT 1/0`)
			return nil
		}, []int{3, 1, 1, 1}, retried, "a statement of the transaction failed"},
		{"a constraint is checked at COMMIT", func(ctx context.Context, b *bank, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO `+b.table+`_effects VALUES ('k0001')`)
			return err
		}, []int{3, 1, 1, 1}, retried, "duplicate key"},
		{"the connection breaks", func(_ context.Context, b *bank, tx pgx.Tx) error {
			ask[bool](b.T, b.pool, `SELECT pg_terminate_backend($1, 5000)`, tx.Conn().PgConn().PID())
			return nil
		}, []int{3, 1, 1, 1}, retried, "connection was lost"},
		{"a key is taken", func(ctx context.Context, b *bank, _ pgx.Tx) error {
			if err := b.store.Delete(ctx, "k0001", b.get("k0001").Token); err != nil {
				return err
			}
			return b.store.Claim(ctx, []store.ClaimRequest{request("k0001", 1)})[0].Err
		}, []int{3, 2}, map[string]idem.Kind{"k0001": idem.Fenced}, "k0001"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBank(t, newPool(t, server.URL()), idem.Config{})
			execute(t, b.pool, `ALTER TABLE `+b.table+
				`_effects ADD UNIQUE (what) DEFERRABLE INITIALLY DEFERRED`)
			items, calls := b.bulk(t.Context(), numbered(3),
				func(ctx context.Context, tx pgx.Tx, items []*idem.Item) error {
					if !has(items) {
						return nil
					}
					return tc.then(ctx, b, tx)
				})
			if !slices.Equal(calls, tc.calls) {
				t.Errorf("calls of %v items; want %v", calls, tc.calls)
			}
			b.wantOnce(items, tc.kinds)
			if err := items[1].Outcome.Err; err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v; want %q in it", err, tc.says)
			}
		})
	}
}

// A handler that commits by itself is not called again, because another call could repeat its effect.
func TestCallThatEndsItsTransactionIsNotRepeated(t *testing.T) {
	for _, inLane := range []int{1, 3} {
		b := newBank(t, newPool(t, server.URL()), idem.Config{})
		items, calls := b.bulkInLanes(t.Context(), numbered(3), inLane,
			func(ctx context.Context, tx pgx.Tx, _ []*idem.Item) error {
				_, err := tx.Exec(ctx, `COMMIT`)
				return err
			})
		if !slices.Equal(calls, []int{3}) || len(b.letters) != 3 {
			t.Errorf("%d items in a lane: calls of %v items, %d dead letters", inLane, calls, len(b.letters))
		}
		for _, it := range items {
			b.want(it.Outcome, idem.DeadLettered)
		}
	}
}

// The COMMIT of a call was executed, but its reply is lost: all keys are completed. If it was not, all are handled
// alone.
func TestUnansweredCommitOfACall(t *testing.T) {
	for name, fault := range map[string]faultproxy.Fault{"reset": faultproxy.Reset,
		"silent": faultproxy.Silent} {
		t.Run(name, func(t *testing.T) {
			b, proxy := newBankBehind(t, idem.Config{}, 0)
			b.pool = newPool(t, server.URL())
			keys := numbered(120)
			faultproxy.Within(t, soon, "two calls", func(ctx context.Context) {
				first, _ := b.bulk(ctx, keys[:60], nil)
				second, calls := b.bulk(ctx, keys[60:],
					func(ctx context.Context, tx pgx.Tx, _ []*idem.Item) error {
						b.prepareCommit(ctx, tx)
						proxy.NextReply(fault)
						return nil
					})
				if len(calls) != 1 {
					t.Errorf("calls of %v items", calls)
				}
				b.wantOnce(slices.Concat(first, second), nil)
			})
		})
	}
	t.Run("lost COMMIT", func(t *testing.T) {
		b, proxy := newBankBehind(t, idem.Config{}, time.Second)
		b.pool = newPool(t, server.URL())
		faultproxy.Within(t, soon, "a call", func(ctx context.Context) {
			items, calls := b.bulk(ctx, numbered(20), func(_ context.Context, _ pgx.Tx, items []*idem.Item) error {
				if len(items) > 1 {
					proxy.Existing(faultproxy.Silent)
				}
				return nil
			})
			if len(calls) != 21 {
				t.Errorf("calls of %v items", calls)
			}
			b.wantOnce(items, nil)
		})
	})
}
