package schedule

import (
	"slices"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// A key whose owner's lease is over may belong to a message that kills its process (rule 7). So its claim
// does not take the key (idem.Claim.TakeOver is false), but only reports it. While it is the next of its lane,
// no other handler begins, no claim is sent, and all claims are released. When nothing is in progress any
// more, the key is taken over and the item handled. If the process dies again, only this message is charged
// an attempt.

// calls is the state of a machine's calls of handlers.
type calls struct {
	ready    fifo[*lane]
	suspects []*lane   // whose next item's key has an owner whose lease is over
	alone    bool      // one of them is being handled
	running  int       // items that are being handled, or wait for a goroutine
	inFlight time.Time // until when the last item waits whose key is in flight elsewhere; see waitFor
	gathered []*lane   // whose next item waits for a call of a bulk handler
	bulk     bool      // such a call is in progress
}

// isolate lets a lane's next item be handled alone. The claims that wait for a call of a bulk handler are
// handled before.
func (m *machine) isolate(l *lane) {
	m.calls.suspects = append(m.calls.suspects, l)
	if len(m.calls.suspects) == 1 && !m.bulk() {
		m.unclaimAll()
	}
}

// forget removes a lane that is stopped from those that wait for a call.
func (c *calls) forget(l *lane) {
	same := func(other *lane) bool { return other == l }
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
func (c *calls) nextSuspect() *lane {
	c.suspects = slices.DeleteFunc(c.suspects, func(l *lane) bool {
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
	c.suspects = slices.DeleteFunc(c.suspects, func(l *lane) bool { return l == first })
	return first
}

// byNext compares lanes by when their next items were added.
func byNext(a, b *lane) int { return byNumber(a.queue[0], b.queue[0]) }

// isolating reports whether an item is to be handled alone, or is being.
func (m *machine) isolating() bool { return m.calls.alone || len(m.calls.suspects) > 0 }

// beginCalls begins items for which there is room.
func (m *machine) beginCalls() {
	for {
		switch {
		case m.mayBeginAlone():
			if m.unclaimAll(); len(m.claims.releases) > 0 {
				return // of items behind others that can't begin, which no call of a bulk handler has taken
			}
			if l := m.calls.nextSuspect(); l != nil {
				m.calls.alone, m.calls.bulk = true, m.bulk()
				l.begin(doAlone)
			}
		case m.mayBegin():
			switch l := m.calls.ready.pop(); {
			case !l.headIsReady():
				l.wake(laneReady) // its claim was released
			case m.bulk() && l.queue[0].callable() && !m.late():
				m.calls.gathered = append(m.calls.gathered, l)
			default:
				l.begin(doCall)
			}
		default:
			m.beginBulk()
			return
		}
	}
}

// mayBeginAlone reports whether a suspect may begin: nothing else is in progress or claimed.
func (m *machine) mayBeginAlone() bool {
	calls, claims := &m.calls, &m.claims
	return len(calls.suspects) > 0 && !m.ended() && !calls.alone && !calls.bulk && calls.running == 0 &&
		claims.requests == 0 && claims.releasing == 0 && len(claims.releases) == 0 &&
		(!m.bulk() || calls.ready.len() == 0 && len(calls.gathered) == 0)
}

// mayBegin reports whether a lane that is ready may begin an item.
func (m *machine) mayBegin() bool {
	calls := &m.calls
	switch {
	case calls.ready.len() == 0, m.ended() && !m.once:
		return false
	case m.late():
		return true
	case m.bulk():
		return !calls.alone
	}
	return !m.isolating() && calls.running < m.cfg.Concurrency
}

// beginBulk begins a call of a bulk handler for the items that were gathered: when they fill a call, or no
// claims follow. One call is in progress at a time, until its completions are answered: if the handler ends
// the process, only the items of its call are handled again. An item whose last attempt failed gets its own
// call.
func (m *machine) beginBulk() {
	if len(m.calls.gathered) == 0 || m.calls.bulk || m.calls.alone && !m.late() {
		return
	}
	m.calls.gathered = slices.DeleteFunc(m.calls.gathered, func(l *lane) bool {
		ready := l.headIsReady() && !m.late()
		if !ready {
			l.wake(laneReady)
		}
		return !ready
	})
	lanes, size := m.calls.gathered, m.engine.CallSize()
	slices.SortFunc(lanes, byNext)
	alone := slices.IndexFunc(lanes, func(l *lane) bool { return l.queue[0].answer.failed })
	switch {
	case alone >= 0:
		m.beginCall(lanes[alone : alone+1])
		m.calls.gathered = slices.Delete(lanes, alone, alone+1)
	case len(lanes) >= size, m.claims.requests == 0 && len(lanes) > 0:
		size = min(size, len(lanes))
		m.beginCall(lanes[:size])
		m.calls.gathered = slices.Delete(lanes, 0, size)
	}
}

func (m *machine) beginCall(lanes []*lane) {
	m.calls.bulk = true
	a := action{kind: doBulk, items: make([]*Item, len(lanes))}
	for i, l := range lanes {
		a.items[i] = l.next()
	}
	m.do(a)
}

// callEnded is that the completions of a call of a bulk handler are answered, or that no call was needed for
// an item that was to be handled alone.
type callEnded struct{}

func (callEnded) apply(m *machine) { m.calls.bulk = false }

func (l *lane) headIsSuspect() bool {
	return l.state == laneSuspect && len(l.queue) > 0 && l.queue[0].phase == claimed &&
		l.queue[0].answer.state == store.ClaimLeaseOver
}

func (l *lane) headIsReady() bool {
	return l.state == laneReady && len(l.queue) > 0 && (l.queue[0].phase == claimed || l.machine.late() ||
		l.queue[0].Unprotected && !l.queue[0].unreported)
}

// begin begins the lane's next item.
func (l *lane) begin(kind actionKind) { l.machine.do(action{kind: kind, item: l.next()}) }

// next removes the lane's next item and counts it as in progress.
func (l *lane) next() *Item {
	it := l.pop()
	if it.ahead() {
		l.countAhead(-1)
	}
	it.phase, it.returned, it.known, it.again, it.Duplicate = begun, false, false, false, false
	l.enter(it)
	l.state = laneRunning
	l.machine.calls.running++
	l.touch()
	return it
}
