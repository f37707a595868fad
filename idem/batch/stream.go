package batch

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/idemsk/idemsk/idem"
)

// Stream handles the items of an endless source. It has a lane for each name as long as the lane has items. Lanes are handled
// concurrently, at most Config.Concurrency items at a time; the items of a lane one after another, in the order of Add.
//
// An item that is not settled is tried again, with exponential backoff and jitter, and not before the delay of idem.RetryAfter
// or the end of the lease of a key in flight elsewhere. It blocks only its lane, and holds no slot meanwhile.
//
// A Stream is safe for concurrent use. The caller must call Close.
type Stream struct {
	scheduler *Scheduler
	session   *idem.Session
	done      func(*Item)
	retry     func(*Item)
	slots     *semaphore.Weighted

	mu     sync.Mutex
	closed bool
	lanes  map[string]*streamLane
	all    []*streamLane // not ended
}

// Stream returns a stream. Its items end when ctx ends: the contexts of handlers end then, and no handler is called any more.
// ctx should have no deadline.
//
// The stream calls done once for each item that is settled, and retry, if it is not nil, each time an item was tried and is not
// settled; Item.Outcome is the outcome. Both are called from any goroutine, but never concurrently for the items of one lane.
// They must not block, and must not call Stop or Close. They may call Add.
func (s *Scheduler) Stream(ctx context.Context, done, retry func(*Item)) *Stream {
	if retry == nil {
		retry = func(*Item) {}
	}
	return &Stream{
		scheduler: s, session: s.engine.Session(ctx), done: done, retry: retry,
		slots: semaphore.NewWeighted(int64(s.concurrency)), lanes: make(map[string]*streamLane),
	}
}

// Add appends items to a lane. It returns at once: the caller bounds the number of items that are in progress. After Close it
// does nothing.
func (st *Stream) Add(lane string, items ...*Item) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closed || len(items) == 0 {
		return
	}
	for _, it := range items {
		it.claim.Task = it.Task
	}
	if l := st.lanes[lane]; l != nil {
		l.items = append(l.items, items...)
		return
	}
	l := &streamLane{stream: st, name: lane, items: items, ended: make(chan struct{})}
	l.ctx, l.stop = context.WithCancel(st.session.Handlers())
	st.lanes[lane] = l
	go l.run()
}

// Stop removes the items of the lanes that match, unless their handlers have begun: their claims are released, and the attempts
// are not counted. It then waits for the items that have begun, until ctx ends, and returns those that have not ended by then.
// done is not called for them afterwards, nor for the items that were removed, but their keys are still settled.
//
// An item that is added to a stopped lane begins a new lane, which does not wait for items of the old one that have begun. If it
// has the key of one of these, it waits for that item and shares its outcome.
func (st *Stream) Stop(ctx context.Context, match func(lane string) bool) (running []*Item) {
	st.mu.Lock()
	var stopped []*streamLane
	for name, l := range st.lanes {
		if match(name) {
			delete(st.lanes, name)
			l.items = nil
			stopped = append(stopped, l)
		}
	}
	st.mu.Unlock()
	for _, l := range stopped {
		l.stop()
		select {
		case <-l.ended:
		case <-ctx.Done():
		}
		st.mu.Lock()
		if l.running != nil {
			l.abandoned = true
			running = append(running, l.running)
		}
		st.mu.Unlock()
	}
	return running
}

// Close stops all lanes as Stop does. When it returns, the contexts of the handlers that still run have ended.
func (st *Stream) Close(ctx context.Context) (running []*Item) {
	st.mu.Lock()
	st.closed = true
	st.mu.Unlock()
	running = st.Stop(ctx, func(string) bool { return true })
	st.session.Close()
	return running
}

// streamLane is a lane of a stream.
type streamLane struct {
	stream *Stream
	name   string
	ctx    context.Context
	stop   context.CancelFunc
	ended  chan struct{}

	// guarded by stream.mu
	items     []*Item
	running   *Item
	abandoned bool
}

func (l *streamLane) next() *Item {
	l.stream.mu.Lock()
	defer l.stream.mu.Unlock()
	l.running = nil
	if len(l.items) == 0 {
		if l.stream.lanes[l.name] == l {
			delete(l.stream.lanes, l.name)
		}
		return nil
	}
	l.running, l.items = l.items[0], l.items[1:]
	return l.running
}

func (l *streamLane) run() {
	defer close(l.ended)
	defer l.stop()
	for it := l.next(); it != nil; it = l.next() {
		for tries := 0; !l.try(it); tries++ {
			l.stream.retry(it)
			select {
			case <-time.After(max(idem.RetryDelay(it.Outcome.Err), 50*time.Millisecond<<min(tries, 10)/2+rand.N(25*time.Millisecond))): //nolint:gosec // jitter
			case <-l.ctx.Done():
				return
			}
		}
		l.stream.mu.Lock()
		abandoned := l.abandoned
		l.stream.mu.Unlock()
		if !abandoned {
			l.stream.done(it)
		}
	}
}

func (l *streamLane) try(it *Item) (settled bool) {
	if l.stream.slots.Acquire(l.ctx, 1) != nil {
		return false
	}
	defer l.stream.slots.Release(1)
	it.claim.TakeOver = true
	l.stream.session.Claim([]*idem.Claim{&it.claim})
	it.Outcome = l.stream.session.Run(&it.claim)
	if it.refuse(&it.Outcome) && it.replace() {
		return false
	}
	return it.Outcome.Kind.Settled()
}
