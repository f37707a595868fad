package batch

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idemsk/idemsk/idem"
)

// lane is a sequence of items whose handlers are called one after another.
type lane struct {
	run     *run
	items   []*Item
	holds   bool           // the lane holds a slot for its first item
	stopped atomic.Bool    // an item is not settled, so later items must not run
	pending sync.WaitGroup // items whose completion is not confirmed
	done    bool           // the run has received the lane's end
	latency estimate       // of this lane's items

	mu     sync.Mutex // guards claimed and begun of its items
	closed bool       // no item may begin any more, because the run reads the outcomes; guarded by mu
}

// runToEnd runs the lane and then sends it on ended, also if a handler ends its goroutine.
func (l *lane) runToEnd(ended chan<- *lane) {
	defer func() { ended <- l }()
	l.work()
}

// work processes the items up to the first that is not settled, releases the unused claims, and returns when
// nothing of the lane is in progress.
func (l *lane) work() {
	defer l.pending.Wait()
	defer l.run.worked()
	defer l.releaseClaims()
	l.waitForRange()
	for i, it := range l.items {
		if l.stopped.Load() {
			return
		}
		switch {
		case it.group == nil && !it.Unprotected:
			l.runPrefetched(i)
		case !l.begin(it):
			return
		case it.group != nil:
			l.end(it, l.runGrouped(it))
		default:
			l.end(it, l.runUnprotected(it))
		}
	}
}

// worked sends the completions that wait to be sent with others, if no handler of any lane will follow.
func (r *run) worked() {
	if r.working.Add(-1) == 0 {
		r.session.Flush()
	}
}

var errExited = errors.New("the handler ended its goroutine (runtime.Goexit): the key stays claimed until its lease is over")

// begin reports whether an item may begin; false if the run has abandoned the lane.
func (l *lane) begin(it *Item) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	it.begun = true
	it.Outcome.Kind, it.Outcome.Err = idem.Retry, errExited // if the handler ends its goroutine
	return true
}

// close stops an item, and those after it, from beginning. It is false if the item has begun.
func (l *lane) close(it *Item) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = !it.begun
	return l.closed
}

func (l *lane) end(it *Item, out idem.Outcome) {
	it.Outcome = out
	if !out.Kind.Settled() {
		l.stopped.Store(true)
	}
	it.completed.Store(true)
}

// abandon marks the lane's first item that has not ended as an overrun, and the items after it as behind it.
// It does nothing if the lane stopped before that item.
func (l *lane) abandon() (overruns []*Item) {
	for i, it := range l.items {
		if it.completed.Load() {
			continue
		}
		if l.stopped.Load() && l.close(it) {
			return nil
		}
		it.State = Overrun
		for _, behind := range l.items[i+1:] {
			behind.State = BehindOverrun
		}
		return []*Item{it}
	}
	return nil
}

func (l *lane) runUnprotected(it *Item) idem.Outcome {
	return l.withSlots(1, func() idem.Outcome { return l.run.session.RunUnprotected(&it.claim.Task) })
}

// runGrouped processes an item, or takes the outcome of another item of the batch that makes the same
// request. The lane holds no prefetched claims while the item waits.
func (l *lane) runGrouped(it *Item) idem.Outcome {
	l.releaseSlot() // so that other lanes can run meanwhile

	r := requestOf(&it.Task) // before a substitute replaces the task
	out, ok, err := it.group.enter(l.run.ctx, r)
	switch {
	case err != nil:
		return notStarted(err)
	case ok:
		it.Duplicate = true
		return out
	}
	out.Kind, out.Err = idem.Retry, errExited
	// The outcome of a substitute is not shared. Deferred for handlers that end their goroutine.
	defer func() { it.group.leave(r, out, !it.replaced) }()
	out = l.process(it)
	return out
}

// runPrefetched processes an item whose claim may have been prefetched. Its completion is sent with others.
func (l *lane) runPrefetched(i int) {
	it := l.items[i]
	if err := l.acquire(1); err != nil {
		l.end(it, notStarted(err))
		return
	}
	if !l.begin(it) {
		l.run.slots.Release(1)
		return
	}
	l.claimFrom(i)
	if it.waits() {
		l.releaseClaims() // other owners must not wait for items that have not begun
		l.run.slots.Release(1)
		l.end(it, l.process(it))
		return
	}
	if l.start(it); it.refused {
		l.releaseClaims()
		l.end(it, l.refused(it))
	}
}

// start runs an item and releases the lane's slot when its handler has returned. The item's outcome is set
// then or later. If the key was refused, that is known when RunAsync returns, also if the completion claims
// the key.
func (l *lane) start(it *Item) {
	defer l.run.slots.Release(1)
	l.pending.Add(1)
	returned := false
	began := time.Now()
	defer func() {
		took := time.Since(began)
		l.latency.note(took)
		l.run.scheduler.latency.note(took)
		if !returned { // the handler has ended its goroutine
			l.pending.Done()
		}
	}()
	l.run.session.RunAsync(&it.claim, func(out idem.Outcome) {
		defer l.pending.Done()
		if !it.refuse(&out) {
			l.end(it, out)
		}
	})
	returned = true
}

// process claims an item, if that has not been done, and runs it.
func (l *lane) process(it *Item) idem.Outcome {
	out := l.claimAndRun(it)
	if it.refuse(&out) {
		return l.refused(it)
	}
	return out
}

// refused processes the substitute of an item whose key was refused.
func (l *lane) refused(it *Item) idem.Outcome {
	if !it.replace() {
		return it.Outcome
	}
	return l.claimAndRun(it)
}

// withSlots calls f while the lane holds n slots.
func (l *lane) withSlots(n int64, f func() idem.Outcome) idem.Outcome {
	if err := l.acquire(n); err != nil {
		return notStarted(err)
	}
	defer l.run.slots.Release(n)
	return f()
}

// acquire takes n slots. The lane may already hold the one for its first item.
func (l *lane) acquire(n int64) error {
	if l.holds && n == 1 {
		l.holds = false
		return nil
	}
	l.releaseSlot()
	return l.run.slots.Acquire(l.run.ctx, n)
}

// releaseSlot releases the lane's slot.
func (l *lane) releaseSlot() {
	if l.holds {
		l.holds = false
		l.run.slots.Release(1)
	}
}
