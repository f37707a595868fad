package batch_test

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

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/batch"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// A stream gets items with few keys, some with another request than the others, in random lanes, whose handlers fail, panic, take long and end their goroutines, on a store
// that fails at random and has keys of other owners, live and dead. Lanes are stopped and their items are delivered again. Then
// every item ends once, every key has one effect or a dead letter, and the order of the lanes is kept.
func TestEveryItemOfAStreamEndsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { rapid.SyncTest(t, settleStream) })
}

// world is what the test knows of a stream.
type world struct {
	*rapid.T
	store       *faultyStore
	stream      *batch.Stream
	concurrency int
	byRange     bool                // each lane is a range
	fates       map[string][]string // by key, of its next attempts
	lanes       map[string][]*delivery

	mu      sync.Mutex
	running int
	effects map[string]int
	letters map[string]int
	exited  map[string]bool // keys whose handler ended its goroutine, so that they stay claimed
}

// delivery is an item of the stream.
type delivery struct {
	lane, key string
	request   string
	item      *batch.Item
	dones     int
	running   bool
	stopped   bool // Stop has returned
	returned  bool // by Stop, as in progress
}

func settleStream(t *rapid.T) {
	w := &world{
		T: t, fates: map[string][]string{}, lanes: map[string][]*delivery{}, effects: map[string]int{}, letters: map[string]int{},
		exited:      map[string]bool{},
		concurrency: rapid.IntRange(1, 4).Draw(t, "concurrency"),
		byRange:     rapid.Bool().Draw(t, "by range"),
		store: &faultyStore{
			Store: memstore.New(memstore.Config{BatchSize: rapid.SampledFrom([]int{1, 2, 25}).Draw(t, "batch size")}),
			taken: map[string]int64{}, forgotten: map[string]bool{},
			draws: rapid.SliceOfN(rapid.IntRange(0, 9), 0, 60).Draw(t, "faults"),
		},
	}
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, key := range keys {
		w.fates[key] = rapid.SliceOfN(rapid.SampledFrom([]string{
			"succeed", "fail", "fail later", "be unavailable", "panic", "never succeed", "exit", "take long",
		}), 0, 3).Draw(t, "fates of "+key)
		if lease := rapid.SampledFrom([]time.Duration{0, 0, 0, time.Millisecond, 20 * time.Second}).Draw(t, "another's lease of "+key); lease > 0 {
			w.store.Store.Claim(context.Background(), []store.ClaimRequest{{
				Key: key, Owner: "another", Fingerprint: idem.FingerprintOf([]byte(key)), Lease: lease, Retention: time.Hour,
			}})
		}
	}
	pass(2 * time.Millisecond)
	w.start()
	for range rapid.IntRange(1, 30).Draw(t, "steps") {
		lane := rapid.SampledFrom([]string{"l1", "l2", "l3", "l4"}).Draw(t, "lane")
		switch rapid.IntRange(0, 9).Draw(t, "step") {
		case 0:
			w.stop(lane, rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "patience"))
		case 1, 2:
			pass(rapid.SampledFrom([]time.Duration{time.Millisecond, 50 * time.Millisecond, 5 * time.Second}).Draw(t, "time"))
		default:
			for _, key := range rapid.SliceOfN(rapid.SampledFrom(keys), 1, 6).Draw(t, "keys") {
				w.add(lane, key, key+rapid.SampledFrom([]string{"", "", "", "", "'"}).Draw(t, "request"))
			}
		}
	}
	pass(time.Hour)
	synctest.Wait()
	w.check()
}

func (w *world) start() {
	engine, err := idem.New(w.store, idem.Config{MaxAttempts: 3, Lease: 10 * time.Second, ClaimByRange: w.byRange})
	if err != nil {
		w.Fatal(err)
	}
	scheduler, err := batch.New(engine, batch.Config{Concurrency: w.concurrency})
	if err != nil {
		w.Fatal(err)
	}
	w.stream = scheduler.Stream(context.Background(), w.done, w.retried)
}

