package machine

import "time"

// During an outage of what handlers need  a stream releases the claims that it
// has sent ahead, and sends one at a time, when the engine lets a task try the handler. Items that have
// failed or were refused wait until then. All go on when the outage ends.
//
// In a batch, the items that were refused wait until an outage ends, or no other item is left.

// outage is the state of a machine during an outage.
type outage struct {
	began bool  // an item was held back, and no outage has ended since
	next  alarm // sends the next claim
	lanes int   // of a batch: lanes that are held
}

// hold begins to hold items back, or goes on.
func (m *Machine) hold() {
	m.outage.began = true
	m.alarms.unset(&m.outage.next)
	m.unclaimAll()
}

// claimsInOutage returns how many claims are to be sent during an outage, and whether there is one.
func (m *Machine) claimsInOutage() (n int, down bool) {
	if m.Once {
		return 0, false
	}
	wait, down := m.Engine.HandlerDown()
	switch {
	case !down:
		return 0, false
	case wait == 0:
		return max(0, 1-m.claims.ahead-m.calls.running), true
	case !m.outage.next.set():
		m.alarms.set(&m.outage.next, m.now.Add(wait))
	}
	return 0, true
}

// endOutage lets all items of a stream go on if an outage has ended.
func (m *Machine) endOutage() {
	if !m.outage.began {
		return
	}
	if _, down := m.Engine.HandlerDown(); down {
		return
	}
	m.outage.began = false
	m.alarms.unset(&m.outage.next)
	for _, l := range m.lanes {
		for _, it := range l.queue {
			if it.held {
				it.held, it.notBefore = false, time.Time{}
				m.alarms.unset(&l.pause)
				l.wake(lanePaused)
			}
		}
	}
}

// endHeld lets the items of a batch go on that an outage holds back, if it has ended, and ends their lanes if
// nothing else can end it.
func (m *Machine) endHeld() {
	if m.outage.lanes == 0 {
		return
	}
	_, down := m.Engine.HandlerDown()
	if down && m.outage.lanes < m.live && !m.over {
		return
	}
	m.outage.lanes = 0
	for _, l := range m.all {
		if l.state != laneHeld {
			continue
		}
		it := l.queue[0]
		it.held = false
		if l.wake(laneHeld); down || m.over {
			l.enter(l.pop())
			l.end(it)
			l.stop()
		}
	}
}
