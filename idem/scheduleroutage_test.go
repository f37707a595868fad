package idem_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// outage is a run of items whose handler needs something that is down for a time.
type outage struct {
	*testing.T
	scheduler *idem.Scheduler
	calls     *idem.Scheduler // with handleAll
	begins    time.Time
	ends      time.Time
	bad       map[string]bool // keys that always fail
	throws    bool            // the handler fails as a whole, after effects that take place again

	mu      sync.Mutex
	effects map[string]int
	dead    map[string]bool
	settled map[string]bool
	left    time.Time // when the last item was settled
}

// outages returns the hosts, with their number of lanes.
func outages() map[string]outageHost {
	return map[string]outageHost{
		"a stream of 200 lanes":          {200, (*outage).stream},
		"a stream of 6 lanes":            {6, (*outage).stream},
		"batches of records, 100 lanes":  {100, (*outage).batches},
		"batches of records, 6 lanes":    {6, (*outage).batches},
		"batches for a bulk handler":     {100, func(o *outage, items []*idem.Item) { o.bulks(items, false) }},
		"batches for one that throws":    {100, func(o *outage, items []*idem.Item) { o.bulks(items, true) }},
		"bulk batches, in order":         {1, func(o *outage, items []*idem.Item) { o.bulks(items, false) }},
		"a stream of one lane, in order": {1, (*outage).stream},
		"batches of records, in order":   {1, (*outage).batches},
	}
}

type outageHost struct {
	lanes int
	run   func(o *outage, items []*idem.Item)
}

// An outage of what the handler needs makes no dead letter, and its items are soon settled afterwards. Items
// that always fail become dead letters.
func TestOutagesMakeNoDeadLetters(t *testing.T) {
	for host, h := range outages() {
		for _, lasts := range []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute} {
			for _, bad := range []int{0, 10} {
				if bad == 0 && lasts != time.Minute { // for the time that it takes
					continue
				}
				t.Run(fmt.Sprintf("%s/%v, %d bad", host, lasts, bad), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						testOutage(newOutage(t, time.Second/5, lasts), h, lasts, bad)
					})
				})
			}
		}
	}
}

func testOutage(o *outage, h outageHost, lasts time.Duration, bad int) {
	const items = 400
	if h.lanes == 1 {
		bad = min(bad, idem.Defaults().OutageFailures-1) // more would be left alone, and look like an outage
	}
	keys := numbered(items)
	for i := range bad {
		o.bad[keys[i*items/bad+3*i+10]] = true // each in another lane
	}
	all := o.items(items)
	for i, it := range all {
		it.Lane = fmt.Sprint("lane", i%h.lanes)
	}
	h.run(o, all)
	o.check(items, h.lanes, lasts)
}

func newOutage(t *testing.T, in, lasts time.Duration) *outage {
	t.Helper()
	engine, err := idem.New(memstore.New(memstore.Config{BatchSize: 25}), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	o := &outage{
		T: t, begins: time.Now().Add(in), effects: map[string]int{}, dead: map[string]bool{},
		settled: map[string]bool{}, bad: map[string]bool{},
	}
	o.ends = o.begins.Add(lasts)
	if o.scheduler, err = idem.NewScheduler(engine, idem.SchedulerConfig{}); err != nil {
		t.Fatal(err)
	}
	if o.calls, err = idem.NewScheduler(engine, idem.SchedulerConfig{Bulk: o.handleAll}); err != nil {
		t.Fatal(err)
	}
	return o
}

// handleAll is a bulk handler.
func (o *outage) handleAll(ctx context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
	results := make([]idem.BulkResult, len(items))
	for i, it := range items {
		err := ctx.Err()
		if err == nil {
			err = o.handle(it.Task.Key)
		}
		if err != nil && o.throws {
			return nil, err
		}
		results[i].Err = err
	}
	return results, nil
}

func (o *outage) check(items, lanes int, lasts time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lost := 0
	for key := range o.dead {
		if !o.bad[key] {
			lost++
		}
	}
	// Fewer than five lanes whose first items are new can't be told from bad items, before some of them have
	// used their attempts.
	few := lanes < 5 || lanes < 20 && len(o.bad) > 0
	if lost > 0 && (!few || lasts <= time.Minute || lost >= 5) {
		o.Errorf("%d good items are dead letters", lost)
	}
	for key := range o.bad {
		if !o.dead[key] {
			o.Errorf("%s is not a dead letter", key)
		}
	}
	equal(o.T, "settled items", len(o.settled), items)
	for key, n := range o.effects {
		if n > 2 || n > 1 && !o.throws {
			o.Errorf("%s took effect %d times", key, n)
		}
	}
	o.Logf("all were settled %v after the outage; %d good items are dead letters",
		o.left.Sub(o.ends).Round(time.Second), lost)
	if after := o.left.Sub(o.ends); len(o.bad) == 0 && after > 2*min(lasts, time.Minute)+10*time.Second {
		o.Errorf("the last item was settled %v after the outage", after)
	}
}

func (o *outage) items(n int) []*idem.Item {
	items := make([]*idem.Item, n)
	for i, key := range numbered(n) {
		items[i] = o.item(key)
	}
	return items
}

func (o *outage) item(key string) *idem.Item {
	it := &idem.Item{Task: idem.Task{Key: key, Source: key, Fingerprint: store.FingerprintOf([]byte(key))}}
	it.Task.Handler = idem.HandlerFunc(func(context.Context) ([]byte, error) { return nil, o.handle(key) })
	it.Task.DeadLetters = idem.DeadLetterFunc(func(context.Context, idem.DeadLetter) error {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.dead[key] = true
		return nil
	})
	return it
}

func (o *outage) handle(key string) error {
	pass(10 * time.Millisecond)
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); o.bad[key] || !now.Before(o.begins) && now.Before(o.ends) {
		return errBoom
	}
	o.effects[key]++
	return nil
}

