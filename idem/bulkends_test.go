package idem_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// mute is a store that does not answer the settlements of a key before a time.
type mute struct {
	*memstore.Store
	key   string
	until time.Time
	holds bool // the request, until its context ends
}

func (s *mute) Settle(ctx context.Context, ss []store.Settlement) []error {
	errs := make([]error, len(ss))
	for i := range ss {
		if ss[i].Key == s.key && time.Now().Before(s.until) {
			if s.holds {
				<-ctx.Done()
			}
			errs[i] = errNetwork
		} else if err := s.Store.Settle(ctx, ss[i:i+1]); err != nil {
			errs[i] = err[0]
		}
	}
	return errs
}

// bulksOn returns a scheduler with a bulk handler, whose results have the errors that fail returns.
func bulksOn(t *testing.T, s store.Store, fail func(*idem.Item) error) *idem.Scheduler {
	t.Helper()
	engine, err := idem.New(s, idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := idem.NewScheduler(engine, idem.SchedulerConfig{
		Bulk: func(_ context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
			results := make([]idem.BulkResult, len(items))
			for i, it := range items {
				results[i].Err = fail(it)
			}
			return results, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return scheduler
}

func never(*idem.Item) error { return nil }

// An item of a call whose completion is answered is told, although that of another item is not.
func TestEndsOfACallDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &mute{memstore.New(memstore.Config{BatchSize: 25}), "a", began.Add(10 * time.Second), false}
		var mu sync.Mutex
		told := 0
		stream := bulksOn(t, s, never).Stream(t.Context(), func(it *idem.Item) {
			mu.Lock()
			defer mu.Unlock()
			if told++; it.Task.Key != "a" && time.Since(began) > time.Second {
				t.Errorf("%s is told after %v", it.Task.Key, time.Since(began))
			}
		}, nil)
		for _, it := range newFixture(t, idem.Config{}).items("a", "b", "c") {
			it.Lane = it.Task.Key
			stream.Add(it)
		}
		pass(time.Minute)
		stream.Close(t.Context())
		equal(t, "told", told, 3)
	})
}

// The completions of a call are sent together, in as few requests as they need, and no request waits for another.
func TestCompletionsOfACallAreSentTogether(t *testing.T) {
	for _, n := range []int{1, 2, 10, 25, 30, 60} {
		synctest.Test(t, func(t *testing.T) {
			s := &spyStore{Store: memstore.New(memstore.Config{BatchSize: 25}), latency: 5 * time.Millisecond}
			items := newFixture(t, idem.Config{}).items(numbered(n)...)
			began := time.Now()
			bulksOn(t, s, never).Run(t.Context(), unordered(items))
			if took := time.Since(began); took != 2*s.latency {
				t.Errorf("%d items of a batch took %v; want %v", n, took, 2*s.latency)
			}

			requests := s.settles
			var mu sync.Mutex
			var told []time.Duration
			stream := bulksOn(t, s, never).Stream(t.Context(), func(*idem.Item) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, time.Since(began))
			}, nil)
			for i, it := range newFixture(t, idem.Config{}).items(numbered(n)...) {
				items[i] = it
				it.Lane, it.Task.Key = it.Task.Key, it.Task.Key+" of the stream"
			}
			began = time.Now()
			stream.Add(items...)
			pass(time.Second)
			stream.Close(t.Context())
			for _, took := range told {
				if took != 2*s.latency {
					t.Errorf("%d items of a stream took %v; want %v", n, took, 2*s.latency)
				}
			}
			equal(t, "told", len(told), n)
			equal(t, "requests of completions", s.settles-requests, (n+24)/25)
		})
	}
}

// The next call begins when the handler has returned, before the completions are answered, if both calls fit in the
// commit window. A call of which an item failed is settled first.
func TestNextCallDoesNotWaitForCompletions(t *testing.T) {
	const handler, request = time.Millisecond, 5 * time.Millisecond
	for _, tc := range []struct {
		name   string
		window int
		fails  bool
		want   time.Duration // between the last two calls
	}{
		{"window of two calls", 200, false, handler},
		{"window of one call", 199, false, handler + request},
		{"an item failed", 200, true, handler + request},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &spyStore{Store: memstore.New(memstore.Config{BatchSize: 25}), latency: request}
				engine, err := idem.New(s, idem.Config{CommitWindow: tc.window})
				if err != nil {
					t.Fatal(err)
				}
				var began []time.Time
				scheduler, err := idem.NewScheduler(engine, idem.SchedulerConfig{CallItems: 100,
					Bulk: func(_ context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
						began = append(began, time.Now())
						<-time.After(handler)
						results := make([]idem.BulkResult, len(items))
						if tc.fails && len(began) == 2 {
							results[0].Err = errNetwork
						}
						return results, nil
					}})
				if err != nil {
					t.Fatal(err)
				}
				scheduler.Run(t.Context(), unordered(newFixture(t, idem.Config{}).items(numbered(300)...)))
				equal(t, "calls", len(began), 3)
				equal(t, "the last call began after", began[2].Sub(began[1]), tc.want)
			})
		})
	}
}

// An item whose release is not answered does not delay the completions of its call.
func TestReleaseDoesNotDelayTheOtherItemsOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &mute{memstore.New(memstore.Config{BatchSize: 25}), "a", time.Now().Add(time.Hour), true}
		afterItsLease := func(it *idem.Item) error {
			if it.Task.Key != "a" {
				return nil
			}
			<-it.Context().Done()
			return idem.ResultUnavailable(context.Cause(it.Context()))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		items := newFixture(t, idem.Config{}).items("a", "b", "c")
		bulksOn(t, s, afterItsLease).Run(ctx, unordered(items))
		for i, want := range []idem.Kind{idem.Retry, idem.Executed, idem.Executed} {
			equal(t, items[i].Task.Key, items[i].Outcome.Kind, want)
		}
	})
}
