package idem_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// ledger is a bulk handler whose effects are in the transaction of the call.
type ledger struct {
	f       *fixture
	calls   []string
	effects map[string]int
	// the error of an item in the nth call, of the whole call, and of its commit
	item         func(n int, key string) error
	call, commit func(n int, keys []string) error
}

func newLedger(f *fixture) *ledger {
	return &ledger{f: f, effects: map[string]int{},
		item:   func(int, string) error { return nil },
		call:   func(int, []string) error { return nil },
		commit: func(int, []string) error { return nil }}
}

func (l *ledger) handle(ctx context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
	tx, err := memstore.TxFrom(ctx)
	if err != nil {
		return nil, err
	}
	n, results := len(l.calls), make([]idem.BulkResult, len(items))
	var keys []string
	for i, it := range items {
		keys = append(keys, it.Task.Key)
		results[i] = idem.BulkResult{Value: []byte("result of " + it.Task.Key), Err: l.item(n, it.Task.Key)}
	}
	l.calls = append(l.calls, strings.Join(keys, " "))
	tx.Check(func() error { return l.commit(n, keys) })
	tx.Do(func() {
		for _, key := range keys {
			l.effects[key]++
		}
	})
	return results, l.call(n, keys)
}

func (l *ledger) run(keys ...string) []*idem.Item {
	l.f.Helper()
	items := l.f.items(keys...)
	l.f.runBulk(l.f.Context(), items, l.handle)
	return items
}

// want checks the calls, and that an item has its effect once if and only if it was executed.
func (l *ledger) want(items []*idem.Item, calls ...string) {
	l.f.Helper()
	if !slices.Equal(l.calls, calls) {
		l.f.Errorf("calls %q; want %q", l.calls, calls)
	}
	for _, it := range items {
		want := 0
		if it.Outcome.Kind == idem.Executed {
			want = 1
		}
		equal(l.f, "effects of "+it.Task.Key, l.effects[it.Task.Key], want)
	}
}

func TestCallWithATransaction(t *testing.T) {
	in := slices.Contains[[]string]
	for _, tc := range []struct {
		name  string
		setup func(l *ledger)
		calls []string
		kinds []idem.Kind
	}{
		{"commits with all completions", func(*ledger) {}, []string{"a b c"},
			[]idem.Kind{idem.Executed, idem.Executed, idem.Executed}},
		{"is repeated without an item that failed", func(l *ledger) {
			l.item = func(_ int, key string) error {
				if key == "b" {
					return errBoom
				}
				return nil
			}
		}, []string{"a b c", "a c"}, []idem.Kind{idem.Executed, idem.Retry, idem.Executed}},
		{"is repeated once", func(l *ledger) {
			l.item = func(n int, key string) error {
				if n == 0 && key == "b" || n == 1 && key == "a" {
					return errBoom
				}
				return nil
			}
		}, []string{"a b c", "a c", "c"}, []idem.Kind{idem.Retry, idem.Retry, idem.Executed}},
		{"is not repeated if all items failed", func(l *ledger) {
			l.item = func(int, string) error { return errBoom }
		}, []string{"a b c"}, []idem.Kind{idem.Retry, idem.Retry, idem.Retry}},
		{"completes items whose results can't be stored", func(l *ledger) {
			l.item = func(int, string) error { return idem.ResultUnavailable(errBoom) }
		}, []string{"a b c"}, []idem.Kind{idem.Executed, idem.Executed, idem.Executed}},
		{"is followed by calls for each item if it failed", func(l *ledger) {
			l.call = func(_ int, keys []string) error {
				if in(keys, "b") {
					return errBoom
				}
				return nil
			}
		}, []string{"a b c", "a", "b", "c"}, []idem.Kind{idem.Executed, idem.Retry, idem.Executed}},
		{"is followed by calls for each item if its commit was refused", func(l *ledger) {
			l.commit = func(_ int, keys []string) error {
				if in(keys, "b") {
					return errBoom
				}
				return nil
			}
		}, []string{"a b c", "a", "b", "c"}, []idem.Kind{idem.Executed, idem.Retry, idem.Executed}},
		{"releases all items if its commit was unavailable", func(l *ledger) {
			l.commit = func(int, []string) error { return idem.Unavailable(errBoom) }
		}, []string{"a b c"}, []idem.Kind{idem.DependencyDown, idem.DependencyDown, idem.DependencyDown}},
		{"is repeated without an item whose key was taken", func(l *ledger) {
			l.call = func(n int, _ []string) error {
				if n > 0 {
					return nil
				}
				entry, err := l.f.store.Get(context.Background(), "b")
				return errors.Join(err, l.f.store.Delete(context.Background(), "b", entry.Token))
			}
		}, []string{"a b c", "a c"}, []idem.Kind{idem.Executed, idem.Fenced, idem.Executed}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, attempts := range []int{0, 1} { // with one attempt, completions are not gathered
				synctest.Test(t, func(t *testing.T) {
					l := newLedger(newFixture(t, idem.Config{MaxAttempts: attempts, OutageFailures: -1}))
					tc.setup(l)
					items := l.run("a", "b", "c")
					l.want(items, tc.calls...)
					l.f.wantKinds(items, tc.kinds...)
					for _, it := range items {
						entry, _ := l.f.store.Get(t.Context(), it.Task.Key)
						if it.Outcome.Kind == idem.Executed {
							equal(t, "status of "+it.Task.Key, entry.Status, store.StatusCompleted)
						} else if it.Outcome.Kind != idem.Fenced {
							equal(t, it.Task.Key+" is released", entry.Released(), true)
						}
					}
				})
			}
		})
	}
}