func (o *outage) done(it *idem.Item) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settled[it.Task.Key], o.left = true, time.Now()
}

func (o *outage) stream(items []*idem.Item) {
	st := o.scheduler.Stream(o.Context(), o.done, nil)
	st.Add(items...)
	for range 3600 {
		pass(time.Second)
		o.mu.Lock()
		n := len(o.settled)
		o.mu.Unlock()
		if n == len(items) {
			break
		}
	}
	st.Close(o.Context())
}

// deliver delivers the first unsettled items again and again, as an event source does.
func (o *outage) deliver(items []*idem.Item, run func(context.Context, []*idem.Item)) {
	for n := 0; len(items) > 0 && n < 7200; n++ {
		batched := make([]*idem.Item, min(200, len(items)))
		for i := range batched {
			batched[i] = o.item(items[i].Task.Key)
			batched[i].Lane = items[i].Lane
		}
		ctx, cancel := context.WithTimeout(o.Context(), time.Minute)
		run(ctx, batched)
		cancel()
		for _, it := range batched {
			if it.Settled() {
				o.done(it)
			}
		}
		items = slices.DeleteFunc(items, func(it *idem.Item) bool { return o.settled[it.Task.Key] })
		pass(max(time.Second/5, o.ends.Sub(o.begins)/50))
	}
}

func (o *outage) batches(items []*idem.Item) {
	o.deliver(items, func(ctx context.Context, items []*idem.Item) {
		o.scheduler.Run(ctx, lanesOf(items))
	})
}

// lanesOf returns the items by their lanes.
func lanesOf(items []*idem.Item) [][]*idem.Item {
	byLane := map[string][]*idem.Item{}
	var names []string
	for _, it := range items {
		if byLane[it.Lane] == nil {
			names = append(names, it.Lane)
		}
		byLane[it.Lane] = append(byLane[it.Lane], it)
	}
	lanes := make([][]*idem.Item, len(names))
	for i, name := range names {
		lanes[i] = byLane[name]
	}
	return lanes
}

func (o *outage) bulks(items []*idem.Item, throws bool) {
	o.throws = throws
	o.deliver(items, func(ctx context.Context, items []*idem.Item) {
		o.calls.Run(ctx, lanesOf(items))
	})
}

// What an outage has held back is handled in the invocation in which it ends.
func TestItemsAreHandledInTheInvocationInWhichAnOutageEnds(t *testing.T) {
	for name, run := range map[string]func(o *outage, items []*idem.Item){
		"records": func(o *outage, items []*idem.Item) {
			o.scheduler.Run(o.Context(),
				[][]*idem.Item{items[:3], items[3:5], items[5:7], items[7:8], items[8:9], items[9:]})
		},
		"a bulk handler": func(o *outage, items []*idem.Item) {
			o.calls.Run(o.Context(), unordered(items))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutage(t, 0, time.Second)
				run(o, o.items(10))
				pass(3 * time.Second)
				items := o.items(20)[10:]
				run(o, items)
				for _, it := range items {
					equal(t, it.Task.Key+" is settled", it.Settled(), true)
				}
			})
		})
	}
}

// A success in a call says that what the handler needs is up: the errors of the others are theirs.
func TestErrorsBesideASuccessAreNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, time.Hour, 0)
		items := o.items(11)
		for _, it := range items[:10] {
			o.bad[it.Task.Key] = true
		}
		o.calls.Run(t.Context(), unordered(items))
		for i, it := range items {
			equal(t, it.Task.Key, it.Outcome.Kind,
				map[bool]idem.Kind{true: idem.Retry, false: idem.Executed}[i < 10])
		}
	})
}
