package machine

import (
	"cmp"
	"slices"
	"time"
)

// Lane is a sequence of items that begin one after another, or several at once in one call of a bulk handler.
type Lane struct {
	machine *Machine
	name    string
	state   laneState
	touched bool    // in machine.touched
	queue   []*Item // have not begun, in order
	open    []*Item // have begun and not ended, in no order
	running int     // items whose handlers have not returned
	pending int     // claims, releases and reports in progress for its items
	pause   alarm
	Latency Estimate // of the handlers of its items
	stopped bool     // it takes no more items
	over    bool     // it has ended

	// claims; see claims.go
	sent   int  // the items before this index need no claim
	ahead  int  // items of the queue that are claiming or claimed
	barred bool // no claims can be sent until the next item begins or a release has ended
	wanted int  // how many claims can be sent
	listed bool // in claims.lanes
	needs  bool // counted in claims.needed

	reports   Queue[Action] // to be done
	reporting bool          // one is in progress

	// Of the driver: the item of that report, what is closed when it has ended, and what is closed when the lane has
	// ended.
	Reporting    *Item
	Quiet, Ended chan struct{}
}

// laneState is what a lane waits for.
type laneState uint8

const (
	laneIdle    laneState = iota // an item, or the claim of its next item
	laneReady                    // its turn
	laneRunning                  // its handlers
	lanePaused                   // the time when its next item may be tried
	laneWaiting                  // another item with the key of its next item
	laneSuspect                  // to run its next item alone
	laneHeld                     // of a batch: the end of an outage of what handlers need
)

// join adds the lane to a machine.
func (l *Lane) join(m *Machine, name string) {
	m.live++
	l.machine, l.name = m, name
	l.pause.of = l
}

// ring ends a pause.
func (l *Lane) ring() { l.wake(lanePaused) }

func (l *Lane) append(it *Item) {
	m := l.machine
	m.added++
	m.queued++
	it.lane, it.number = l, m.added
	l.queue = append(l.queue, it)
}

// pop removes the next item.
func (l *Lane) pop() *Item {
	it := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.sent, l.barred = max(0, l.sent-1), false
	l.machine.queued--
	return it
}

// touch lets advance look at the lane. It is called after every change of the lane.
func (l *Lane) touch() {
	if !l.touched {
		l.touched = true
		l.machine.touched.Push(l)
	}
}

// schedule decides what the lane does next, if that is not decided.
func (l *Lane) schedule() {
	l.touched = false
	if l.state == laneIdle {
		l.state = l.decide()
	}
	l.list()
	l.endIfEmpty()
}

