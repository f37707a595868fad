package idem_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// throwing is a bulk handler that fails as a whole if one of its items is bad.
type throwing struct {
	bad     map[string]bool
	calls   [][]string
	effects map[string]int // of good items; those before a bad one take place too
}

func (h *throwing) handle(_ context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
	var keys []string
	for _, it := range items {
		keys = append(keys, it.Task.Key)
	}
	h.calls = append(h.calls, keys)
	for _, key := range keys {
		if h.bad[key] {
			return nil, errBoom
		}
		h.effects[key]++
	}
	return make([]idem.BulkResult, len(items)), nil
}

// A rejected item takes no part in a call. So a call of one other item is evidence against that item if it
// fails, and is not repeated.
func TestRejectedItemsTakeNoPartInCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, idem.Config{OutageFailures: -1})
		items := f.items("a", "place of b")
		items[1].Task.Rejected = true
		items[1].Task.Handler = idem.HandlerFunc(
			func(context.Context) ([]byte, error) { return nil, idem.Permanent(errBoom) })
		items[1].Task.DeadLetters = idem.DeadLetterFunc(
			func(context.Context, idem.DeadLetter) error { return nil })
		h := &throwing{bad: map[string]bool{"a": true}}
		f.runBulk(t.Context(), items, h.handle)
		equal(t, "calls", fmt.Sprint(h.calls), "[[a]]")
		equal(t, "attempt", items[0].Outcome.Attempt, 1)
		equal(t, "kind", items[1].Outcome.Kind, idem.DeadLettered)
	})
}

// Bad items that make their calls fail cost themselves only: as many dead letters as bad items, and no other
// item runs more than twice.
func TestBadItemsOfCallsCostThemselvesOnly(t *testing.T) {
	for _, tc := range []struct{ items, bad int }{{974, 2}, {500, 47}, {1500, 3}, {300, 300}} {
		t.Run(fmt.Sprintf("%d of %d", tc.bad, tc.items), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, idem.Config{MaxAttempts: 5, OutageFailures: -1})
				keys := numbered(tc.items)
				h := &throwing{bad: map[string]bool{}, effects: map[string]int{}}
				for i := range tc.bad {
					h.bad[keys[i*tc.items/tc.bad+tc.items/tc.bad/2]] = true
				}
				dead := map[string]int{}
				for delivery := 1; len(keys) > 0; delivery++ {
					if delivery > 5 {
						t.Fatalf("%d items are left after 5 deliveries", len(keys))
					}
					items := f.items(keys...)
					for _, it := range items {
						it.Task.DeadLetters = idem.DeadLetterFunc(
							func(context.Context, idem.DeadLetter) error { dead[it.Task.Key]++; return nil })
					}
					f.runBulk(t.Context(), items, h.handle)
					keys = slices.DeleteFunc(keys, func(key string) bool {
						return items[slices.IndexFunc(items,
							func(it *idem.Item) bool { return it.Task.Key == key })].Settled()
					})
				}
				equal(t, "dead letters", len(dead), tc.bad)
				repeated := 0
				for _, key := range numbered(tc.items) {
					switch n := h.effects[key]; {
					case h.bad[key]:
						equal(t, "dead letters of "+key, dead[key], 1)
					case n < 1 || n > 2:
						t.Errorf("%s ran %d times", key, n)
					case n == 2:
						repeated++
					}
				}
				if window := f.engine.Config().CommitWindow; repeated > window+window/4 {
					t.Errorf("%d items ran twice; want those of one call of %d, and few more", repeated,
						window)
				}
				t.Logf("%d calls, %d items ran twice", len(h.calls), repeated)
			})
		})
	}
}

// Calls are small after a failed one, and grow with successes.
func TestCallsGrowAfterAFailedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, idem.Config{CommitWindow: 25})
		h := &throwing{bad: map[string]bool{"k3": true}, effects: map[string]int{}}
		f.runBulk(t.Context(), f.items(numbered(100)...), h.handle)
		var sizes []string
		for _, call := range h.calls {
			sizes = append(sizes, fmt.Sprint(len(call)))
		}
		equal(t, "sizes of the calls", strings.Join(sizes, " "),
			"25"+strings.Repeat(" 1", 25)+" 1 2 3 4 5 6 7 8 9 10 11 9")
	})
}

