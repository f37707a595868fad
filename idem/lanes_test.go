package idem_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// laneRun is a run of items in lanes, whose keys are LANE-NUMBER. The handler takes one item or many in a call.
type laneRun struct {
	*testing.T
	scheduler *idem.Scheduler
	dice      *rand.Rand
	way       laneWay
	fails     map[string]int // how often the handler of a key fails before it succeeds
	counted   map[string]int // attempts that failed, and not behind another of the lane in a call

	mu      sync.Mutex
	running map[string]bool // lanes with items in a call
	settled map[string]int  // of a lane: the number of the next item that has not succeeded
	effects map[string]int
	calls   [][]string
	open    int // calls at once
	dead    []string
}

// laneWay is a way in which a handler is called, and what it does when an item fails.
type laneWay struct {
	items int // most items in a call; 0: the handler of a single item
	calls int // at once
	then  string
}

// What a handler of many items does when one fails.
const (
	goesOn    = "goes on"           // with the others, and reports each that failed
	stops     = "stops"             // and reports that one and all behind it in all lanes as failed
	stopsLane = "stops its lane"    // and reports that one and those behind it in its lane as failed
	raises    = "raises"            // so the call fails as a whole
	raisesEnd = "raises at the end" // after it has handled the others
)

func laneWays() (all []laneWay) {
	all = append(all, laneWay{0, 1, goesOn}, laneWay{0, 3, goesOn})
	for _, then := range []string{goesOn, stops, stopsLane, raises, raisesEnd} {
		for _, items := range []int{1, 2, 7, 100} {
			for _, calls := range []int{1, 3} {
				all = append(all, laneWay{items, calls, then})
			}
		}
	}
	return all
}

// The promises of lanes hold for each way in which a handler is called: no item is called before the earlier ones of
// its lane have succeeded, or are in its call; what has succeeded is not called again, except after its call failed
// as a whole; no other item's failure uses an item's attempts.
func TestLanesHoldForEachWayOfCalls(t *testing.T) {
	for _, way := range laneWays() {
		t.Run(fmt.Sprintf("%d items, %d calls, %s", way.items, way.calls, way.then), func(t *testing.T) {
			t.Parallel()
			for range 20 {
				seed := rand.Uint64()
				synctest.Test(t, func(t *testing.T) {
					r := newLaneRun(t, way, seed)
					defer func() {
						if t.Failed() {
							t.Logf("seed %d; the calls:\n%v", seed, r.calls)
						}
					}()
					if seed%2 == 0 {
						r.stream()
					} else {
						r.batches()
					}
					r.check()
				})
				if t.Failed() {
					return
				}
			}
		})
	}
}

func newLaneRun(t *testing.T, way laneWay, seed uint64) *laneRun {
	r := &laneRun{T: t, way: way, dice: rand.New(rand.NewPCG(seed, 0)), fails: map[string]int{}, running: map[string]bool{},
		counted: map[string]int{},
		settled: map[string]int{}, effects: map[string]int{}}
	engine, err := idem.New(memstore.New(memstore.Config{BatchSize: 1 + r.dice.IntN(25)}),
		idem.Config{MaxAttempts: 4, OutageFailures: -1, CommitWindow: 1 + r.dice.IntN(256)})
	if err != nil {
		t.Fatal(err)
	}
	cfg := idem.SchedulerConfig{Concurrency: way.calls, CallItems: way.items}
	if way.items > 0 {
		cfg.Bulk = r.handleAll
	}
	if r.scheduler, err = idem.NewScheduler(engine, cfg); err != nil {
		t.Fatal(err)
	}
	return r
}

// items returns the items of some lanes. Some fail, some of them for good.
func (r *laneRun) items() (lanes [][]*idem.Item) {
	bad := r.dice.IntN(4)
	for l := range 1 + r.dice.IntN(5) {
		var items []*idem.Item
		for n := range 1 + r.dice.IntN(30) {
			key := fmt.Sprintf("%d-%d", l, n)
			if r.dice.IntN(20) < bad {
				r.fails[key] = []int{1, 2, 100}[r.dice.IntN(3)] // a call that stops costs others an attempt
			}
			items = append(items, r.item(key))
		}
		lanes = append(lanes, items)
	}
	return lanes
}

func (r *laneRun) item(key string) *idem.Item {
	lane, _, _ := strings.Cut(key, "-")
	return &idem.Item{Lane: lane, Task: idem.Task{
		Key: key, Source: key, Fingerprint: store.FingerprintOf([]byte(key)),
		Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) { return nil, r.handleOne(ctx, key) }),
		DeadLetters: idem.DeadLetterFunc(func(_ context.Context, letter idem.DeadLetter) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.dead = append(r.dead, key)
			r.next(key)
			if letter.Attempt.Number != 4 {
				r.Errorf("%s is a dead letter after %d attempts", key, letter.Attempt.Number)
			}
			return nil
		}),
	}}
}

// next notes that an item is settled.
func (r *laneRun) next(key string) {
	var l, n int
	_, _ = fmt.Sscanf(key, "%d-%d", &l, &n)
	r.settled[fmt.Sprint(l)] = max(r.settled[fmt.Sprint(l)], n+1)
}

