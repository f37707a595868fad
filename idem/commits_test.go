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
)

// slowStore is a store in memory that is a Batcher, and takes a second for each call of Settle.
type slowStore struct {
	*memstore.Store
	on func(call int, ss []idem.Settlement) []error // instead of settling, if it returns an error

	mu    sync.Mutex
	calls [][]idem.Settlement
	begun []time.Time
}

const batchSize = 4

func newSlowStore() *slowStore {
	return &slowStore{Store: memstore.New(memstore.Config{BatchSize: batchSize})}
}

// Settle implements idem.Store.
func (s *slowStore) Settle(ctx context.Context, ss []idem.Settlement) []error {
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

// sizes are those of the calls so far, sorted: calls of one moment come in any order.
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

// async runs tickets for different keys one after another, and returns what came of them when all is known.
type async struct {
	*idem.Session
	tickets []*idem.Ticket

	mu       sync.Mutex
	outcomes []idem.Outcome
	told     []int // how often done was called
	all      sync.WaitGroup
}

func newAsync(s *idem.Session, n int, h idem.Handler) *async {
	a := &async{Session: s, outcomes: make([]idem.Outcome, n), told: make([]int, n)}
	for i := range n {
		task := taskOf(h)
		task.Key = fmt.Sprint("payments#", i)
		a.tickets = append(a.tickets, &idem.Ticket{Task: task})
	}
	s.Claim(a.tickets)
	return a
}

func (a *async) start(i int) {
	a.all.Add(1)
	a.RunAsync(a.tickets[i], func(out idem.Outcome) {
		a.mu.Lock()
		a.outcomes[i] = out
		a.told[i]++
		a.mu.Unlock()
		a.all.Done()
	})
}

func (a *async) runAll() []idem.Outcome {
	for i := range a.tickets {
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
		equal(t, fmt.Sprint("calls of done for task ", i), a.told[i], 1)
	}
}

// The first is sent at once; full requests leave as soon as they are full; the rest when the last request has returned.
func TestCompletionsAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSlowStore()
		a := newAsync(session(t, newEngine(t, store, idem.Config{}), t.Context()), 11, returning("receipt", nil))
		begun := time.Now()
		a.runAll()
		a.wantAll(t, idem.Executed)
		equal(t, "requests", store.sizes(), "[1 2 4 4]")
		equal(t, "time", time.Since(begun), 2*time.Second)
		for i, at := range store.begun {
			want := time.Duration(0)
			if len(store.calls[i]) == 2 { // the rest
				want = time.Second
			}
			equal(t, fmt.Sprint("begin of request ", i), at.Sub(begun), want)
		}
		for i := range a.tickets {
			equal(t, "status", get(t, store, fmt.Sprint("payments#", i)).Status, idem.StatusCompleted)
		}
	})
}

// A single completion waits for nothing.
func TestAnIdleSessionAddsNoLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSlowStore()
		a := newAsync(session(t, newEngine(t, store, idem.Config{}), t.Context()), 1, returning("receipt", nil))
		begun := time.Now()
		a.runAll()
		equal(t, "time", time.Since(begun), time.Second)
	})
}

// No more handlers than the window allows have returned without their completion having landed.
func TestTheCommitWindowBoundsWhatIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSlowStore()
		ran, ahead, most := 0, 0, 0
		h := idem.HandlerFunc(func(context.Context) ([]byte, error) {
			ran++
			store.mu.Lock()
			defer store.mu.Unlock()
			landed := 0
			for i := range store.calls {
				if time.Since(store.begun[i]) >= time.Second {
					landed += len(store.calls[i])
				}
			}
			ahead = ran - landed
			most = max(most, ahead)
			return nil, nil
		})
		a := newAsync(session(t, newEngine(t, store, idem.Config{CommitWindow: 3}), t.Context()), 12, h)
		a.runAll()
		a.wantAll(t, idem.Executed)
		equal(t, "most handlers ahead of their completions", most, 3)
	})
}

