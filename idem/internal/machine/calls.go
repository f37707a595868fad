package machine

import (
	"slices"
)

// A call takes one item, or many if a handler takes many (Rules.Bulk): of each lane a run of its next items, in
// order (rule S1). It begins no item behind one that fails: see outOfTurn.
//
// A key whose owner's lease is over may belong to a message that kills its process (rule 7). So its claim
// does not take the key (Item.TakesOver is false), but only reports it. After its first attempt the key is
// claimed again like others, with TakeOver, if at least two more attempts are left: those that were handled
// beside such a message are then handled beside others once more. After that it is handled alone: while it is
// the next of its lane, no other handler begins, no claim is sent, and all claims are released. When nothing is
// in progress any more, the key is taken over and the item handled. If the process dies again, only this message
// is charged an attempt.

// calls is the state of a machine's calls of handlers.
type calls struct {
	ready    Queue[*Lane]
	suspects []*Lane // whose next item is to be handled alone
	alone    bool    // one of them is being handled
	running  int     // items that are being handled, or wait for a goroutine
	gathered []*Lane // whose next item waits for a call of a bulk handler
	bulk     int     // such calls whose handler has not returned
	open     int     // items of such calls, until the completions of all items of their call are answered
}

// isolate lets a lane's next item be handled alone.
func (m *Machine) isolate(l *Lane) {
	m.calls.suspects = append(m.calls.suspects, l)
	if len(m.calls.suspects) == 1 {
		m.unclaimAll()
	}
}

// forget removes a lane that is stopped from those that wait for a call.
func (c *calls) forget(l *Lane) {
	same := func(other *Lane) bool { return other == l }
	switch l.state {
	case laneSuspect:
		c.suspects = slices.DeleteFunc(c.suspects, same)
	case laneReady:
		c.gathered = slices.DeleteFunc(c.gathered, same)
	case laneIdle, laneRunning, lanePaused, laneWaiting, laneHeld:
	}
}

// nextSuspect removes and returns the lane whose next item was added first of those that are to be handled
// alone; nil if there is none.
func (c *calls) nextSuspect() *Lane {
	c.suspects = slices.DeleteFunc(c.suspects, func(l *Lane) bool {
		left := !l.headIsSuspect()
		if left {
			l.wake(laneSuspect)
		}
		return left
	})
	if len(c.suspects) == 0 {
		return nil
	}
	first := slices.MinFunc(c.suspects, byNext)
	c.suspects = slices.DeleteFunc(c.suspects, func(l *Lane) bool { return l == first })
	return first
}

// byNext compares lanes by when their next items were added.
func byNext(a, b *Lane) int { return byNumber(a.queue[0], b.queue[0]) }

// isolating reports whether an item is to be handled alone, or is being.
func (m *Machine) isolating() bool { return m.calls.alone || len(m.calls.suspects) > 0 }

// beginCalls begins items for which there is room.
func (m *Machine) beginCalls() {
	for {
		switch {
		case m.mayBeginAlone():
			if m.unclaimAll(); len(m.claims.releases) > 0 {
				return // of items behind others that can't begin
			}
			if l := m.calls.nextSuspect(); l != nil {
				if m.calls.alone = true; m.Bulk {
					m.calls.open++
				}
				l.begin(DoAlone)
			}
		case m.mayBegin():
			switch l := m.calls.ready.Pop(); {
			case !l.headIsReady():
				l.wake(laneReady) // its claim was released
			case m.Bulk && l.queue[0].Callable() && !m.late():
				m.calls.gathered = append(m.calls.gathered, l)
			default:
				l.begin(DoCall)
			}
		default:
			m.beginBulk()
			return
		}
	}
}

// mayBeginAlone reports whether a suspect may begin: nothing else is in progress or claimed.
func (m *Machine) mayBeginAlone() bool {
	calls, claims := &m.calls, &m.claims
	return len(calls.suspects) > 0 && !m.ended() && !calls.alone && calls.open == 0 && calls.running == 0 &&
		claims.requests == 0 && claims.releasing == 0 && len(claims.releases) == 0
}

// mayBegin reports whether a lane that is ready may begin an item, or wait for a call of a bulk handler.
func (m *Machine) mayBegin() bool {
	calls := &m.calls
	switch {
	case calls.ready.Len() == 0, m.ended() && !m.Once:
		return false
	case m.late():
		return true
	}
	return !m.isolating() && (m.Bulk || calls.running < m.Concurrency)
}

