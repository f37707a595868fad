package schedule

import (
	"time"

	"github.com/idemsk/idemsk/idem"
)

// The lease of a range is held from its first item on, by a stream until Stop. The keys of the items are read
// under the lease, in the place of claims; an item that the lease does not hold is claimed by its key. While
// the lease is not held, no item of the range begins. If a stream loses it, it claims it again, as by another
// owner: what was looked up is looked up again.
//
// A batch reads the keys of all its items when it claims the lease, and does not claim it again.

// Range is a sequence of items that one lease holds (idem.Config.ClaimByPartition), such as the records of a
// partition.
type Range struct {
	Key    string  // of the lease; it must not be the key of a task
	Source string  // the place of the first message, for errors
	Items  []*Item // in the order of their positions; a lane has items of one range
}

// span is a range in a machine.
type span struct {
	machine *machine
	key     string
	source  string
	items   []*Item     // of a batch
	last    int64       // the highest position of its items
	from    int64       // last when the lease began to be claimed
	lease   *idem.Range // the last one that was held, or that a batch has claimed; nil if none was
	open    bool        // items may be looked up, or claimed by key
	byKey   bool        // they are claimed by key, see idem.Engine.FailsOpen
	holding bool        // a claim of the lease is in progress
	tries   int         // claims of the lease that have failed one after another
	next    alarm       // claims the lease again
	lost    *idem.Range // the last lease that was lost
	claim   *idem.Range // of the driver: the lease that is claimed
	stopped bool        // its lanes were stopped
	lanes   int         // lanes that have not ended when it was stopped

	left chan struct{} // of the driver: closed when the lease was released
}

func (m *machine) newSpan(key, source string) *span {
	s := &span{machine: m, key: key, source: source, left: make(chan struct{})}
	s.next.of = ringFunc(s.hold)
	return s
}

// spanOf returns the range of an item of a stream, nil if it has none. It begins one that is new.
func (m *machine) spanOf(it *Item) *span {
	if it.Range == "" {
		return nil
	}
	s := m.ranges[it.Range]
	if s == nil {
		s = m.newSpan(it.Range, it.Task.Source)
		s.last = it.Position
		m.ranges[it.Range] = s
		s.hold()
	}
	return s
}

// hold claims the lease.
func (s *span) hold() {
	s.holding, s.from = true, s.last
	s.machine.do(action{kind: doHold, span: s})
}

// held is the answer to a claim of a range's lease. In a batch, the driver has set the answers of the items.
type held struct {
	span  *span
	lease *idem.Range
	ok    bool          // it is held
	wait  time.Duration // until it is claimed again
	waits bool          // it is claimed again after wait
	down  bool          // the store did not answer
	open  bool          // the store did not answer, and the engine fails open
	err   error
}

func (e held) apply(m *machine) {
	s := e.span
	s.holding = false
	switch {
	case e.waits && !s.stopped && !m.ended():
		s.shut()
		m.alarms.set(&s.next, m.now.Add(e.wait))
	case m.once:
		s.lease = e.lease
		s.begin(false)
	case e.ok:
		s.lease, s.tries = e.lease, 0
		if s.begin(false); s.lost == e.lease {
			s.again()
		}
	case s.stopped || m.ended():
	default:
		s.tries++
		s.failed(e)
	}
	s.leave()
}

// failed claims the lease of a stream again after a pause. Until then, the keys are claimed if the engine
// fails open. Otherwise one item is reported.
func (s *span) failed(e held) {
	m := s.machine
	if e.open {
		s.begin(true)
	} else {
		s.shut()
		s.report(e.err)
	}
	pause := m.pauseFor(s.tries, m.cfg.MaxBackoff)
	if e.down {
		pause = m.pauseOfClaims(s.tries)
	}
	m.alarms.set(&s.next, m.now.Add(pause))
}

// begin lets the items of the range be looked up, or claimed by key. Those of a batch begin that were looked
// up with the lease.
func (s *span) begin(byKey bool) {
	s.open, s.byKey = true, byKey
	for _, it := range s.items {
		if it.answer.kept && !it.removed {
			s.machine.use(it)
			it.phase = claimed
		}
	}
	for l := range s.each {
		l.touch()
	}
}

// each yields the lanes of the range, as machine.each.
func (s *span) each(yield func(*lane) bool) {
	for l := range s.machine.each {
		if l.within == s && !yield(l) {
			return
		}
	}
}

// shut lets no item of the range begin.
func (s *span) shut() {
	if !s.open {
		return
	}
	s.open = false
	for l := range s.each {
		if l.ahead > 0 {
			l.unclaim()
		}
	}
}

// report tells the caller of one item of the range that it can't begin because the lease can't be claimed.
func (s *span) report(err error) {
	for l := range s.each {
		if l.state == laneIdle && len(l.queue) > 0 && l.queue[0].phase == queued && !l.queue[0].unreported {
			l.explain(l.queue[0], err)
			return
		}
	}
}

// leaseLost is that the lease of a range was lost.
type leaseLost struct {
	span  *span
	lease *idem.Range
}

func (e leaseLost) apply(m *machine) {
	s := e.span
	if s.lost = e.lease; s.lease == e.lease && !s.stopped && !m.ended() {
		s.again()
	}
}

// again claims a lease that was lost.
func (s *span) again() {
	s.shut()
	s.hold()
}

// stop ends a range of a stream whose lanes were stopped.
func (s *span) stop(lanes []*lane) {
	delete(s.machine.ranges, s.key)
	s.stopped = true
	s.machine.alarms.unset(&s.next)
	for _, l := range lanes {
		if l.within == s && !l.over {
			s.lanes++
		}
	}
	s.leave()
}

// laneEnded counts a lane of the range that has ended.
func (s *span) laneEnded() {
	if s.stopped {
		s.lanes--
		s.leave()
	}
}

// leave releases the lease of a range that was stopped when its lanes have ended.
func (s *span) leave() {
	if s.stopped && s.lanes == 0 && !s.holding {
		s.holding = true // it is left once
		s.machine.do(action{kind: doLeave, span: s})
	}
}

// endSpans lets the items of a batch end whose leases are in flight elsewhere, because there is no time left.
func (m *machine) endSpans() {
	for _, l := range m.all {
		if s := l.within; s != nil && s.next.set() {
			m.alarms.unset(&s.next)
			s.begin(false)
		}
	}
}
