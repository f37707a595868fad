package idem_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

func TestBulkHandlerGetsOnlyItemsToExecute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, idem.Config{})
		first := f.items("a", "b", "a", "c")
		other := f.item("b")
		other.Task.Fingerprint = store.FingerprintOf([]byte("another request"))
		first = append(first, other)
		f.bulk(first, func(_ context.Context, it *idem.Item) error {
			if it.Task.Key == "c" {
				return errBoom
			}
			return nil
		})
		f.wantCalls([]string{"a", "b", "c"})
		f.wantKinds(first, idem.Executed, idem.Executed, idem.Executed, idem.Retry, idem.Mismatched)
		equal(t, "the second a is a duplicate", first[2].Duplicate, true)
		equal(t, "the first a is a duplicate", first[0].Duplicate, false)

		again := f.items("a", "b", "c", "d")
		f.bulk(again, nil)
		// a record that failed is alone in its next attempt
		f.wantCalls([]string{"a", "b", "c"}, []string{"c"}, []string{"d"})
		f.wantKinds(again, idem.Replayed, idem.Replayed, idem.Executed, idem.Executed)
		equal(t, "the stored result", string(again[0].Outcome.Result), "result of a")
		equal(t, "attempts of the one that failed", again[2].Outcome.Attempt, 2)
	})
}

// A key that is in flight elsewhere does not delay other items, and is passed to a later call.
func TestBulkHandlerGetsKeysInFlightInALaterCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, idem.Config{})
		held := f.hold("b", time.Hour)
		settled := f.hold("c", time.Hour)
		go func() {
			<-time.After(10 * time.Second)
			f.store.Settle(context.Background(), []store.Settlement{
				{Op: store.OpRelease, Key: "b", Token: held.Token, Owner: held.Owner, Retention: time.Hour},
				{Op: store.OpComplete, Key: "c", Token: settled.Token, Owner: settled.Owner,
					Retention: time.Hour, Result: []byte("another's")},
			})
		}()
		items := f.items("a", "b", "c")
		f.bulk(items, nil)
		f.wantCalls([]string{"a"}, []string{"b"})
		f.wantKinds(items, idem.Executed, idem.Executed, idem.Replayed)
		equal(t, "the result that counts", string(items[2].Outcome.Result), "another's")
	})
}

// When the handlers' time has ended, nothing is claimed any more: a claim that can't be released in time
// would cost its message an attempt.
func TestBulkClaimsNothingAfterTheHandlersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, idem.Config{CommitWindow: 2})
		f.die("dead", 2)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		items := f.items("dead", "a", "b")
		f.runBulk(ctx, items, func(ctx context.Context, items []*idem.Item) ([]idem.BulkResult,
			error) {
			<-ctx.Done()
			return make([]idem.BulkResult, len(items)), nil
		})
		f.wantKinds(items, idem.Executed, idem.NotStarted, idem.NotStarted)
		for _, key := range []string{"a", "b"} {
			entry, err := f.store.Get(t.Context(), key)
			equal(t, "the key of "+key+" is free", errors.Is(err, store.ErrNotFound) || entry.Released(), true)
		}
	})
}

// A message that may have killed two processes is handled alone, with nothing else claimed, so that only it is charged
// if the process dies again. One whose first attempt did not end is handled beside others once more, if two attempts
// are left.
func TestItemsOfDeadOwners(t *testing.T) {
	for _, tc := range []struct {
		name  string
		cfg   idem.Config
		died  map[string]int // attempts that did not end, by key
		calls [][]string
	}{
		{"after one attempt", idem.Config{}, map[string]int{"b": 1, "d": 1}, [][]string{{"a", "b", "c", "d"}}},
		{"after two attempts", idem.Config{}, map[string]int{"b": 2, "d": 2}, [][]string{{"b"}, {"d"}, {"a", "c"}}},
		{"after one and two", idem.Config{}, map[string]int{"b": 1, "d": 2}, [][]string{{"d"}, {"a", "b", "c"}}},
		{"without two attempts left", idem.Config{MaxAttempts: 2}, map[string]int{"b": 1}, [][]string{{"b"}, {"a", "c", "d"}}},
		{"with two attempts left", idem.Config{MaxAttempts: 3}, map[string]int{"b": 1}, [][]string{{"a", "b", "c", "d"}}},
		{"without a limit of attempts", idem.Config{MaxAttempts: -1}, map[string]int{"b": 1, "d": 3},
			[][]string{{"d"}, {"a", "b", "c"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, tc.cfg)
				for key, n := range tc.died {
					f.die(key, n)
				}
				items := f.items("a", "b", "c", "d")
				for _, it := range items {
					it.Task.DeadLetters = idem.DeadLetterFunc(func(context.Context, idem.DeadLetter) error { return nil })
				}
				f.bulk(items, func(ctx context.Context, it *idem.Item) error {
					if tc.died[it.Task.Key] > 1 {
						f.wantNothingClaimedBeside(ctx, it.Task.Key)
					}
					equal(t, "attempt at "+it.Task.Key, attemptOf(it), tc.died[it.Task.Key]+1)
					return nil
				})
				f.wantCalls(tc.calls...)
				f.wantKinds(items, idem.Executed, idem.Executed, idem.Executed, idem.Executed)
				equal(t, "stolen", items[1].Outcome.Stolen, true)
			})
		})
	}
}