// beginBulk begins calls of a bulk handler for the items that are ready: when they fill a call, or no claims
// follow. The next call begins when a handler has returned, before its completions are answered, unless these
// and those of the next call would exceed the commit window: if the handler ends the process, so many items at
// most are handled again.
func (m *Machine) beginBulk() {
	calls := &m.calls
	if len(calls.gathered) == 0 {
		return
	}
	calls.gathered = slices.DeleteFunc(calls.gathered, func(l *Lane) bool {
		ready := l.headIsReady() && !m.late()
		if !ready {
			l.wake(laneReady)
		}
		return !ready
	})
	for len(calls.gathered) > 0 && calls.bulk < m.Concurrency && !m.isolating() && m.beginOneBulk() {
	}
}

// beginOneBulk begins a call of a bulk handler, unless it waits for claims.
func (m *Machine) beginOneBulk() bool {
	calls, size := &m.calls, m.Engine.CallSize()
	if m.claims.requests > 0 && m.claims.ahead < size {
		return false
	}
	items := m.nextCall(size)
	if len(items) < size && m.claims.requests > 0 && items[0].Answer != ClaimedAlone {
		return false
	}
	if calls.open > 0 && calls.open+len(items) > m.Window {
		return false
	}
	calls.bulk++
	calls.open += len(items)
	for _, it := range items {
		it.lane.beginUpTo(it)
	}
	calls.gathered = slices.DeleteFunc(calls.gathered, func(l *Lane) bool { return l.state != laneReady })
	m.do(Action{Kind: DoBulk, Items: items})
	return true
}

// nextCall returns the items of the next call of a bulk handler, at most size, in the order in which they were
// added. An item whose last attempt failed has a call of its own.
func (m *Machine) nextCall(size int) (items []*Item) {
	for _, l := range m.calls.gathered {
		if l.queue[0].Answer == ClaimedAlone {
			return []*Item{l.queue[0]}
		}
		items = l.appendRun(items, size)
	}
	slices.SortFunc(items, byNumber)
	return items[:min(size, len(items))]
}

// appendRun appends the lane's next items that one call of a bulk handler can take, at most size.
func (l *Lane) appendRun(items []*Item, size int) []*Item {
	for _, it := range l.queue {
		switch {
		case size == 0:
			return items
		case it.endsWithoutCall():
		case it.readyForCall():
			items = append(items, it)
			size--
		default:
			return items
		}
	}
	return items
}

// beginUpTo begins the lane's next items up to one of a call, and ends those between that need no call.
func (l *Lane) beginUpTo(last *Item) {
	for {
		switch it := l.queue[0]; {
		case it == last:
			l.next()
			return
		case it.phase == sharing:
			l.enter(l.pop())
		default:
			l.begin(DoCall) // which calls no handler
		}
	}
}

// readyForCall reports whether a call of a bulk handler can take an item with others.
func (it *Item) readyForCall() bool {
	return it.Callable() && it.Answer != ClaimedAlone && it.phase == claimed
}

// endsWithoutCall reports whether an item behind those of a call ends without a handler, whatever they return:
// it takes the outcome of one of them, or its key is COMPLETED.
func (it *Item) endsWithoutCall() bool {
	return it.phase == sharing || it.phase == claimed && it.Answer == Completed
}

// CallReturned is that a bulk handler has returned.
type CallReturned struct{}

func (CallReturned) apply(m *Machine) { m.calls.bulk-- }

// CallEnded is that the completions of a call of a bulk handler are answered, or that no call was needed for
// an item that was to be handled alone.
type CallEnded struct{ Items int }

func (e CallEnded) apply(m *Machine) { m.calls.open -= e.Items }

func (l *Lane) headIsSuspect() bool {
	return l.state == laneSuspect && len(l.queue) > 0 && l.queue[0].phase == claimed &&
		l.queue[0].leaseOver()
}

// headIsReady reports whether the lane's next item may begin: its claim was answered and not released since, or it
// ends with that answer.
func (l *Lane) headIsReady() bool {
	if l.state != laneReady || len(l.queue) == 0 {
		return false
	}
	head := l.queue[0]
	return head.phase == claimed || l.machine.late() && head.phase == queued && head.IsInFlight()
}

// begin begins the lane's next item with an action of its own.
func (l *Lane) begin(kind ActionKind) { l.machine.do(Action{Kind: kind, Item: l.next()}) }

// next removes the lane's next item and counts it as in progress.
func (l *Lane) next() *Item {
	it := l.pop()
	if it.ahead() {
		l.countAhead(-1)
	}
	it.phase, it.returned, it.known, it.Again, it.duplicate = begun, false, false, false, false
	l.enter(it)
	l.state = laneRunning
	l.running++
	l.machine.calls.running++
	l.touch()
	return it
}
