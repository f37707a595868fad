package schedule

import (
	"errors"

	"github.com/idemsk/idemsk/idem"
)

// returned is that the handler of an item has returned, or that none was called.
type returned struct{ item *Item }

func (e returned) apply(m *machine) {
	it := e.item
	m.calls.alone = false
	it.returned = true
	if it.known {
		it.conclude()
	} else {
		it.wakeWaiting()
	}
	it.lane.handlerEnded()
}

// settled is that the outcome of an item is known, which the driver has set. It may come before returned.
type settled struct{ item *Item }

func (e settled) apply(*machine) {
	e.item.known = true
	if e.item.returned {
		e.item.conclude()
	}
}

// conclude ends an item whose handler has returned and whose outcome is known, or returns it to its lane.
func (it *Item) conclude() {
	if it.again {
		it.lane.putBack(it)
		it.freeKey()
		return
	}
	sharers := it.sharers
	it.sharers = nil
	for _, other := range sharers {
		other.take(it)
	}
	it.freeKey()
	it.lane.conclude(it)
}

// conclude ends an item that is settled. One that is behind another returns to its place. Any other is tried again
// after a pause, or ends its lane in a batch.
func (l *lane) conclude(it *Item) {
	m := l.machine
	switch {
	case it.Outcome.Kind.Settled():
		l.end(it)
		m.endOutage()
		return
	case it.Outcome.Kind == idem.Behind:
		l.putBack(it)
		return
	case m.once && it.heldBack():
		it.held = true
		l.putBack(it)
		return
	case m.once:
		l.end(it)
		l.stop()
		return
	}
	if it.held = errors.Is(it.Outcome.Err, idem.ErrHandlerDown); it.held {
		m.hold()
	}
	if it.heldBack() {
		it.notBefore = m.now.Add(it.Outcome.RetryIn)
		l.putBack(it)
		return
	}
	it.tries++
	it.notBefore = m.now.Add(max(m.pauseFor(it.tries, m.cfg.MaxBackoff), it.Outcome.RetryIn))
	l.putBack(it)
	l.report(it)
}

// concludeNext concludes the next item, whose outcome is known without a call.
func (l *lane) concludeNext() {
	it := l.pop()
	l.enter(it)
	l.conclude(it)
}

// end ends an item, of which the caller of a stream is told.
func (l *lane) end(it *Item) {
	if l.machine.once {
		l.machine.noteEnded(it)
		l.leave(it)
		return
	}
	l.report(it)
}

// retask lets an item be tried with the task that the caller has set when it was told of a try. The key of a
// rejected task may be that of the task that follows it, whose claim then knows what was sent for the key.
func (it *Item) retask() {
	if it.replaced {
		return
	}
	if it.Task.Key != it.claim.Task.Key {
		it.claim = idem.Claim{}
	}
	it.claim.Task = it.Task
}