func attemptOf(it *idem.Item) int {
	a, _ := idem.AttemptFrom(it.Context())
	return a.Number
}

// wantNothingClaimedBeside checks that this process has claimed no other key.
func (f *fixture) wantNothingClaimedBeside(ctx context.Context, key string) {
	f.Helper()
	for entry, err := range f.store.List(ctx, store.ListQuery{Status: store.StatusStarted}) {
		if err != nil {
			f.Fatal(err)
		}
		if entry.Key != key && !entry.Released() && !strings.HasPrefix(entry.Owner, "dead ") {
			f.Errorf("%s is claimed beside %s", entry.Key, key)
		}
	}
}

// The context of an item has its attempt, and ends when its claim is lost. The call continues for the other
// items.
func TestBulkItemsHaveTheirOwnContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, idem.Config{})
		items := f.items("a", "b")
		f.bulk(items, func(ctx context.Context, it *idem.Item) error {
			a, ok := idem.AttemptFrom(it.Context())
			equal(t, "there is an attempt", ok, true)
			equal(t, "its key", a.Key, it.Task.Key)
			if it.Task.Key == "b" {
				return nil
			}
			entry, err := f.store.Get(ctx, "b")
			if err == nil {
				err = f.store.Delete(ctx, "b", entry.Token)
			}
			<-items[1].Context().Done()
			equal(t, "the call's context has ended", ctx.Err(), nil)
			if cause := context.Cause(items[1].Context()); !errors.Is(cause, idem.ErrLeaseLost) {
				t.Errorf("cause %v; want ErrLeaseLost", cause)
			}
			return err
		})
		f.wantKinds(items, idem.Executed, idem.Fenced)
	})
}

// A call has at most CommitWindow items. If it ends the process, the items of earlier calls are completed,
// and at most one more window is claimed.
func TestBulkCallsAreBoundedByTheCommitWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, idem.Config{CommitWindow: 4})
		keys := numbered(14)
		items := f.items(keys...)
		f.hold(keys[1], time.Hour)
		f.bulk(items, func(ctx context.Context, it *idem.Item) error {
			if it.Task.Key != keys[5] { // in the second call
				return nil
			}
			for i, key := range keys {
				entry, err := f.store.Get(ctx, key)
				switch {
				case i == 1: // held by another owner
				case i < 5:
					equal(t, "status of "+key, entry.Status, store.StatusCompleted)
				case i < 9:
					equal(t, "status of "+key, entry.Status, store.StatusStarted)
				case !errors.Is(err, store.ErrNotFound):
					t.Errorf("%s is claimed already: %v", key, err)
				}
			}
			return nil
		})
		f.wantCalls(append([]string{keys[0]}, keys[2:5]...), keys[5:9], keys[9:13], keys[13:])
		for i, it := range items {
			if i != 1 {
				equal(t, it.Task.Key, it.Outcome.Kind, idem.Executed)
			}
		}
	})
}

// The window is rounded down to whole requests of the store, which take 25 elements.
func TestBulkCallsFillTheRequestsOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, idem.Config{CommitWindow: 60})
		keys := numbered(120)
		f.bulk(f.items(keys...), nil)
		f.wantCalls(keys[:50], keys[50:100], keys[100:])
	})
}

func TestBulkHandlerFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		handle idem.BulkHandler
		want   string
	}{
		"panic": {func(context.Context, []*idem.Item) ([]idem.BulkResult, error) { panic("nil map") },
			"panicked: nil map"},
		"exit": {func(context.Context, []*idem.Item) ([]idem.BulkResult,
			error) {
			runtime.Goexit()
			return nil, nil
		}, "runtime.Goexit"},
		"no results": {func(context.Context, []*idem.Item) ([]idem.BulkResult, error) { return nil, nil },
			"0 results for 1 items"},
		"one too many": {func(context.Context, []*idem.Item) ([]idem.BulkResult,
			error) {
			return make([]idem.BulkResult, 3), nil
		}, "3 results for 1 items"},
		"an error": {func(context.Context, []*idem.Item) ([]idem.BulkResult, error) { return nil, errBoom },
			"boom"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, idem.Config{})
				items := f.items("a", "b")
				f.runBulk(t.Context(), items, tc.handle)
				f.wantKinds(items, idem.Retry, idem.Retry)
				for _, it := range items {
					if !strings.Contains(it.Err().Error(), tc.want) {
						t.Errorf("%v does not contain %q", it.Err(), tc.want)
					}
				}
			})
		})
	}
}

