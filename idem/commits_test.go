package idem_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// slowStore is a memory store that is a Batcher and takes a second for each call of Settle.
type slowStore struct {
	*memstore.Store
	on func(call int, ss []store.Settlement) []error // instead of settling, if it returns an error

	mu    sync.Mutex
	calls [][]store.Settlement
	begun []time.Time
}

const batchSize = 4

func newSlowStore() *slowStore {
	return &slowStore{Store: memstore.New(memstore.Config{BatchSize: batchSize})}
}

// Settle implements store.Store.
func (s *slowStore) Settle(ctx context.Context, ss []store.Settlement) []error {
	s.mu.Lock()
	s.calls = append(s.calls, slices.Clone(ss))
	s.begun = append(s.begun, time.Now())
	call := len(s.calls)
	s.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return slices.Repeat([]error{ctx.Err()}, len(ss))
	}
	if s.on != nil {
		if errs := s.on(call, ss); errs != nil {
			return errs
		}
	}
	return s.Store.Settle(ctx, ss)
}

// sizes returns the sizes of the calls so far, sorted, because the order of concurrent calls varies.
func (s *slowStore) sizes() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sizes []int
	for _, ss := range s.calls {
		sizes = append(sizes, len(ss))
	}
	slices.Sort(sizes)
	return fmt.Sprint(sizes)
}

// async runs claims of different keys one after another, and returns their outcomes when all are known.
type async struct {
	*idem.Session
	claims []*idem.Claim

	mu       sync.Mutex
	outcomes []idem.Outcome
	calls    []int // how often done was called
	all      sync.WaitGroup
}

func newAsync(s *idem.Session, n int, h idem.Handler) *async {
	a := &async{Session: s, outcomes: make([]idem.Outcome, n), calls: make([]int, n)}
	for i := range n {
		task := taskOf(h)
		task.Key = fmt.Sprint("payments#", i)
		a.claims = append(a.claims, &idem.Claim{Task: task})
	}
	s.Claim(a.claims)
	return a
}

func (a *async) start(i int) {
	a.all.Add(1)
	a.RunAsync(a.claims[i], func(out idem.Outcome, _ bool) {
		a.mu.Lock()
		a.outcomes[i] = out
		a.calls[i]++
		a.mu.Unlock()
		a.all.Done()
	})
}

func (a *async) runAll() []idem.Outcome {
	for i := range a.claims {
		a.start(i)
	}
	a.all.Wait()
	return a.outcomes
}

func (a *async) wantAll(t *testing.T, want idem.Kind) {
	t.Helper()
	for i, out := range a.outcomes {
		if out.Kind != want {
			t.Errorf("task %d: %v, %v; want %v", i, out.Kind, out.Err, want)
		}
		equal(t, fmt.Sprint("calls of done for task ", i), a.calls[i], 1)
	}
}

// The first completion is sent at once, and a full request when it is full. Fewer completions are sent in a
// session with a deadline, or to a store with large requests, when no request is in progress, and otherwise
// when they are so many eighths of a full request as are in progress.
func TestCompletionsAreGrouped(t *testing.T) {
	for name, test := range map[string]struct {
		deadline bool
		request  int // of the store
		tasks    int
		sizes    string
		took     time.Duration
	}{
		"with a deadline":     {true, batchSize, 11, "[1 2 4 4]", 2 * time.Second},
		"with large requests": {false, 33, 35, "[1 1 33]", 2 * time.Second},
		"without a deadline":  {false, batchSize, 13, "[1 1 1 2 2 3 3]", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, ctx := newSlowStore(), t.Context()
				if test.deadline {
					ctx = until(t, time.Hour)
				}
				st.Store = memstore.New(memstore.Config{BatchSize: test.request})
				a := newAsync(session(t, newEngine(t, st, idem.Config{}), ctx), test.tasks, returning("receipt", nil))
				begun := time.Now()
				a.runAll()
				a.wantAll(t, idem.Executed)
				equal(t, "requests", st.sizes(), test.sizes)
				equal(t, "time", time.Since(begun), test.took)
				for i, at := range st.begun {
					want := time.Duration(0)
					if test.took > time.Second && i == len(st.begun)-1 { // the rest
						want = time.Second
					}
					equal(t, fmt.Sprint("begin of request ", i), at.Sub(begun), want)
				}
				for i := range a.claims {
					equal(t, "status", get(t, st, fmt.Sprint("payments#", i)).Status, store.StatusCompleted)
				}
			})
		})
	}
}