// The contexts of the items have the transaction of the call, unless they had their own before.
func TestItemsOfACallHaveItsTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, idem.Config{})
		var call, own *memstore.Tx
		var mixed error
		var kept context.Context
		type results = []idem.BulkResult
		f.runBulk(t.Context(), f.items("a", "b"), func(ctx context.Context, items []*idem.Item) (results, error) {
			var err, wrong error
			kept = ctx //nolint:fatcontext // that is the point
			call, err = memstore.TxFrom(ctx)
			own, wrong = memstore.TxFrom(items[1].Context())
			return make([]idem.BulkResult, 2), errors.Join(err, wrong)
		})
		equal(t, "the item's transaction is that of the call", own == call && call != nil, true)
		_, late := memstore.TxFrom(kept)
		equal(t, "there is none after an empty call", idem.IsUnavailable(late), true)
		f.runBulk(t.Context(), f.items("c", "d"), func(ctx context.Context, items []*idem.Item) (results, error) {
			_, err := memstore.TxFrom(items[0].Context())
			_, mixed = memstore.TxFrom(ctx)
			return make([]idem.BulkResult, 2), err
		})
		equal(t, "there is none beside that of an item", idem.IsUnavailable(mixed), true)
	})
}

// deaf is a store whose completions get no answers.
type deaf struct {
	*memstore.Store
	lost    int // requests that are applied, but not answered
	applies bool
	asked   int
}

func (d *deaf) Settle(ctx context.Context, ss []store.Settlement) []error {
	if ss[0].Op != store.OpComplete || d.asked >= d.lost {
		return d.Store.Settle(ctx, ss)
	}
	if d.asked++; d.applies {
		d.Store.Settle(ctx, ss)
	}
	return slices.Repeat([]error{errNetwork}, len(ss))
}

// The completions of a call are sent until they are answered or the time has ended.
func TestUnansweredCommitOfACall(t *testing.T) {
	for _, tc := range []struct {
		lost    int
		applies bool
		kind    idem.Kind
		effects int
	}{{1, true, idem.Executed, 1}, {3, false, idem.Executed, 1}, {1 << 20, false, idem.CompletionFailed, 0}} {
		t.Run(fmt.Sprint(tc), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, idem.Config{})
				under := &deaf{Store: f.store, lost: tc.lost, applies: tc.applies}
				engine, err := idem.New(under, idem.Config{})
				if err != nil {
					t.Fatal(err)
				}
				l := newLedger(f)
				scheduler, err := idem.NewScheduler(engine, idem.SchedulerConfig{Bulk: l.handle})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				items := f.items("a", "b")
				scheduler.Run(ctx, unordered(items))
				f.wantKinds(items, tc.kind, tc.kind)
				equal(t, "effects", l.effects["a"], tc.effects)
				equal(t, "calls", len(l.calls), 1)
			})
		})
	}
}