// What has to be sent again is sent by itself, and holds up nobody.
func TestACompletionThatFailsIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSlowStore()
		store.on = func(call int, ss []idem.Settlement) []error {
			if call > 2 {
				return nil
			}
			errs := make([]error, len(ss)) // the first of each of the first two requests is lost; the rest lands
			errs[0] = errNetwork
			for i, err := range store.Store.Settle(context.Background(), ss[1:]) {
				errs[i+1] = err
			}
			return errs
		}
		a := newAsync(session(t, newEngine(t, store, idem.Config{}), t.Context()), 7, returning("receipt", nil))
		begun := time.Now()
		a.runAll()
		a.wantAll(t, idem.Executed)
		sizes := store.sizes()
		equal(t, "requests", sizes, "[1 1 1 2 4]")
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A request that gets no answer, as on a connection that was silently lost, holds up only what it carries.
func TestCompletionsPassARequestThatGetsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy()
		hangs := true
		store.onSettle = func(ctx context.Context, set idem.Settlement, land func() error) error {
			if set.Op == idem.OpComplete && hangs {
				hangs = false
				<-ctx.Done()
				return ctx.Err()
			}
			return land()
		}
		const batchSize, tasks = 100, 6
		e := newEngine(t, batcherOf{store, batchSize}, idem.Config{Lease: lease})
		a := newAsync(session(t, e, until(t, 10*lease)), tasks, returning("receipt", nil))
		for i := range a.tickets {
			a.start(i)
			synctest.Wait() // the first is the one that hangs
		}
		pass(lease/10 + time.Millisecond)
		for i := range tasks {
			want := idem.StatusCompleted
			if i == 0 {
				want = idem.StatusStarted
			}
			equal(t, fmt.Sprint("status of task ", i), get(t, store, fmt.Sprint("payments#", i)).Status, want)
		}
		for range 50 { // it is lost to nobody
			pass(lease / 10)
			contender := newEngine(t, store.Store, idem.Config{Lease: lease, Wait: -1})
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
		store := newSlowStore()
		store.on = func(_ int, ss []idem.Settlement) []error { return slices.Repeat([]error{errNetwork}, len(ss)) }
		a := newAsync(session(t, newEngine(t, store, idem.Config{}), until(t, 20*time.Second)), 3, returning("receipt", nil))
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

// A claim that was lost meanwhile: by a thief that is at work, and by one that has completed the same request.
func TestACompletionThatIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSlowStore()
		store.on = func(_ int, ss []idem.Settlement) []error {
			if ss[0].Op == idem.OpExtend {
				return []error{errNetwork}
			}
			return nil
		}
		a := newAsync(session(t, newEngine(t, store, idem.Config{}), t.Context()), 3, returning("receipt", nil))
		steal := func(key string) idem.Record {
			pass(lease + 2*time.Second)
			req := idem.ClaimRequest{Key: key, Owner: "the thief", Fingerprint: idem.FingerprintOf([]byte("value")), Lease: time.Hour, Retention: time.Hour, TakeOver: true}
			return store.Store.Claim(context.Background(), []idem.ClaimRequest{req})[0].Record
		}
		a.tickets[0].Task.Handler = idem.HandlerFunc(func(context.Context) ([]byte, error) { steal("payments#0"); return nil, nil })
		a.tickets[1].Task.Handler = idem.HandlerFunc(func(context.Context) ([]byte, error) {
			rec := steal("payments#1")
			store.Store.Settle(context.Background(), []idem.Settlement{{
				Op: idem.OpComplete, Key: rec.Key, Version: rec.Version, Owner: rec.Owner, Retention: time.Hour, Result: []byte("the thief's"),
			}})
			return nil, nil
		})
		for i := range a.tickets {
			go a.start(i)
		}
		synctest.Wait()
		a.all.Wait()
		wantKind(t, a.outcomes[0], idem.Fenced)
		wantKind(t, a.outcomes[1], idem.Replayed)
		equal(t, "the result that counts", string(a.outcomes[1].Result), "the thief's")
		wantKind(t, a.outcomes[2], idem.Executed)
	})
}