// The number of handlers that have returned without a confirmed completion is at most the window.
func TestCommitWindowBoundsUnconfirmedCompletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSlowStore()
		ran, ahead, most := 0, 0, 0
		h := idem.HandlerFunc(func(context.Context) ([]byte, error) {
			ran++
			st.mu.Lock()
			defer st.mu.Unlock()
			landed := 0
			for i := range st.calls {
				if time.Since(st.begun[i]) >= time.Second {
					landed += len(st.calls[i])
				}
			}
			ahead = ran - landed
			most = max(most, ahead)
			return nil, nil
		})
		a := newAsync(session(t, newEngine(t, st, idem.Config{CommitWindow: 3}), t.Context()), 12, h)
		a.runAll()
		a.wantAll(t, idem.Executed)
		equal(t, "most handlers ahead of their completions", most, 3)
	})
}

// A completion that must be retried is sent separately, and delays no other completion.
func TestFailedCompletionIsRetriedSeparately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSlowStore()
		st.on = func(call int, ss []store.Settlement) []error {
			if call > 2 {
				return nil
			}
			// the first of each of the first two requests is lost; the rest succeeds
			errs := make([]error, len(ss))
			errs[0] = errNetwork
			for i, err := range st.Store.Settle(context.Background(), ss[1:]) {
				errs[i+1] = err
			}
			return errs
		}
		a := newAsync(session(t, newEngine(t, st, idem.Config{}), until(t, time.Hour)), 7, returning("receipt", nil))
		begun := time.Now()
		a.runAll()
		a.wantAll(t, idem.Executed)
		sizes := st.sizes()
		equal(t, "requests", sizes, "[1 1 1 2 4]")
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A request that gets no answer, as on a lost connection, delays only its own completions.
func TestCompletionsDoNotWaitForAnUnansweredRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		hangs := true
		st.onSettle = func(ctx context.Context, set store.Settlement, land func() error) error {
			if set.Op == store.OpComplete && hangs {
				hangs = false
				<-ctx.Done()
				return ctx.Err()
			}
			return land()
		}
		const batchSize, tasks = 100, 6
		e := newEngine(t, batcherOf{st, batchSize}, idem.Config{Lease: lease})
		a := newAsync(session(t, e, until(t, 10*lease)), tasks, returning("receipt", nil))
		for i := range a.claims {
			a.start(i)
			synctest.Wait() // the first is the one that hangs
		}
		pass(lease/10 + time.Millisecond)
		for i := range tasks {
			want := store.StatusCompleted
			if i == 0 {
				want = store.StatusStarted
			}
			equal(t, fmt.Sprint("status of task ", i), get(t, st, fmt.Sprint("payments#", i)).Status, want)
		}
		for range 50 { // no place may be lost
			pass(lease / 10)
			contender := newEngine(t, st.Store, idem.Config{Lease: lease, Wait: -1})
			first := taskOf(returning("a contender's", nil))
			first.Key = "payments#0"
			wantKind(t, contender.Do(t.Context(), first), idem.InFlight)
		}
		a.all.Wait()
		wantKind(t, a.outcomes[0], idem.CompletionFailed)
		for _, out := range a.outcomes[1:] {
			wantKind(t, out, idem.Executed)
		}
	})
}

func TestCompletionsThatCannotBeStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSlowStore()
		st.on = func(_ int, ss []store.Settlement) []error {
			return slices.Repeat([]error{errNetwork},
				len(ss))
		}
		a := newAsync(session(t, newEngine(t, st, idem.Config{}), until(t, 20*time.Second)), 3,
			returning("receipt", nil))
		begun := time.Now()
		a.runAll()
		a.wantAll(t, idem.CompletionFailed)
		for _, out := range a.outcomes {
			if out.Err == nil {
				t.Error("nothing says why")
			}
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("it took %v, which is beyond the deadline", took)
		}
	})
}

