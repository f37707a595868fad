package idem_test

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// spyStore is a memory store that takes 5 ms a request, counts requests, and can be down.
type spyStore struct {
	*memstore.Store
	latency time.Duration

	mu       sync.Mutex
	down     error
	claims   []int // the sizes of the calls of Claim
	claiming int   // calls of Claim in progress
	releases int   // keys released with their attempt given back
	settles  int   // calls of Settle
}

// Claim implements store.Store.
func (s *spyStore) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	s.mu.Lock()
	s.claiming++
	s.mu.Unlock()
	pass(s.latency)
	s.mu.Lock()
	s.claiming--
	s.claims = append(s.claims, len(reqs))
	down := s.down
	s.mu.Unlock()
	if down == nil {
		return s.Store.Claim(ctx, reqs)
	}
	results := make([]store.ClaimResult, len(reqs))
	for i := range results {
		results[i].Err = down
	}
	return results
}

// Settle implements store.Store.
func (s *spyStore) Settle(ctx context.Context, ss []store.Settlement) []error {
	pass(s.latency)
	s.mu.Lock()
	s.settles++
	for i := range ss {
		if ss[i].Op == store.OpRelease && ss[i].Refund {
			s.releases++
		}
	}
	down := s.down
	s.mu.Unlock()
	if down == nil {
		return s.Store.Settle(ctx, ss)
	}
	return slices.Repeat([]error{down}, len(ss))
}

// calls returns the sizes of the calls of Claim.
func (s *spyStore) calls() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.claims)
}

func (s *spyStore) setDown(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

// streaming is a stream on a spyStore, with the records of what happened.
type streaming struct {
	testing.TB
	store  *spyStore
	engine *idem.Engine
	stream *idem.Stream

	mu      sync.Mutex
	calls   []string // the keys for which a handler was called, in order
	ended   []string // "<source> <kind>" of each item that is settled, in order
	retried []string // the same of each try that is not settled
}

func newStreaming(t testing.TB, cfg idem.Config, scheduling idem.SchedulerConfig) *streaming {
	s := &streaming{TB: t, store: &spyStore{Store: memstore.New(memstore.Config{BatchSize: 25}),
		latency: 5 * time.Millisecond}}
	s.start(t.Context(), cfg, scheduling)
	return s
}

// start starts a stream on the store.
func (s *streaming) start(ctx context.Context, cfg idem.Config, scheduling idem.SchedulerConfig) {
	s.Helper()
	cfg.RetryDelay = cmp.Or(cfg.RetryDelay, -1)
	var err error
	if s.engine, err = idem.New(s.store, cfg); err != nil {
		s.Fatal(err)
	}
	scheduler, err := idem.NewScheduler(s.engine, scheduling)
	if err != nil {
		s.Fatal(err)
	}
	s.stream = scheduler.Stream(ctx, s.note(&s.ended), s.note(&s.retried))
}

// note returns a function that adds an item with its outcome to a list.
func (s *streaming) note(to *[]string) func(*idem.Item) {
	return func(it *idem.Item) {
		s.mu.Lock()
		defer s.mu.Unlock()
		text := it.Task.Source + " " + it.Outcome.Kind.String()
		if it.Duplicate {
			text += " duplicate"
		}
		*to = append(*to, text)
	}
}

// item returns an item that makes the request of its key. Its handler takes 1 ms and then calls handle, if it
// is not nil.
func (s *streaming) item(source, key string, handle func(ctx context.Context) error) *idem.Item {
	return &idem.Item{Task: idem.Task{Key: key, Source: source, Fingerprint: store.FingerprintOf([]byte(key)),
		Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
			s.mu.Lock()
			s.calls = append(s.calls, key)
			s.mu.Unlock()
			pass(time.Millisecond)
			if handle == nil {
				return nil, nil
			}
			return nil, handle(ctx)
		})}}
}

// add adds items to a lane, each with its source as key.
func (s *streaming) add(lane string, sources ...string) {
	for _, source := range sources {
		s.stream.Add(in(lane, s.item(source, source, nil))...)
	}
}

func (s *streaming) close() {
	s.Helper()
	if running := s.stream.Close(context.Background()); len(running) > 0 {
		s.Errorf("%d items have not ended", len(running))
	}
}

func (s *streaming) want(what string, list *[]string, want ...string) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := *list; !slices.Equal(got, want) {
		s.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func executed(sources ...string) []string {
	all := make([]string, len(sources))
	for i, source := range sources {
		all[i] = source + " Executed"
	}
	return all
}

// Claims and completions are sent in full requests, whatever the lanes are.
func TestStreamSendsFullRequests(t *testing.T) {
	const total = 2000
	for _, lanes := range []int{1, 12, 1000, total} {
		t.Run(fmt.Sprint(lanes, " lanes"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStreaming(t, idem.Config{}, idem.SchedulerConfig{})
				for i := range total {
					s.add(fmt.Sprint("lane", i%lanes), fmt.Sprint("k", i))
				}
				pass(time.Minute)
				synctest.Wait()
				equal(t, "items settled", len(s.ended), total)
				claims := 0
				for _, n := range s.store.claims {
					claims += (n + 24) / 25
				}
				if limit := total/25 + 10; claims > limit {
					t.Errorf("%d requests of claims; want at most %d; calls of %v", claims, limit,
						s.store.claims)
				}
				limit := total/25 + 25 // the first ones are partial
				if lanes == 12 {       // their handlers return 12 at a time, which fill no request
					limit = total / 12
				}
				if lanes > 1 && s.store.settles > limit {
					// one lane completes as fast as its handlers return
					t.Errorf("%d requests of completions; want at most %d", s.store.settles, limit)
				}
				s.close()
			})
		})
	}
}