// A call that reaches its deadline counts no attempt, whether the handler returns errors or one error. Its
// items are alone in their next delivery.
func TestCallThatReachesItsDeadline(t *testing.T) {
	for name, slow := range map[string]idem.BulkHandler{
		"one error": func(ctx context.Context, _ []*idem.Item) ([]idem.BulkResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"an error of each": func(ctx context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
			<-ctx.Done()
			return slices.Repeat([]idem.BulkResult{{Err: fmt.Errorf("booking: %w", ctx.Err())}}, len(items)), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, idem.Config{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				items := f.items("a", "b")
				f.runBulk(ctx, items, slow)
				f.wantKinds(items, idem.Retry, idem.Retry)
				entry, err := f.store.Get(t.Context(), "a")
				if err != nil || entry.Attempts != 0 || entry.Failure == nil ||
					entry.Failure.Code != store.CodeCallFailed {
					t.Errorf("%+v, %v; want no attempt, and the code", entry, err)
				}
				again := f.items("a", "b", "c", "d")
				f.bulk(again, nil)
				f.wantCalls([]string{"a"}, []string{"b"}, []string{"c", "d"})
				equal(t, "attempt", again[0].Outcome.Attempt, 1)
			})
		})
	}
}

// An item that is called alone after a failed call, and is cancelled then, is alone in its next delivery.
func TestItemThatIsCancelledInItsOwnCallIsAloneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, idem.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		f.runBulk(ctx, f.items("a", "b"),
			func(ctx context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
				if len(items) > 1 {
					return nil, errors.New("fails as a whole")
				}
				cancel() // the process ends
				<-ctx.Done()
				return nil, ctx.Err()
			})
		entry, err := f.store.Get(t.Context(), "a")
		if err != nil || entry.Attempts != 0 || entry.Failure == nil ||
			entry.Failure.Code != store.CodeCallFailed {
			t.Errorf("%+v, %v; want no attempt, and the code", entry, err)
		}
		f.bulk(f.items("a", "b", "c"), nil)
		f.wantCalls([]string{"a"}, []string{"b"}, []string{"c"})
	})
}

// An item that ends the process in its own call makes no other run again: those before it are completed by
// then.
func TestItemsBeforeAnotherCallAreCompleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, idem.Config{})
		var before []store.Status
		f.runBulk(t.Context(), f.items("a", "b", "c"),
			func(_ context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
				if len(items) > 1 {
					panic("nil map")
				}
				if items[0].Task.Key == "c" {
					for _, key := range []string{"a", "b"} {
						entry, err := f.store.Get(t.Context(), key)
						if err != nil {
							t.Error(err)
						}
						before = append(before, entry.Status)
					}
				}
				return make([]idem.BulkResult, 1), nil
			})
		equal(t, "before the call of c", fmt.Sprint(before),
			fmt.Sprint([]store.Status{store.StatusCompleted, store.StatusCompleted}))
	})
}

// Completions that are in progress when the handlers' time ends are waited for: each item has an outcome.
func TestCompletionsAfterTheHandlersTimeAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := idem.New(&spyStore{Store: memstore.New(memstore.Config{BatchSize: 25}),
			latency: time.Second}, idem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		scheduler, err := idem.NewScheduler(engine, idem.SchedulerConfig{
			Bulk: func(_ context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
				cancel()
				return make([]idem.BulkResult, len(items)), nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		f := newFixture(t, idem.Config{})
		items := f.items("a", "b")
		overruns := scheduler.Run(ctx, unordered(items))
		equal(t, "overruns", len(overruns), 0)
		f.wantKinds(items, idem.Executed, idem.Executed)
	})
}

// A call whose dependency is down is not repeated for each of its items.
func TestUnavailableCallIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, idem.Config{})
		calls := 0
		items := f.items("a", "b")
		f.runBulk(t.Context(), items, func(context.Context, []*idem.Item) ([]idem.BulkResult, error) {
			calls++
			return nil, idem.Unavailable(errors.New("the database is down"))
		})
		equal(t, "calls", calls, 1)
		f.wantKinds(items, idem.DependencyDown, idem.DependencyDown)
	})
}

// What a failed call has enlisted is discarded before its items are handled alone: it does not commit with
// them.
func TestEffectsOfAFailedCallAreDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, idem.Config{})
		effects, calls := map[string]int{}, 0
		f.runBulk(t.Context(), f.items("a", "b", "c"),
			func(_ context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
				calls++
				for _, it := range items {
					tx, err := memstore.TxFrom(it.Context())
					if err != nil {
						return nil, err
					}
					tx.Do(func() { effects[it.Task.Key]++ })
					if it.Task.Key == "c" && calls == 1 {
						return nil, errBoom
					}
				}
				return make([]idem.BulkResult, len(items)), nil
			})
		equal(t, "calls", calls, 4)
		for _, key := range []string{"a", "b", "c"} {
			equal(t, "effects of "+key, effects[key], 1)
		}
	})
}