// Whatever becomes of a handler, its place in the window is free afterwards.
func TestNoPlaceInTheWindowIsLost(t *testing.T) {
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
				store := newSlowStore()
				s := session(t, newEngine(t, store, idem.Config{CommitWindow: 1}), t.Context())
				a := newAsync(s, 3, handle)
				for i := range 2 {
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						s.RunAsync(a.tickets[i], func(out idem.Outcome) { wantKind(t, out, idem.Retry) })
					}()
					<-ended
				}
				a.tickets[2].Task.Handler = returning("receipt", nil)
				a.start(2)
				a.all.Wait()
				wantKind(t, a.outcomes[2], idem.Executed)
			})
		})
	}
}

func TestWaitForCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSlowStore()
		s := session(t, newEngine(t, store, idem.Config{}), until(t, time.Minute))
		s.WaitForCommits() // nothing to wait for
		a := newAsync(s, 6, returning("receipt", nil))
		for i := range a.tickets {
			a.start(i)
		}
		s.WaitForCommits()
		for i := range a.tickets {
			equal(t, "status", get(t, store, fmt.Sprint("payments#", i)).Status, idem.StatusCompleted)
		}
		a.all.Wait()
	})
}

// Near the deadline a task that finds no place in the window is not begun.
func TestATaskThatFindsNoPlaceBeforeTheDeadlineIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSlowStore()
		store.on = func(_ int, ss []idem.Settlement) []error {
			if ss[0].Op == idem.OpRelease {
				return nil
			}
			return slices.Repeat([]error{errNetwork}, len(ss))
		}
		h := returning("receipt", nil)
		a := newAsync(session(t, newEngine(t, store, idem.Config{CommitWindow: 1, DeadlineMargin: 4 * time.Second}), until(t, 20*time.Second)), 2, h)
		a.runAll()
		wantKind(t, a.outcomes[0], idem.CompletionFailed)
		wantKind(t, a.outcomes[1], idem.NotStarted)
		equal(t, "calls of the handler", h.calls, 1)
		equal(t, "attempts of the one that was not begun", get(t, store, "payments#1").Attempts, 0)
	})
}

// On a store that takes one element in a request, RunAsync is Run.
func TestRunAsyncOnAnyOtherStoreIsRun(t *testing.T) {
	for name, store := range map[string]idem.Store{
		"no Batcher":         newSpy(),
		"a Batcher of one":   memstore.New(memstore.Config{BatchSize: 1}),
		"less than a single": batcherOf{newSpy(), -1},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, store, idem.Config{})
			equal(t, "batch size", e.BatchSize(), 1)
			a := newAsync(session(t, e, t.Context()), 2, returning("receipt", nil))
			for i := range a.tickets {
				a.start(i)
				wantKind(t, a.outcomes[i], idem.Executed) // known by now
			}
		})
	}
}

type batcherOf struct {
	idem.Store
	size int
}

func (b batcherOf) BatchSize() int { return b.size }

// Where one attempt is all there is, nothing is gathered: a process that dies would have used up that of others.
func TestTheBatchSizeOfAnEngine(t *testing.T) {
	for attempts, want := range map[int]int{0: 25, -1: 25, 2: 25, 1: 1} {
		e := newEngine(t, memstore.New(memstore.Config{BatchSize: 25}), idem.Config{MaxAttempts: attempts})
		equal(t, fmt.Sprint("batch size with MaxAttempts ", attempts), e.BatchSize(), want)
	}
}

// A failure is settled before RunAsync returns: what comes behind must know.
func TestAFailureIsKnownWhenRunAsyncReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSlowStore()
		a := newAsync(session(t, newEngine(t, store, idem.Config{}), t.Context()), 2, returning("", errors.New("boom")))
		for i := range a.tickets {
			a.start(i)
			wantKind(t, a.outcomes[i], idem.Retry)
		}
	})
}
