package machine

// Returned is that the handler of an item has returned, or that none was called.
type Returned struct{ Item *Item }

func (e Returned) apply(m *Machine) {
	it := e.Item
	m.calls.alone = false
	it.returned = true
	if it.known {
		it.conclude()
	} else {
		it.wakeWaiting()
	}
	it.lane.handlerEnded()
}

// Settled is that the outcome of an item is known, which the driver has set. It may come before returned.
type Settled struct{ Item *Item }

func (e Settled) apply(*Machine) {
	e.Item.known = true
	if e.Item.returned {
		e.Item.conclude()
	}
}

// conclude ends an item whose handler has returned and whose outcome is known, or returns it to its lane.
func (it *Item) conclude() {
	if it.Again {
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
func (l *Lane) conclude(it *Item) {
	m := l.machine
	switch {
	case it.End.settled():
		l.end(it)
		m.endOutage()
		return
	case it.End == EndBehind:
		l.putBack(it)
		return
	case m.Once && it.End == EndHeldBack:
		it.held = true
		l.putBack(it)
		return
	case m.Once:
		l.end(it)
		l.stop()
		return
	}
	if it.held = it.End == EndHeldBack || it.End == EndInOutage; it.held {
		m.hold()
	}
	if it.End == EndHeldBack {
		it.notBefore = m.now.Add(it.RetryIn)
		l.putBack(it)
		return
	}
	it.tries++
	it.notBefore = m.now.Add(max(m.pauseFor(it.tries, m.MaxBackoff), it.RetryIn))
	l.putBack(it)
	l.report(it)
}

// concludeNext concludes the next item, whose outcome is known without a call.
func (l *Lane) concludeNext() {
	it := l.pop()
	l.enter(it)
	l.conclude(it)
}

// end ends an item, of which the caller of a stream is told.
func (l *Lane) end(it *Item) {
	if l.machine.Once {
		l.machine.noteEnded(it)
		l.leave(it)
		return
	}
	l.report(it)
}