// enter checks the items of a call.
func (r *laneRun) enter(keys []string) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, keys)
	if r.open++; r.open > r.way.calls {
		r.Errorf("%d calls at once", r.open)
	}
	if len(keys) > max(1, r.way.items) {
		r.Errorf("a call of %d items", len(keys))
	}
	lanes := map[string]int{} // the next item of each
	for _, key := range keys {
		var l, n int
		_, _ = fmt.Sscanf(key, "%d-%d", &l, &n)
		lane := fmt.Sprint(l)
		next, ok := lanes[lane]
		if !ok {
			if next = r.settled[lane]; r.running[lane] {
				r.Errorf("%s is called while another call has items of its lane", key)
			}
		}
		for ; next < n; next++ { // those between may have succeeded behind one that failed
			if other := fmt.Sprintf("%s-%d", lane, next); r.effects[other] == 0 && !slices.Contains(r.dead, other) {
				r.Errorf("%s is called before %s", key, other)
			}
		}
		lanes[lane] = n + 1
	}
	for lane := range lanes {
		r.running[lane] = true
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.open--
		for lane := range lanes {
			delete(r.running, lane)
		}
	}
}

// attempt is the effect of an item, or its failure.
func (r *laneRun) attempt(key string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails[key] > 0 {
		r.fails[key]--
		return errors.New("no such account")
	}
	if r.effects[key]++; r.effects[key] > 1 && r.way.then != raises && r.way.then != raisesEnd {
		r.Errorf("%s took effect %d times", key, r.effects[key])
	}
	r.next(key)
	return nil
}

func (r *laneRun) handleOne(_ context.Context, key string) error {
	defer r.enter([]string{key})()
	r.pass()
	return r.attempt(key)
}

func (r *laneRun) handleAll(_ context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
	keys := make([]string, len(items))
	for i, it := range items {
		keys[i] = it.Task.Key
	}
	defer r.enter(keys)()
	r.pass()
	results := make([]idem.BulkResult, len(items))
	stopped, all, raised := map[string]bool{}, false, error(nil)
	for i, it := range items {
		lane, _, _ := strings.Cut(it.Task.Key, "-")
		r.checkAttempt(it)
		if all && r.way.then == stops || stopped[lane] && r.way.then == stopsLane {
			results[i].Err = errors.New("not tried")
			continue
		}
		err := r.attempt(it.Task.Key)
		if results[i].Err = err; err == nil {
			continue
		}
		if !stopped[lane] {
			r.count(it.Task.Key)
		}
		all, stopped[lane], raised = true, true, err
		if r.way.then == raises {
			return nil, err
		}
	}
	if raised != nil && r.way.then == raisesEnd {
		return nil, raised
	}
	return results, nil
}

// count counts a failure that uses an attempt of an item.
func (r *laneRun) count(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counted[key]++
}

// checkAttempt checks that no other item's failure has used an attempt of an item. If a call stops, or fails as a
// whole, the handler does not know which attempts count.
func (r *laneRun) checkAttempt(it *idem.Item) {
	a, _ := idem.AttemptFrom(it.Context())
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.way.then == goesOn || r.way.then == stopsLane; known && a.Number != 1+r.counted[it.Task.Key] {
		r.Errorf("attempt %d at %s, of which %d failed", a.Number, it.Task.Key, r.counted[it.Task.Key])
	}
}

// pass lets a random time pass.
func (r *laneRun) pass() {
	<-time.After(time.Duration(r.throw(100)) * time.Millisecond)
}

// throw returns a random number below n.
func (r *laneRun) throw(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dice.IntN(n)
}

func (r *laneRun) stream() {
	var mu sync.Mutex
	left := 0
	s := r.scheduler.Stream(r.Context(), func(*idem.Item) {
		mu.Lock()
		defer mu.Unlock()
		left--
	}, func(it *idem.Item) {
		if it.Outcome.Kind == idem.Behind {
			r.Errorf("%s is reported as tried: %v", it.Task.Key, it.Outcome.Err)
		}
	})
	lanes := r.items()
	for _, items := range lanes {
		left += len(items)
	}
	for slices.ContainsFunc(lanes, func(items []*idem.Item) bool { return len(items) > 0 }) {
		for l, items := range lanes {
			n := r.throw(len(items) + 1)
			s.Add(items[:n]...)
			lanes[l] = items[n:]
		}
		r.pass()
	}
	<-time.After(time.Hour)
	synctest.Wait()
	if left != 0 {
		r.Errorf("%d items are not settled", left)
	}
	s.Close(r.Context())
}

// batches delivers what is not settled again and again.
func (r *laneRun) batches() {
	lanes := r.items()
	for range 1000 {
		ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
		if overruns := r.scheduler.Run(ctx, lanes); len(overruns) > 0 {
			r.Errorf("%d overruns", len(overruns))
		}
		cancel()
		var left [][]*idem.Item
		for _, items := range lanes {
			var of []*idem.Item
			for _, it := range items {
				if len(of) > 0 || !it.Settled() {
					of = append(of, r.item(it.Task.Key))
				}
			}
			if len(of) > 0 {
				left = append(left, of)
			}
		}
		if lanes = left; len(lanes) == 0 {
			return
		}
		<-time.After(time.Second)
	}
	r.Errorf("%d lanes are not settled", len(lanes))
}

// check checks that each item has succeeded, or is a dead letter because it failed four times.
func (r *laneRun) check() {
	for key, left := range r.fails {
		if dead := slices.Contains(r.dead, key); dead != (left > 0) {
			r.Errorf("%s is a dead letter: %t; it fails %d times more", key, dead, left)
		}
	}
	for _, key := range r.dead {
		if r.fails[key] == 0 {
			r.Errorf("%s is a dead letter, and does not fail", key)
		}
	}
}