func (l *Lane) decide() laneState {
	for len(l.queue) > 0 {
		it := l.queue[0]
		switch {
		case it.unreported:
			return laneIdle
		case it.held && l.machine.Once:
			l.machine.outage.lanes++
			return laneHeld
		case it.notBefore.After(l.machine.now):
			return l.waitUntil(it.notBefore)
		case it.phase == shared:
			l.concludeNext()
		case it.phase == sharing:
			l.enter(l.pop())
		case it.phase == claimed:
			return l.decideClaimed(it)
		case it.phase != queued:
			return laneIdle
		case l.machine.late() && it.IsInFlight():
			return l.isReady() // its outcome says for what it has waited
		case l.machine.late():
			it.End = EndLate
			l.concludeNext()
		case it.takeFromTwin():
		default:
			switch user := l.machine.keys[it.Key]; {
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

func (l *Lane) decideClaimed(it *Item) laneState {
	switch it.Answer {
	case LeaseOver, TakeOver:
		if l.machine.late() {
			break
		}
		l.state = laneSuspect
		l.machine.isolate(l)
		return l.state
	case InFlight, Delayed:
		if wait, ok := l.machine.Engine.WaitTime(it); ok {
			it.notBefore = l.machine.now.Add(wait)
			return l.waitUntil(it.notBefore)
		}
	case NoAnswer, Claimed, ClaimedAlone, FailsOpen, Down, Completed, Ends:
	}
	return l.isReady()
}

func (l *Lane) isReady() laneState {
	l.machine.calls.ready.Push(l)
	return laneReady
}

// waitUntil releases the lane's claims, because other owners must not wait for items that have not begun.
func (l *Lane) waitUntil(at time.Time) laneState {
	l.state = lanePaused
	l.unclaim()
	l.machine.alarms.set(&l.pause, at)
	return l.state
}

// wake decides anew what a lane does that waits in a state.
func (l *Lane) wake(from laneState) {
	if l.state == from {
		l.state = laneIdle
		l.touch()
	}
}

// enter counts an item as in progress.
func (l *Lane) enter(it *Item) {
	it.open = true
	l.open = append(l.open, it)
}

// leave counts an item as not in progress any more.
func (l *Lane) leave(it *Item) {
	it.open = false
	i := slices.Index(l.open, it)
	last := len(l.open) - 1
	l.open[i] = l.open[last]
	l.open[last] = nil
	l.open = l.open[:last]
	l.touch()
}

// putBack returns an item that has begun to its place in the queue, unless the lane is stopped.
func (l *Lane) putBack(it *Item) {
	l.leave(it)
	it.phase, it.returned, it.Answer = queued, false, NoAnswer
	if l.stopped {
		return
	}
	l.unclaim()
	l.insert(it)
	l.wake(laneWaiting)
}

// insert adds an item at its place.
func (l *Lane) insert(it *Item) {
	i := slices.IndexFunc(l.queue, func(other *Item) bool { return other.number > it.number })
	if i < 0 {
		i = len(l.queue)
	}
	l.queue = slices.Insert(l.queue, i, it)
	l.machine.queued++
}

// report tells the caller the outcome of an item. One that is not settled does not begin before that.
func (l *Lane) report(it *Item) {
	it.unreported = !it.End.settled()
	l.queueReport(Action{Kind: DoReport, Item: it})
}

// explain tells the caller why an item can't be claimed.
func (l *Lane) explain(it *Item) {
	it.unreported = true
	l.queueReport(Action{Kind: DoExplain, Item: it})
}

// queueReport does a report after those of the lane that are in progress.
func (l *Lane) queueReport(a Action) {
	if a.Item.unreported {
		l.pending++
	}
	if l.reporting {
		l.reports.Push(a)
		return
	}
	l.reporting = true
	l.machine.do(a)
}

// Reported is the end of a report.
type Reported struct{ Item *Item }

func (e Reported) apply(*Machine) {
	it := e.Item
	l := it.lane
	if it.unreported {
		l.pending--
		it.unreported = false
		l.touch()
	} else {
		l.leave(it)
	}
	if l.reporting = l.reports.Len() > 0; l.reporting {
		l.machine.do(l.reports.Pop())
	}
}

// stop removes the items that have not begun. The lane ends when nothing of it is in progress.
func (l *Lane) stop() {
	l.stopped = true
	for _, it := range l.queue {
		if it.removed = true; !it.unreported && it.End == NotEnded {
			it.End = EndBehind
		}
	}
	if l.state != laneRunning {
		l.machine.calls.forget(l)
		l.state = laneIdle
	}
	l.unclaim()
	l.machine.queued -= len(l.queue)
	l.queue = nil
	l.machine.alarms.unset(&l.pause)
	l.touch()
}

// timeUp ends what the lane of a batch waits for.
func (l *Lane) timeUp() {
	l.machine.alarms.unset(&l.pause)
	switch l.state {
	case lanePaused, laneWaiting, laneSuspect:
		l.state = laneIdle
	case laneIdle, laneReady, laneRunning, laneHeld:
	}
	l.touch()
}

// late reports whether items that have not begun end a batch.
func (m *Machine) late() bool { return m.Once && m.over }

// Stopped is that the caller wants nothing to begin any more in some lanes. The driver has not called the handlers
// of uncalled, and will not.
type Stopped struct {
	Lanes    []*Lane
	Uncalled []*Item
}

func (e Stopped) apply(m *Machine) {
	for _, it := range e.Uncalled {
		it.uncall()
	}
	for _, l := range e.Lanes {
		delete(m.lanes, l.name)
		l.stop()
	}
}

// uncall returns an item whose handler was not called to the place where it was before.
func (it *Item) uncall() {
	l := it.lane
	l.leave(it)
	l.insert(it)
	it.phase = claimed
	l.countAhead(1)
	l.handlerEnded()
}

// handlerEnded counts a handler of the lane that has returned, or is not called.
func (l *Lane) handlerEnded() {
	l.machine.calls.running--
	if l.running--; l.running == 0 {
		l.wake(laneRunning)
	}
}

// Abandon returns the items that are in progress, of which nothing is reported any more, except the one of
// which a report is in progress.
func (l *Lane) Abandon() (running []*Item) {
	slices.SortFunc(l.open, byNumber)
	for _, it := range l.open {
		if it != l.Reporting {
			it.removed = true
			running = append(running, it)
		}
	}
	return running
}

// leftovers removes and returns the items of a lane that have not ended, in order.
func (l *Lane) leftovers() []*Item {
	l.machine.queued -= len(l.queue)
	left := append(slices.Clone(l.open), l.queue...)
	l.queue, l.sent, l.stopped = nil, 0, true
	slices.SortFunc(left, byNumber)
	return left
}

func byNumber(a, b *Item) int { return cmp.Compare(a.number, b.number) }

// endIfEmpty ends the lane if it has no items.
func (l *Lane) endIfEmpty() {
	if l.over || len(l.queue) > 0 || len(l.open) > 0 || l.pending > 0 {
		return
	}
	l.over = true
	m := l.machine
	if m.lanes[l.name] == l {
		delete(m.lanes, l.name)
	}
	if m.live--; m.Once && m.live == 0 {
		m.do(Action{Kind: DoFinish})
	}
	if l.stopped {
		m.do(Action{Kind: DoEnd, Lane: l})
	}
}