// The caller can answer in time even if the handler does not return.
func TestBulkHandlerThatDoesNotReturnIsAnOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, idem.Config{})
		unblock := make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		items := f.items("a", "b")
		done := f.item("done")
		f.bulk([]*idem.Item{done}, nil)
		again := f.item("done")
		begun := time.Now()
		overruns := f.runBulk(ctx, append(items, again),
			func(_ context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
				<-unblock
				return make([]idem.BulkResult, len(items)), nil
			})
		if took := time.Since(begun); took >= time.Minute {
			t.Errorf("it took %v", took)
		}
		equal(t, "overruns", len(overruns), 2)
		equal(t, "state", items[0].State, idem.ItemOverrun)
		equal(t, "settled", items[0].Settled(), false)
		if !errors.Is(items[1].Err(), idem.ErrOverrun) {
			t.Errorf("error %v; want ErrOverrun", items[1].Err())
		}
		f.wantKinds([]*idem.Item{again}, idem.Replayed)
		close(unblock)
	})
}

// The key of a substitute task may have a dead owner, or be in flight elsewhere, as any other key: it is
// taken over alone, or waited for.
func TestBulkTakesTheKeyOfASubstituteOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, idem.Config{})
		f.bulk(f.items("a"), nil)
		f.hold("place of dead", time.Second)
		<-time.After(2 * time.Second)
		f.hold("place of held", 5*time.Second)
		var items []*idem.Item
		for _, place := range []string{"place of dead", "place of held"} {
			other := f.item("a")
			other.Task.Fingerprint = store.FingerprintOf([]byte("another request " + place))
			other.Substitute = substitute{f.item(place).Task}
			items = append(items, other)
		}
		items = append(items, f.item("b"))
		f.bulk(items, nil)
		f.wantCalls([]string{"a"}, []string{"b"})
		f.wantKinds(items, idem.Executed, idem.Executed, idem.Executed)
		equal(t, "handlers of substitutes", strings.Join(f.order, ", "), "place of dead, place of held")
		equal(t, "stolen", items[0].Outcome.Stolen, true)
	})
}

// An engine that fails open passes the items to the handler, without protection.
func TestBulkFailsOpen(t *testing.T) {
	for open, kind := range map[bool]idem.Kind{true: idem.FailedOpen, false: idem.StoreDown} {
		f := newFixture(t, idem.Config{})
		engine, err := idem.New(unanswered{f.store}, idem.Config{FailOpen: open})
		if err == nil {
			f.bulks, err = idem.NewScheduler(engine, idem.SchedulerConfig{Bulk: f.handleBulk})
		}
		if err != nil {
			t.Fatal(err)
		}
		items := f.items("a", "b")
		f.bulk(items, func(_ context.Context, it *idem.Item) error {
			if _, protected := idem.AttemptFrom(it.Context()); protected {
				t.Error("an item has an attempt")
			}
			return nil
		})
		if open {
			f.wantCalls([]string{"a", "b"})
		} else {
			f.wantCalls()
		}
		f.wantKinds(items, kind, kind)
	}
}

// unanswered is a store whose claims have no answer.
type unanswered struct{ store.Store }

// Claim implements store.Store.
func (unanswered) Claim(_ context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	return slices.Repeat([]store.ClaimResult{{Err: errors.New("no answer")}}, len(reqs))
}

type substitute struct{ task idem.Task }

// SubstituteFor implements idem.Substitute.
func (s substitute) SubstituteFor(*idem.Outcome) (idem.Task, bool) { return s.task, true }

func TestNewRefusesInvalidConfigurations(t *testing.T) {
	if _, err := idem.NewScheduler(nil, idem.SchedulerConfig{}); !errors.Is(err, idem.ErrInvalidConfig) {
		t.Errorf("without an engine: %v", err)
	}
	if _, err := idem.NewScheduler(newFixture(t, idem.Config{}).engine,
		idem.SchedulerConfig{Concurrency: -1}); !errors.Is(err, idem.ErrInvalidConfig) {
		t.Errorf("concurrency: %v", err)
	}
}

// The claims for the next call are sent while a call is in progress: whole requests, if the calls before were
// short, so that the claims do not wait for long.
func TestClaimsForTheNextCallAreSentDuringACall(t *testing.T) {
	for _, tc := range []struct {
		name    string
		cfg     idem.Config
		took    time.Duration
		claimed int // during the second call, besides its own
	}{
		{"short calls", idem.Config{CommitWindow: 60}, time.Second, 50},
		{"long calls", idem.Config{CommitWindow: 60}, 5 * time.Second, 0},
		{"one attempt", idem.Config{CommitWindow: 60, MaxAttempts: 1}, time.Second, 0},
		{"a window below a request", idem.Config{CommitWindow: 20}, time.Second, 50},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, tc.cfg)
				calls, claimed := 0, 0
				type results = []idem.BulkResult
				items := f.items(numbered(200)...)
				f.runBulk(t.Context(), items, func(ctx context.Context, items []*idem.Item) (results, error) {
					<-time.After(tc.took)
					synctest.Wait()
					if calls++; calls == 2 {
						started := store.ListQuery{Status: store.StatusStarted}
						for entry, err := range f.store.List(ctx, started) {
							if err == nil && !entry.Released() {
								claimed++
							}
						}
						claimed -= len(items)
					}
					return make([]idem.BulkResult, len(items)), nil
				})
				equal(t, "claims for the next call", claimed, tc.claimed)
			})
		})
	}
}