// Few items do not wait for the answers to the requests of those before them, neither before their handlers
// nor after.
func TestFewItemsOfAStreamWaitShortly(t *testing.T) {
	const items, every = 1000, 300 * time.Microsecond
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, idem.Config{}, idem.SchedulerConfig{})
		s.close()
		scheduler, err := idem.NewScheduler(s.engine, idem.SchedulerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		began, added, took, ended := time.Now(), time.Duration(0), time.Duration(0), 0
		s.stream = scheduler.Stream(t.Context(), func(*idem.Item) {
			s.mu.Lock()
			defer s.mu.Unlock()
			ended++
			took += time.Since(began)
		}, nil)
		for i := range items {
			added += time.Since(began)
			s.add(fmt.Sprint("lane", i), fmt.Sprint("k", i))
			pass(every)
		}
		pass(time.Second)
		s.close()
		s.mu.Lock()
		defer s.mu.Unlock()
		equal(t, "items settled", ended, items)
		if mean, limit := (took-added)/items, 2*s.store.latency+4*time.Millisecond; mean > limit {
			t.Errorf("an item took %v; want at most %v", mean, limit)
		}
	})
}

func TestStreamRetriesAnItemAndBlocksOnlyItsLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, idem.Config{}, idem.SchedulerConfig{Concurrency: 1, Backoff: time.Second})
		tries := 0
		s.stream.Add(in("a", s.item("a1", "a1", func(context.Context) error {
			if tries++; tries == 1 {
				return errBoom
			} else if tries == 2 {
				return idem.RetryAfter(errBoom, time.Hour)
			}
			return nil
		}))...)
		s.add("a", "a2", "a3")
		s.add("b", "b1", "b2")
		pass(500 * time.Millisecond)
		s.want("settled", &s.ended, executed("b1", "b2")...)
		s.want("retried", &s.retried, "a1 Retry")
		s.stream.EachRetrying(func(it *idem.Item) { equal(t, "item that waits", it.Task.Source, "a1") })
		pass(time.Second)
		s.want("retried", &s.retried, "a1 Retry", "a1 Retry")
		pass(59 * time.Minute)
		s.want("settled", &s.ended, executed("b1", "b2")...)
		pass(2 * time.Minute)
		s.want("settled", &s.ended, executed("b1", "b2", "a1", "a2", "a3")...)
		s.close()
	})
}

// An item is not tried again before retry has returned, so that retry can read its outcome.
func TestStreamReportsATryBeforeTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, idem.Config{}, idem.SchedulerConfig{})
		scheduler, err := idem.NewScheduler(s.engine, idem.SchedulerConfig{Backoff: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		reporting := false
		stream := scheduler.Stream(t.Context(), s.note(&s.ended), func(it *idem.Item) {
			reporting = true
			pass(time.Minute)
			reporting = false
			s.note(&s.retried)(it)
		})
		tries := 0
		stream.Add(in("a", s.item("a1", "a1", func(context.Context) error {
			if reporting {
				t.Error("tried again before the last try was reported")
			}
			if tries++; tries < 3 {
				return errBoom
			}
			return nil
		}), s.item("a2", "a2", nil))...)
		pass(time.Hour)
		s.want("retried", &s.retried, "a1 Retry", "a1 Retry")
		s.want("settled", &s.ended, executed("a1", "a2")...)
		stream.Close(context.Background())
		s.close()
	})
}

func TestStreamSurvivesAHandlerThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, idem.Config{Lease: 10 * time.Second}, idem.SchedulerConfig{Concurrency: 1})
		first := true
		s.stream.Add(in("a", s.item("a1", "a1", func(context.Context) error {
			if first {
				first = false
				runtime.Goexit()
			}
			return nil
		}))...)
		s.add("a", "a2")
		s.add("b", "b1", "b2")
		pass(5 * time.Second)
		s.want("settled", &s.ended, executed("b1", "b2")...)
		s.want("retried", &s.retried, "a1 Retry")
		pass(time.Minute) // the lease of a1 ends
		s.want("settled", &s.ended, executed("b1", "b2", "a1", "a2")...)
		s.close()
	})
}

// in puts items into a lane of a stream.
func in(lane string, items ...*idem.Item) []*idem.Item {
	for _, it := range items {
		it.Lane = lane
	}
	return items
}