// The store can refuse what an item has enlisted. Those behind it in its lane wait for it.
func TestItemsBehindARefusedEffectWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, idem.Config{})
		var calls [][]string
		items := f.items("a", "b", "c")
		f.handle = func(_ context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
			var keys []string
			for _, it := range items {
				keys = append(keys, it.Task.Key)
				tx, err := memstore.TxFrom(it.Context())
				if err != nil {
					return nil, err
				}
				if it.Task.Key == "a" {
					tx.Check(func() error { return errBoom })
				}
			}
			if calls = append(calls, keys); len(items) > 1 {
				return nil, errBoom
			}
			return make([]idem.BulkResult, len(items)), nil
		}
		f.bulks.Run(t.Context(), [][]*idem.Item{items})
		if want := [][]string{{"a", "b", "c"}, {"a"}}; !reflect.DeepEqual(calls, want) {
			t.Errorf("calls %q; want %q", calls, want)
		}
		f.wantKinds(items, idem.Retry, idem.Behind, idem.Behind)
	})
}

// With AtMostOnce no item of a call that failed as a whole is handled again, also if the call had one item, unless its
// error says that there was no effect.
func TestItemsOfAFailedCallAreHandledAtMostOnce(t *testing.T) {
	type results = []idem.BulkResult
	returning := func(err error) func() (results, error) { return func() (results, error) { return nil, err } }
	for name, tc := range map[string]struct {
		keys   []string
		handle func() (results, error)
		want   idem.Kind
	}{
		"several items":              {[]string{"a", "b", "c"}, returning(errBoom), idem.DeadLettered},
		"a permanent error":          {[]string{"a", "b"}, returning(idem.Permanent(errBoom)), idem.DeadLettered},
		"one item":                   {[]string{"a"}, returning(errBoom), idem.Retry},
		"one item without an answer": {[]string{"a"}, returning(idem.OutcomeUnknown(errBoom)), idem.DeadLettered},
		"the call did not happen":    {[]string{"a", "b"}, returning(idem.Unavailable(errBoom)), idem.DependencyDown},
		"one of several parts":       {[]string{"a"}, returning(idem.CallFailed(errBoom)), idem.DeadLettered},
		"one item without a result":  {[]string{"a"}, returning(nil), idem.DeadLettered},
		"one item with two results":  {[]string{"a"}, func() (results, error) { return make(results, 2), nil }, idem.DeadLettered},
		"one item that panics":       {[]string{"a"}, func() (results, error) { panic("no") }, idem.DeadLettered},
		"one item whose goroutine ends": {[]string{"a"}, func() (results, error) { runtime.Goexit(); return nil, nil },
			idem.DeadLettered},
		"items without results":             {[]string{"a", "b"}, returning(nil), idem.DeadLettered},
		"items whose goroutine ends":        {[]string{"a", "b"}, func() (results, error) { runtime.Goexit(); return nil, nil }, idem.DeadLettered},
		"items of which the handler panics": {[]string{"a", "b"}, func() (results, error) { panic("no") }, idem.DeadLettered},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, idem.Config{AtMostOnce: true})
				items := f.items(tc.keys...)
				var unknown atomic.Int32
				for _, it := range items {
					it.Task.DeadLetters = idem.DeadLetterFunc(func(_ context.Context, letter idem.DeadLetter) error {
						if letter.Failure.Code == store.CodeOutcomeUnknown {
							unknown.Add(1)
						}
						return nil
					})
				}
				calls := 0
				f.runBulk(t.Context(), items, func(context.Context, []*idem.Item) ([]idem.BulkResult, error) {
					calls++
					return tc.handle()
				})
				f.wantKinds(items, slices.Repeat([]idem.Kind{tc.want}, len(items))...)
				equal(t, "calls", calls, 1)
				if tc.want == idem.DeadLettered {
					equal(t, "letters of an unknown outcome", int(unknown.Load()), len(items))
				}
			})
		})
	}
}

// With AtMostOnce a call has no transaction, because it would be made again after a rollback.
func TestCallHasNoTransactionAtMostOnce(t *testing.T) {
	f := newFixture(t, idem.Config{AtMostOnce: true})
	items := f.items("a")
	items[0].Task.DeadLetters = idem.DeadLetterFunc(func(context.Context, idem.DeadLetter) error { return nil })
	f.runBulk(t.Context(), items, func(ctx context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
		if effect, _ := store.EffectFrom(ctx); effect != nil {
			t.Error("the call has a transaction")
		}
		return make([]idem.BulkResult, len(items)), nil
	})
	f.wantKinds(items, idem.Executed)
}
