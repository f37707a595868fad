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
	holds   bool           // a slot, for its first item
	stopped atomic.Bool    // an item is not settled: what comes behind must not overtake it
	pending sync.WaitGroup // items whose completion is on its way
	done    bool           // the lane has ended, as the run knows
	latency estimate       // of this lane's items

	mu     sync.Mutex // guards claimed and begun of its items
	closed bool       // none begins any more: the run reads what is known; guarded by mu
}

// runToEnd runs the lane, and tells its end: also of one whose handler ends its goroutine.
func (l *lane) runToEnd(ended chan<- *lane) {
	defer func() { ended <- l }()
	l.work()
}

// work processes the lane up to the first item that is not settled, gives back what was claimed behind it, and returns when
// nothing of it is left under way.
func (l *lane) work() {
	defer l.pending.Wait()
	defer l.giveBack()
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

var errExited = errors.New("the handler ended its goroutine (runtime.Goexit): the key stays taken until its lease is over")

// begin reports whether an item may begin: not if the run has given the lane up before.
func (l *lane) begin(it *Item) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	it.begun = true
	it.Outcome.Kind, it.Outcome.Err = idem.Retry, errExited // if the handler never comes back here
	return true
}

// close has an item, and those behind it, not begin any more. It is false if the item has begun.
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

// abandon gives up the lane: its first item that has not ended, and all behind it, unless it has stopped before that one.
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
	return l.withSlots(1, func() idem.Outcome { return l.run.session.RunUnprotected(&it.ticket.Task) })
}

// runGrouped processes an item, or takes the outcome of another one of the batch that makes the same request. No claims are
// prefetched across it: while it waits for its turn, the lane holds none that it has not begun.
func (l *lane) runGrouped(it *Item) idem.Outcome {
	l.letGo() // others get on meanwhile

	r := requestOf(&it.Task) // before another task may take its place
	out, ok, err := it.group.enter(l.run.ctx, r)
	switch {
	case err != nil:
		return notStarted(err)
	case ok:
		it.Duplicate = true
		return out
	}
	out.Kind, out.Err = idem.Retry, errExited
	// What a substitute comes to is its own. Deferred for handlers that end their goroutine.
	defer func() { it.group.leave(r, out, !it.replaced) }()
	out = l.process(it)
	return out
}

// runPrefetched processes an item whose claim may have been made ahead with others, and leaves its completion to be gathered.
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
		l.giveBack() // nobody shall wait for what this lane has not begun
		l.run.slots.Release(1)
		l.end(it, l.process(it))
		return
	}
	if l.start(it); it.refused {
		l.giveBack()
		l.end(it, l.refused(it))
	}
}

// start runs a claimed item, and gives the lane's slot back when its handler has returned. Its outcome comes with that, or
// later; or its key was refused: that is known when RunAsync returns, also where the claim goes with the completion.
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
	l.run.session.RunAsync(&it.ticket, func(out idem.Outcome) {
		defer l.pending.Done()
		if !it.refuse(&out) {
			l.end(it, out)
		}
	})
	returned = true
}

// process takes an item from its claim, which may have been made, to its outcome.
func (l *lane) process(it *Item) idem.Outcome {
	out := l.claimAndRun(it)
	if it.refuse(&out) {
		return l.refused(it)
	}
	return out
}

// refused processes an item whose key was refused.
func (l *lane) refused(it *Item) idem.Outcome {
	if !it.replace() {
		return it.Outcome
	}
	return l.claimAndRun(it)
}

// withSlots calls f while the lane holds n of the slots.
func (l *lane) withSlots(n int64, f func() idem.Outcome) idem.Outcome {
	if err := l.acquire(n); err != nil {
		return notStarted(err)
	}
	defer l.run.slots.Release(n)
	return f()
}

// acquire takes n slots; the first item is always begun with one.
func (l *lane) acquire(n int64) error {
	if l.holds && n == 1 {
		l.holds = false
		return nil
	}
	l.letGo()
	return l.run.slots.Acquire(l.run.ctx, n)
}

// letGo gives the lane's slot back.
func (l *lane) letGo() {
	if l.holds {
		l.holds = false
		l.run.slots.Release(1)
	}
}