func (w *world) add(lane, key, request string) {
	w.mu.Lock()
	d := &delivery{lane: lane, key: key, request: request, item: &batch.Item{Lane: lane}}
	source := fmt.Sprintf("%s/%d", lane, len(w.lanes[lane]))
	if w.byRange {
		d.item.Range, d.item.Position = "%"+lane, int64(len(w.lanes[lane]))
	}
	w.lanes[lane] = append(w.lanes[lane], d)
	w.mu.Unlock()
	deadLetters := idem.DeadLetterFunc(func(context.Context, idem.DeadLetter) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.letters[key]++
		return nil
	})
	d.item.Task = idem.Task{
		Key: key, Fingerprint: idem.FingerprintOf([]byte(request)), Handler: (*handling)(&handlingOf{w, d}), Source: source, DeadLetters: deadLetters,
	}
	d.item.Substitute = substituteTask{idem.Task{Key: source, Source: source, DeadLetters: deadLetters,
		Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) { return nil, idem.Permanent(errBoom) })}}
	w.stream.Add(d.item)
}

// stop stops a lane and delivers its unfinished items again.
func (w *world) stop(lane string, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	running := w.stream.Stop(ctx, func(name string) bool { return name == lane }, "%"+lane)
	w.mu.Lock()
	var again []*delivery
	for _, d := range w.lanes[lane] {
		if !d.stopped && d.dones == 0 {
			again = append(again, d)
			if d.returned = slices.Contains(running, d.item); d.running && !d.returned {
				w.Errorf("%s still runs, and Stop did not return it", d.item.Task.Source)
			}
		}
		d.stopped = true
	}
	w.mu.Unlock()
	for _, d := range again {
		w.add(lane, d.key, d.request)
	}
}

// of returns the delivery of an item.
func of(it *batch.Item) *delivery {
	h, _ := it.Task.Handler.(*handling)
	return h.d
}

func (w *world) done(it *batch.Item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := of(it)
	if d.dones++; d.dones > 1 || d.stopped || !it.Settled() {
		w.Errorf("%s: done %d times, stopped %v, %v", it.Task.Source, d.dones, d.stopped, it.Outcome.Kind)
	}
}

func (w *world) retried(it *batch.Item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d := of(it); d.dones > 0 || d.stopped || it.Settled() {
		w.Errorf("%s: retried after %v, done %d times, stopped %v", it.Task.Source, it.Outcome.Kind, d.dones, d.stopped)
	}
}

type handlingOf struct {
	w *world
	d *delivery
}

// handling is the handler of a delivery.
type handling handlingOf

// Handle implements idem.Handler.
func (h *handling) Handle(ctx context.Context) ([]byte, error) {
	w, d := h.w, h.d
	w.mu.Lock()
	w.checkBegin(ctx, d)
	fate := "succeed"
	if left := w.fates[d.key]; len(left) > 0 {
		if fate = left[0]; fate != "never succeed" {
			w.fates[d.key] = left[1:]
		}
	}
	w.running++
	d.running = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.running--
		d.running = false
	}()
	pass(time.Millisecond)
	switch fate {
	case "fail":
		return nil, errBoom
	case "fail later":
		return nil, idem.RetryAfter(errBoom, 3*time.Second)
	case "be unavailable":
		return nil, idem.Unavailable(errBoom)
	case "panic":
		panic(errBoom)
	case "never succeed":
		return nil, idem.Permanent(errBoom)
	case "exit":
		w.mu.Lock()
		w.exited[d.key] = true
		w.mu.Unlock()
		runtime.Goexit()
	case "take long":
		pass(25 * time.Second)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.effects[d.key]++
	return nil, nil
}

// checkBegin checks that an item may begin now.
func (w *world) checkBegin(ctx context.Context, d *delivery) {
	if d.stopped && !d.returned || d.dones > 0 || d.running {
		w.Errorf("%s begins: stopped %v, done %d times, running %v", d.item.Task.Source, d.stopped, d.dones, d.running)
	}
	if w.running >= w.concurrency {
		w.Errorf("%s begins beside %d others", d.item.Task.Source, w.running)
	}
	for _, before := range w.lanes[d.lane] {
		if before == d {
			break
		}
		if !before.stopped && before.dones == 0 && w.effects[before.key] == 0 && !w.failed(before.key) && !w.failed(before.item.Task.Source) {
			w.Errorf("%s begins before %s has ended", d.item.Task.Source, before.item.Task.Source)
		}
	}
	a, _ := idem.AttemptFrom(ctx)
	if a.Key == "" || !w.store.stolen(d.key, a.Token) {
		return
	}
	if w.running > 0 {
		w.Errorf("%s has taken its key over and begins beside %d others", d.item.Task.Source, w.running)
	}
	for rec := range w.store.List(context.Background(), store.ListQuery{Status: store.StatusStarted}) {
		if rec.Key != d.key && rec.Owner != "another" && !w.exited[rec.Key] && !rec.Released() && rec.LeaseUntil.After(time.Now()) && !w.store.forgotten[rec.Owner] {
			w.Errorf("%s has taken its key over and begins while %s is claimed: %+v, now %v", d.item.Task.Source, rec.Key, rec, time.Now())
		}
	}
}

