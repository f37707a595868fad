package batch

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/idemsk/idemsk/idem"
)

// Stream handles the items of an endless source. It has a lane for each name as long as the lane has items.
// Lanes are handled concurrently, at most Config.Concurrency items at a time, and take turns. The items of a
// lane are handled one after another, in the order of Add.
//
// An item that is not settled is tried again after a backoff (see Config.Backoff), and not before the delay
// of idem.RetryAfter. An item whose key is in flight elsewhere waits for it. Both block their lane only, and
// hold no slot. While the store is unavailable no handler is called, unless the engine fails open, and one
// request at a time tries the store.
//
// Items whose key is in progress in the stream wait for that item, and take its outcome if they make the same
// request.
//
// A Stream is safe for concurrent use. The caller must call Close.
type Stream struct {
	scheduler *Scheduler
	session   *idem.Session
	done      func(*Item)
	retry     func(*Item)
	batch     int // how many claims a request of the store takes

	mu       sync.Mutex
	closed   bool
	lanes    map[string]*streamLane
	touched  fifo[*streamLane] // to be looked at
	noticed  []*streamLane     // with notices to deliver
	ready    fifo[*streamLane]
	suspects fifo[*streamLane] // whose next item's key has an owner whose lease is over
	alone    bool              // a suspect is being handled
	running  int               // handlers
	workers  int
	idle     int        // workers that wait for an item
	wake     *sync.Cond // wakes an idle worker
	starting bool       // a worker was started or woken, and has not looked for an item

	ranges map[string]*streamRange
	over   chan struct{} // closed at the end of Close

	outage streamOutage
	keys   map[string]*streamItem // the item that uses each key: it is claimed, or in progress
	claims streamClaims
}

// Stream returns a stream. It ends when ctx ends: the contexts of handlers end then, and no handler is called
// any more. ctx should have no deadline.
//
// The stream calls done once for each item that is settled, and retry, if it is not nil, each time an item
// was tried and is not settled. Item.Outcome is the outcome. retry may set an Item.Task with another key,
// with which the item is tried next. Both are called from any goroutine except those that call the stream's
// methods, never concurrently for the items of one lane. They must not block, and must not call Stop or
// Close.
func (s *Scheduler) Stream(ctx context.Context, done, retry func(*Item)) *Stream {
	if retry == nil {
		retry = func(*Item) {}
	}
	st := &Stream{
		scheduler: s, session: s.engine.Session(ctx), done: done, retry: retry,
		batch: s.engine.PrefetchSize(),
		lanes: make(map[string]*streamLane), keys: make(map[string]*streamItem),
		ranges: make(map[string]*streamRange), over: make(chan struct{}),
	}
	st.wake = sync.NewCond(&st.mu)
	return st
}

// Add appends items to their lanes (Item.Lane). It returns at once: the caller bounds the number of items
// that are in progress. After Close it does nothing. One call for many items costs less than one for each.
func (st *Stream) Add(items ...*Item) {
	for _, it := range items {
		it.claim.Task = it.Task
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closed {
		return
	}
	for _, it := range items {
		l := st.lanes[it.Lane]
		if l == nil {
			l = &streamLane{stream: st, name: it.Lane, within: st.rangeOf(it)}
			st.lanes[it.Lane] = l
		}
		if l.within != nil {
			l.within.last = max(l.within.last, it.Position)
		}
		l.append(it)
		l.touch()
	}
	st.advance()
}

// Stop removes the items of the lanes that match, unless their handlers have begun: their claims are
// released, and the attempts are not counted. It then waits for the items that have begun, until ctx ends,
// and returns those that have not ended by then. done and retry are not called for the returned items after
// Stop has returned, nor for the items that were removed. The keys of the returned items are still settled.
// An item whose handler returns meanwhile, but which is not settled, is removed.
//
// An item that is added to a stopped lane begins a new lane, which does not wait for items of the old one
// that have begun. If it has the key of one of these, it waits for that item.
//
// Stop also ends the ranges with these keys, of which all lanes must match: their leases are released when
// all items that have begun have ended, also after Stop has returned. An item of the range that is added
// later waits for that.
func (st *Stream) Stop(ctx context.Context, match func(lane string) bool,
	ranges ...string) (running []*Item) {
	st.mu.Lock()
	var stopped []*streamLane
	for name, l := range st.lanes {
		if match(name) {
			stopped = append(stopped, l)
		}
	}
	ended := st.stopRanges(ranges, stopped)
	for _, l := range stopped {
		l.stop()
	}
	for _, r := range ended {
		go r.leave()
	}
	st.advance()
	st.mu.Unlock()
	defer func() {
		for _, r := range ended {
			select {
			case <-r.left:
			case <-ctx.Done():
			}
		}
	}()
	for _, l := range stopped {
		select {
		case <-l.stopped:
		case <-ctx.Done():
			running = append(running, l.abandon()...)
		}
	}
	return running
}

// Close stops all lanes as Stop does, and ends the stream. The contexts of the handlers that still run have
// ended when it returns. Their keys are not settled, and stay claimed until their leases end.
func (st *Stream) Close(ctx context.Context) (running []*Item) {
	st.mu.Lock()
	st.closed = true
	st.wake.Broadcast() // ends the workers
	ranges := slices.Collect(maps.Keys(st.ranges))
	st.mu.Unlock()
	running = st.Stop(ctx, func(string) bool { return true }, ranges...)
	st.mu.Lock()
	st.claims.stop()
	st.outage.stop()
	if !isClosed(st.over) {
		close(st.over)
	}
	st.mu.Unlock()
	st.session.Close()
	return running
}

// EachRetrying calls f once for each lane that waits, with the item that will be tried again. f must not call
// the stream's methods.
func (st *Stream) EachRetrying(f func(*Item)) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, l := range st.lanes {
		if len(l.queue) > 0 && l.queue[0].tries > 0 && !l.queue[0].unreported {
			f(l.queue[0].Item)
		}
	}
}

// ended reports whether nothing may begin any more; st.mu is held.
func (st *Stream) ended() bool { return st.closed || st.session.Handlers().Err() != nil }

// advance starts what can be done now: requests for claims and releases, and workers. st.mu is held.
func (st *Stream) advance() {
	for {
		for st.touched.len() > 0 {
			st.touched.pop().schedule()
		}
		st.sendReleases()
		st.sendClaims()
		st.startWorker()
		if st.touched.len() == 0 {
			return
		}
	}
}

// proceed starts what can be done, and calls done and retry for the items that have been noticed. st.mu is
// held, but not during the calls.
func (st *Stream) proceed() {
	st.advance()
	for len(st.noticed) > 0 {
		l := st.noticed[len(st.noticed)-1]
		st.noticed = st.noticed[:len(st.noticed)-1]
		if !l.noticing {
			l.deliver()
			st.advance()
		}
	}
}

// fifo is a queue. The zero value is empty.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) push(item T) { q.items = append(q.items, item) }

// pop removes the first element, which must exist.
func (q *fifo[T]) pop() T {
	var zero T
	item := q.items[q.head]
	q.items[q.head] = zero
	if q.head++; 2*q.head >= len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return item
}