// The place in the window is released however the handler ends.
func TestPlacesInTheWindowAreReleased(t *testing.T) {
	for name, handle := range map[string]idem.HandlerFunc{
		"error": func(context.Context) ([]byte, error) { return nil, errBoom },
		"panic": func(context.Context) ([]byte, error) { panic(errBoom) },
		"exit": func(context.Context) ([]byte, error) {
			runtime.Goexit()
			return nil, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newSlowStore()
				s := session(t, newEngine(t, st, idem.Config{CommitWindow: 1}), t.Context())
				a := newAsync(s, 3, handle)
				for i := range 2 {
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						s.RunAsync(a.claims[i], func(out idem.Outcome, _ bool) { wantKind(t, out, idem.Retry) })
					}()
					<-ended
				}
				a.claims[2].Task.Handler = returning("receipt", nil)
				a.start(2)
				a.all.Wait()
				wantKind(t, a.outcomes[2], idem.Executed)
			})
		})
	}
}

func TestWaitForCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSlowStore()
		s := session(t, newEngine(t, st, idem.Config{}), until(t, time.Minute))
		s.WaitForCommits() // nothing to wait for
		a := newAsync(s, 6, returning("receipt", nil))
		for i := range a.claims {
			a.start(i)
		}
		s.WaitForCommits()
		for i := range a.claims {
			equal(t, "status", get(t, st, fmt.Sprint("payments#", i)).Status, store.StatusCompleted)
		}
		a.all.Wait()
	})
}

// A task that gets no place in the window before the deadline does not begin.
func TestTaskWithoutAPlaceBeforeTheDeadlineIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSlowStore()
		st.on = func(_ int, ss []store.Settlement) []error {
			if ss[0].Op == store.OpRelease {
				return nil
			}
			return slices.Repeat([]error{errNetwork}, len(ss))
		}
		h := returning("receipt", nil)
		a := newAsync(session(t, newEngine(t, st,
			idem.Config{CommitWindow: 1, DeadlineMargin: 4 * time.Second}), until(t, 20*time.Second)), 2, h)
		a.runAll()
		wantKind(t, a.outcomes[0], idem.CompletionFailed)
		wantKind(t, a.outcomes[1], idem.NotStarted)
		equal(t, "calls of the handler", h.calls, 1)
		equal(t, "attempts of the one that was not begun", get(t, st, "payments#1").Attempts, 0)
	})
}

// On a store that takes one element per request, RunAsync is Run.
func TestRunAsyncWithoutBatchingIsRun(t *testing.T) {
	for name, st := range map[string]store.Store{
		"no Batcher":         newSpy(),
		"a Batcher of one":   memstore.New(memstore.Config{BatchSize: 1}),
		"less than a single": batcherOf{newSpy(), -1},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, st, idem.Config{})
			equal(t, "batch size", e.BatchSize(), 1)
			a := newAsync(session(t, e, t.Context()), 2, returning("receipt", nil))
			for i := range a.claims {
				a.start(i)
				wantKind(t, a.outcomes[i], idem.Executed) // known by now
			}
		})
	}
}

type batcherOf struct {
	store.Store
	size int
}

func (b batcherOf) BatchSize() int { return b.size }

// With one attempt completions are not grouped, because the death of a process would use up the attempts of
// other tasks.
func TestBatchSizeIsOneWithOneAttempt(t *testing.T) {
	for attempts, want := range map[int]int{0: 25, -1: 25, 2: 25, 1: 1} {
		e := newEngine(t, memstore.New(memstore.Config{BatchSize: 25}), idem.Config{MaxAttempts: attempts})
		equal(t, fmt.Sprint("batch size with MaxAttempts ", attempts), e.BatchSize(), want)
	}
}

// A failure is settled before RunAsync returns, because later tasks depend on it.
func TestFailureIsSettledWhenRunAsyncReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSlowStore()
		a := newAsync(session(t, newEngine(t, st, idem.Config{}), t.Context()), 2,
			returning("", errors.New("boom")))
		for i := range a.claims {
			a.start(i)
			wantKind(t, a.outcomes[i], idem.Retry)
		}
	})
}
