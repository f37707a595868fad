package idem_test

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

const (
	tracedLanes    = 40
	tracedAttempts = 3 // MaxAttempts of docs/spec/tracelanes.cfg
)

// Invocations of several processes have lanes with the same keys in different orders, and are delivered again
// until all keys are settled. Each attempt that is counted is a call of a handler: the claims that were not
// used are given back. If IDEMSK_TRACE_DIR names a folder, what the lanes did is written there, and
// scripts/trace.sh compares it with docs/spec/batch.tla.
func TestLanesCountTheAttemptsThatTheyUse(t *testing.T) {
	for seed := range uint64(tracedLanes) {
		synctest.Test(t, func(t *testing.T) {
			r := newLaneRecorder(seed)
			r.run(t, func(s invocationStore) store.Store { return s })
			for e := range r.List(context.Background(), store.ListQuery{}) {
				if calls := r.calls[e.Key]; e.Attempts != calls {
					t.Errorf("seed %d: %s is %s after %d attempts, and its handler was called %d times", seed,
						e.Key, e.Status, e.Attempts, calls)
				}
			}
			writeTrace(t, os.Getenv("IDEMSK_TRACE_DIR"), r.lanes, r.withWaits())
		})
	}
}

// laneEvent is a line of a trace: what a store did for an invocation, or the end of a handler or of an
// invocation.
type laneEvent struct {
	Op    string `json:"op"`
	Inv   string `json:"inv"`
	Key   string `json:"key"`
	St    string `json:"st"`  // of the entry: A free, S, C, F
	Att   int    `json:"att"` // of the entry
	Fails bool   `json:"fails"`

	request *claimRequest // of an answer to a claim
}

// claimRequest is a call of Claim.
type claimRequest struct{ sent, answered time.Time }

// laneRecorder is a store that records its calls, and the lanes that use it.
type laneRecorder struct {
	*memstore.Store
	recorder
	lanes map[string][]string // the keys, by invocation
	calls map[string]int      // of handlers; guarded by mu
}

// newLaneRecorder returns a store with random lanes.
func newLaneRecorder(seed uint64) *laneRecorder {
	r := &laneRecorder{
		Store: memstore.New(memstore.Config{BatchSize: 25}), lanes: make(map[string][]string),
		recorder: recorder{rand: rand.New(rand.NewPCG(seed, 0))}, calls: make(map[string]int),
	}
	for _, inv := range []string{"p", "q", "r"} {
		keys := []string{"A", "B", "C", "D", "E"}
		r.rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		r.lanes[inv] = keys[:r.rand.IntN(len(keys)+1)]
	}
	return r
}

// run delivers the lanes until their keys are settled. seen is the store as their processes see it.
func (r *laneRecorder) run(t *testing.T, seen func(invocationStore) store.Store) {
	t.Helper()
	var processes sync.WaitGroup
	for inv := range r.lanes {
		scheduler := r.process(t, inv, seen)
		processes.Go(func() { r.deliver(scheduler, inv) })
	}
	processes.Wait()
}

