package batch

import (
	"errors"
	"slices"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// streamItem is an item of a stream. Its fields are guarded by Stream.mu, except those of Item while the item
// is handled.
type streamItem struct {
	*Item
	lane   *streamLane
	number uint64 // its place in its lane
	phase  itemPhase
	sent   time.Time // when its claim was sent

	tries      int
	notBefore  time.Time // when it may be tried again
	held       bool      // it waits because of an outage
	unreported bool      // retry has not been called for its last outcome
	removed    bool      // by Stop: nothing is called for it any more

	open     bool // it is in lane.open
	returned bool // its handler has returned
	known    bool // its outcome is known
	// it returns to its lane without an outcome, for example with another task (Item.Substitute)
	again   bool
	key     string // the key that it uses
	sharers []*streamItem
	waiting []*streamLane // lanes whose next item has its key, and does not share its outcome yet
}

// itemPhase is where an item is between Add and its end.
type itemPhase uint8

const (
	queued    itemPhase = iota // its claim has not been sent, or was released
	claiming                   // its claim is in progress
	claimed                    // its claim was answered
	releasing                  // its claim is being released
	sharing                    // it takes the outcome of the item that uses its key
	shared                     // it has that outcome
	begun                      // its handler was called, or it was settled without
)

// streamLane is a lane of a stream. Its fields are guarded by Stream.mu.
type streamLane struct {
	stream  *Stream
	name    string
	within  *streamRange // nil if its items have none
	state   laneState
	touched bool          // in Stream.touched
	number  uint64        // of the last item added
	queue   []*streamItem // have not begun, in order
	open    []*streamItem // have begun and not ended, in no order
	calls   int           // claims, releases and calls of retry in progress for its items
	timer   *time.Timer   // ends a pause
	latency estimate
	stopped chan struct{} // nil until Stop, closed when nothing of the lane is in progress

	// claims; see streamclaims.go
	sent   int  // the items before this index need no claim
	ahead  int  // items of the queue that are claiming or claimed
	barred bool // no claims can be sent until the next item begins or a release has ended
	wanted int  // how many claims can be sent
	listed bool // in streamClaims.lanes
	needs  bool // counted in streamClaims.needed

	notices  fifo[*streamItem] // items for which done or retry is to be called
	noticing bool              // a goroutine does so
	current  *streamItem       // the item of the call in progress
	quiet    chan struct{}     // closed when that call has ended, if not nil
}

// laneState is what a lane waits for.
type laneState uint8

const (
	laneIdle    laneState = iota // an item, or the claim of its next item
	laneReady                    // a worker
	laneRunning                  // a handler
	lanePaused                   // the time when its next item may be tried
	laneWaiting                  // another item with the key of its next item
	laneSuspect                  // to run its next item alone
)

func (l *streamLane) append(it *Item) {
	l.number++
	l.queue = append(l.queue, &streamItem{Item: it, lane: l, number: l.number})
}

// pop removes the next item.
func (l *streamLane) pop() *streamItem {
	it := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.sent, l.barred = max(0, l.sent-1), false
	return it
}

// touch lets advance look at the lane. It is called after every change of the lane.
func (l *streamLane) touch() {
	if !l.touched {
		l.touched = true
		l.stream.touched.push(l)
	}
}

// schedule decides what the lane does next, if that is not decided.
func (l *streamLane) schedule() {
	l.touched = false
	if l.state == laneIdle {
		l.state = l.decide()
	}
	l.list()
	l.endIfEmpty()
}

func (l *streamLane) decide() laneState {
	for len(l.queue) > 0 {
		it := l.queue[0]
		switch wait := it.mustWait(); {
		case it.unreported:
			return laneIdle
		case wait > 0:
			return l.pause(wait)
		case it.phase == shared:
			l.enter(l.pop())
			l.notice(it)
		case it.phase == sharing:
			l.enter(l.pop())
		case it.phase == claimed:
			return l.decideClaimed(it)
		case it.phase != queued:
			return laneIdle
		case it.Unprotected:
			return l.isReady()
		default:
			switch user := l.stream.keys[it.claim.Task.Key]; {
			case user == nil || user == it:
				l.sent, l.barred = 0, false
				return laneIdle // until it is claimed
			case user.returned && user.sharesWith(it):
				user.share(it)
			default:
				user.waiting = append(user.waiting, l)
				l.state = laneWaiting
				l.unclaim()
				return l.state
			}
		}
	}
	return laneIdle
}

// mustWait returns how long the item must not be tried.
func (it *streamItem) mustWait() time.Duration {
	if it.notBefore.IsZero() {
		return 0
	}
	return time.Until(it.notBefore)
}

func (l *streamLane) decideClaimed(it *streamItem) laneState {
	switch it.claim.State() {
	case store.ClaimLeaseOver:
		l.state = laneSuspect
		l.stream.isolate(l)
		return l.state
	case store.ClaimInFlight:
		if wait, ok := l.stream.session.WaitTime(&it.claim); ok {
			it.notBefore = time.Now().Add(wait)
			return l.pause(wait)
		}
	case store.ClaimUnknown, store.Claimed, store.ClaimCompleted, store.ClaimFailed:
	}
	return l.isReady()
}

func (l *streamLane) isReady() laneState {
	l.stream.ready.push(l)
	return laneReady
}

// pause releases the lane's claims, because other owners must not wait for items that have not begun.
func (l *streamLane) pause(d time.Duration) laneState {
	l.state = lanePaused
	l.unclaim()
	l.timer = time.AfterFunc(d, l.resume)
	return l.state
}

func (l *streamLane) resume() {
	st := l.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	l.wake(lanePaused)
	st.proceed()
}

// wake decides anew what a lane does that waits in a state.
func (l *streamLane) wake(from laneState) {
	if l.state == from {
		l.state = laneIdle
		l.touch()
	}
}

// begin removes the next item and counts it as in progress.
func (l *streamLane) begin() *streamItem {
	it := l.pop()
	if it.phase == claimed {
		l.countAhead(-1)
	}
	it.phase, it.returned, it.known, it.again, it.Duplicate = begun, false, false, false, false
	l.enter(it)
	l.state = laneRunning
	l.stream.running++
	l.touch()
	return it
}

// enter counts an item as in progress.
func (l *streamLane) enter(it *streamItem) {
	it.open = true
	l.open = append(l.open, it)
}

// leave counts an item as not in progress any more.
func (l *streamLane) leave(it *streamItem) {
	it.open = false
	i := slices.Index(l.open, it)
	last := len(l.open) - 1
	l.open[i] = l.open[last]
	l.open[last] = nil
	l.open = l.open[:last]
}

// putBack returns an item that has begun to its place in the queue, unless the lane is stopped.
func (l *streamLane) putBack(it *streamItem) {
	l.leave(it)
	it.phase, it.returned = queued, false
	if l.stopped != nil {
		return
	}
	l.unclaim()
	i := slices.IndexFunc(l.queue, func(other *streamItem) bool { return other.number > it.number })
	if i < 0 {
		i = len(l.queue)
	}
	l.queue = slices.Insert(l.queue, i, it)
	l.sent, l.barred = 0, false
	if l.state == laneWaiting {
		l.state = laneIdle
	}
}

// notice queues the call of done or retry for an item.
func (l *streamLane) notice(it *streamItem) {
	l.notices.push(it)
	if l.notices.len() == 1 {
		l.stream.noticed = append(l.stream.noticed, l)
	}
}

// conclude notices an item that is settled, and returns another to the queue.
func (l *streamLane) conclude(it *streamItem) {
	if it.Outcome.Kind.Settled() {
		l.notice(it)
		l.stream.endOutage()
		return
	}
	if it.held = errors.Is(it.Outcome.Err, idem.ErrHandlerDown); it.held {
		l.stream.hold()
	}
	if it.heldBack() {
		it.notBefore = time.Now().Add(it.Outcome.RetryIn)
		l.putBack(it)
		return
	}
	it.tries++
	it.notBefore = time.Now().Add(max(l.stream.scheduler.cfg.pauseFor(it.tries), it.Outcome.RetryIn))
	l.putBack(it)
	l.report(it)
}

// report notices an outcome that is not settled. The item does not begin before retry has returned.
func (l *streamLane) report(it *streamItem) {
	it.unreported = true
	l.calls++
	l.notice(it)
}

// deliver calls done or retry for the lane's items that have been noticed. Stream.mu is held, but not during
// the calls.
func (l *streamLane) deliver() {
	l.noticing = true
	for l.notices.len() > 0 {
		it := l.notices.pop()
		settled := it.Outcome.Kind.Settled()
		if !it.removed {
			l.call(it, settled)
		}
		if settled {
			l.leave(it)
		} else {
			l.calls--
			it.unreported = false
			it.retask()
		}
		l.touch()
	}
	l.noticing = false
}

// retask lets an item be tried with the task that retry has set.
func (it *streamItem) retask() {
	if !it.replaced && it.Task.Key != it.claim.Task.Key {
		it.claim = idem.Claim{Task: it.Task}
	}
}

func (l *streamLane) call(it *streamItem, settled bool) {
	st := l.stream
	l.current = it
	st.mu.Unlock()
	defer func() {
		st.mu.Lock()
		l.current = nil
		if l.quiet != nil {
			close(l.quiet)
			l.quiet = nil
		}
	}()
	if settled {
		st.done(it.Item)
	} else {
		st.retry(it.Item)
	}
}

// stop removes the items that have not begun, and the lane from the stream.
func (l *streamLane) stop() {
	delete(l.stream.lanes, l.name)
	l.stopped = make(chan struct{})
	for _, it := range l.queue {
		it.removed = true
	}
	if l.state != laneRunning {
		l.state = laneIdle
	}
	l.unclaim()
	l.queue = nil
	if l.timer != nil {
		l.timer.Stop()
	}
	l.touch()
}

// abandon returns the items that are in progress, for which done and retry are not called any more.
func (l *streamLane) abandon() (running []*Item) {
	l.stream.mu.Lock()
	slices.SortFunc(l.open, func(a, b *streamItem) int { return int(a.number) - int(b.number) })
	for _, it := range l.open {
		if it != l.current {
			it.removed, it.State = true, Overrun
			running = append(running, it.Item)
		}
	}
	var quiet chan struct{}
	if l.current != nil {
		quiet = make(chan struct{})
		l.quiet = quiet
	}
	l.stream.mu.Unlock()
	if quiet != nil {
		<-quiet
	}
	return running
}

// endIfEmpty ends the lane if it has no items.
func (l *streamLane) endIfEmpty() {
	if len(l.queue) > 0 || len(l.open) > 0 || l.calls > 0 {
		return
	}
	switch {
	case l.stopped == nil:
		if l.stream.lanes[l.name] == l {
			delete(l.stream.lanes, l.name)
		}
	case !isClosed(l.stopped):
		close(l.stopped)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