func (w *world) failed(key string) bool {
	rec, _ := w.store.Get(context.Background(), key)
	return rec.Status == store.StatusFailed
}

// check checks the state after all items have ended.
func (w *world) check() {
	keys := map[string]bool{} // whether the request of the key's other owners was made
	w.mu.Lock()
	for _, all := range w.lanes {
		for _, d := range all {
			keys[d.key] = keys[d.key] || d.request == d.key
			if !d.stopped && d.dones != 1 {
				w.Errorf("%s: done %d times, last outcome %v: %v", d.item.Task.Source, d.dones, d.item.Outcome.Kind, d.item.Outcome.Err)
			}
		}
	}
	w.mu.Unlock()
	if left := w.stream.Leftover(); left != "" {
		w.Errorf("the stream keeps %s", left)
	}
	if running := w.stream.Close(context.Background()); len(running) > 0 {
		w.Errorf("%d items have not ended", len(running))
	}
	for key, requested := range keys {
		rec, err := w.store.Get(context.Background(), key)
		switch {
		case err == nil && rec.Status == store.StatusCompleted && w.effects[key] == 1:
		case err == nil && rec.Owner == "another" && !requested:
		case err == nil && rec.Status == store.StatusFailed && w.effects[key] == 0 && w.letters[key] > 0:
		default:
			w.Errorf("%s is %s (%v) with %d effects and %d dead letters", key, rec.Status, err, w.effects[key], w.letters[key])
		}
	}
}

var errNetwork = errors.New("test: connection reset")

// faultyStore is a memory store that takes 1 ms a request and fails at random: requests are lost, and answers.
type faultyStore struct {
	*memstore.Store

	mu        sync.Mutex
	draws     []int
	taken     map[string]int64 // the token of the last take-over of each key
	forgotten map[string]bool  // owners that may have a claim without knowing it: an answer or a release was lost
}

func (s *faultyStore) fails() bool {
	if len(s.draws) == 0 {
		return false
	}
	n := s.draws[0]
	s.draws = s.draws[1:]
	return n == 0
}

func (s *faultyStore) stolen(key string, token int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken[key] == token
}

// Claim implements store.Store.
func (s *faultyStore) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	pass(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	results := make([]store.ClaimResult, len(reqs))
	for i := range reqs {
		if s.fails() {
			results[i].Err = errNetwork
			continue
		}
		results[i] = s.Store.Claim(ctx, reqs[i:i+1])[0]
		if results[i].Stolen {
			s.taken[reqs[i].Key] = results[i].Entry.Token
		}
		if s.fails() { // the answer is lost
			results[i] = store.ClaimResult{Err: errNetwork}
			s.forgotten[reqs[i].Owner] = true
		}
	}
	return results
}

// Look implements store.Ranger.
func (s *faultyStore) Look(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	pass(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	results := s.Store.Look(ctx, reqs)
	for i := range results {
		if s.fails() {
			results[i] = store.ClaimResult{Err: errNetwork}
		}
	}
	return results
}

// Settle implements store.Store. A settlement is lost only once, so that it is applied before the lease ends.
func (s *faultyStore) Settle(ctx context.Context, ss []store.Settlement) []error {
	pass(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := make([]error, len(ss))
	for i := range ss {
		if s.fails() {
			errs[i] = errNetwork
			s.forgotten[ss[i].Owner] = s.forgotten[ss[i].Owner] || ss[i].Op == store.OpRelease
			continue
		}
		if one := s.Store.Settle(ctx, ss[i:i+1]); one != nil {
			errs[i] = one[0]
		}
		if errs[i] == nil && s.fails() {
			errs[i] = errNetwork
		}
	}
	return errs
}