func (r *laneRecorder) process(t *testing.T, inv string,
	seen func(invocationStore) store.Store) *idem.Scheduler {
	t.Helper()
	// The model has no time: a released key can be claimed at once.
	cfg := idem.Config{MaxAttempts: tracedAttempts, Wait: r.between(1, 400), RetryDelay: -1,
		OutageFailures: -1}
	engine, err := idem.New(seen(invocationStore{r, inv}), cfg)
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := idem.NewScheduler(engine, idem.SchedulerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return scheduler
}

// deliveryLimit is the deadline of an invocation, which ends long before it.
const deliveryLimit = 10 * time.Second

// deliver delivers a lane until all of its records are settled, or for a number of times after which the lane
// is stuck.
func (r *laneRecorder) deliver(scheduler *idem.Scheduler, inv string) {
	for range 100 {
		items := make([]*idem.Item, len(r.lanes[inv]))
		for i, key := range r.lanes[inv] {
			items[i] = r.item(inv, key)
		}
		ctx, cancel := context.WithTimeout(context.Background(), deliveryLimit)
		scheduler.Run(ctx, [][]*idem.Item{items})
		cancel()
		r.note(&laneEvent{Op: "end", Inv: inv})
		if !slices.ContainsFunc(items, func(it *idem.Item) bool { return !it.Settled() }) {
			return
		}
		pass(r.between(0, 30))
	}
}

func (r *laneRecorder) item(inv, key string) *idem.Item {
	return &idem.Item{Lane: inv, Task: idem.Task{Key: key, Source: inv,
		Fingerprint: store.FingerprintOf([]byte(key)),
		DeadLetters: idem.DeadLetterFunc(func(context.Context, idem.DeadLetter) error { return nil }),
		Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) {
			pass(r.between(8, 40)) //nolint:mnd // longer than a request, so that the completions are stored in the order of the lane
			r.mu.Lock()
			defer r.mu.Unlock()
			r.calls[key]++
			fails := r.rand.IntN(4) == 0
			r.events = append(r.events, &laneEvent{Op: "return", Inv: inv, Key: key, Fails: fails})
			if fails {
				return nil, errBoom
			}
			return nil, nil
		})}}
}

func (r *laneRecorder) note(e *laneEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// invocationStore is the store as the process of an invocation sees it: over a network with a latency.
type invocationStore struct {
	*laneRecorder
	inv string
}

// Claim implements store.Store.
func (s invocationStore) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	request := &claimRequest{sent: time.Now()}
	pass(s.between(0, 3))
	s.mu.Lock()
	results := s.Store.Claim(ctx, reqs)
	for i := range results {
		op := map[store.ClaimState]string{
			store.Claimed: "claimed", store.ClaimInFlight: "inFlight", store.ClaimCompleted: "settled",
			store.ClaimFailed: "settled",
		}[results[i].State]
		s.observed(op, reqs[i].Key).request = request
	}
	s.mu.Unlock()
	pass(s.between(0, 3))
	request.answered = time.Now()
	return results
}

// Settle implements store.Store.
func (s invocationStore) Settle(ctx context.Context, ss []store.Settlement) []error {
	pass(s.between(0, 3))
	s.mu.Lock()
	errs := s.Store.Settle(ctx, ss)
	for i := range ss {
		switch {
		case ss[i].Op == store.OpExtend:
		case ss[i].Refund:
			s.observed("refund", ss[i].Key)
		default:
			s.observed("settle", ss[i].Key)
		}
	}
	s.mu.Unlock()
	pass(s.between(0, 3))
	return errs
}

// observed records what the store did for a key, with the entry after it. s.mu is held.
func (s invocationStore) observed(op, key string) *laneEvent {
	entry, _ := s.Get(context.Background(), key) // it has one after each of the calls
	e := &laneEvent{Op: op, Inv: s.inv, Key: key, St: string(entry.Status[0]), Att: entry.Attempts}
	if entry.Released() {
		e.St = "A"
	}
	s.events = append(s.events, e)
	return e
}

// withWaits returns the events, and after the answers to a claim one for each key in flight that was not
// claimed again in the moment of the answer.
func (r *laneRecorder) withWaits() (all []*laneEvent) {
	var waits []*laneEvent
	for i, e := range r.events {
		all = append(all, e)
		if e.Op == "inFlight" && !claimedAtOnce(e, r.events[i+1:]) {
			waits = append(waits, &laneEvent{Op: "later", Inv: e.Inv, Key: e.Key})
		}
		if i+1 == len(r.events) || r.events[i+1].request != e.request {
			all, waits = append(all, waits...), nil
		}
	}
	return all
}

// claimedAtOnce reports whether an invocation claimed a key again in the moment in which it was told that the
// key is in flight.
func claimedAtOnce(e *laneEvent, after []*laneEvent) bool {
	for _, next := range after {
		if next.Inv == e.Inv && next.Key == e.Key && next.request != nil {
			return next.request.sent.Equal(e.request.answered)
		}
	}
	return false
}
