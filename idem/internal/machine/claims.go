package machine

import (
	"time"
)

// Claims are sent for the next items of the lanes, one of each lane in turn, before their turn. A request is
// sent when it is full, or when a lane can do nothing without it, no lane is ready, and no other request is in
// progress. In a stream, n others may be in progress if it has n eighths of a full one's claims, and all that
// are wanted (Rules.Partial). For an idle handler that takes many items, all that it takes are sent
// together. A full request has as many claims as the store takes, but, unless a handler takes many items, no more
// than the handlers begin soon. So many are claimed ahead of them, or two full requests. More would not make
// the handlers begin earlier, and other processes take over the claims of one that dies one at a time.
//
// No claims are sent for items that are estimated to begin only after their claims have waited too long: by
// the latency of the lane for the items of a lane, and by that of all lanes for their number. A claim that
// has waited too long nevertheless is released.
//
// An item that shares its key with an earlier one of its lane is passed over, if it makes the same request:
// it will take that one's outcome. Nothing is claimed behind an item that must wait for an item of another
// lane. Without this rule two lanes could wait for each other.

// claims is the state of a machine's claims.
type claims struct {
	lanes     Queue[*Lane] // lanes that want claims
	wanted    int          // how many
	needed    int          // lanes that can do nothing before their next item is claimed
	ahead     int          // items that are claiming or claimed
	requests  int          // requests for claims in progress
	latency   Estimate     // of these
	releases  []*Item      // to be sent
	releasing int          // requests for releases in progress
	// the last answer had a key of a dead owner: more may follow, and each releases all claims
	suspects bool
	failures int   // consecutive requests without an answer of the store
	pause    alarm // after a failure
	sweep    alarm // releases claims that have waited too long; not set if there are none
}

// list updates how many claims the lane wants.
func (l *Lane) list() {
	claims := &l.machine.claims
	n := l.claimable()
	claims.wanted += n - l.wanted
	if l.wanted = n; n > 0 && !l.listed {
		l.listed = true
		claims.lanes.Push(l)
	}
	if needs := n > 0 && l.sent == 0 && l.state == laneIdle; needs != l.needs {
		if l.needs = needs; needs {
			claims.needed++
		} else {
			claims.needed--
		}
	}
}

// claimable returns how many claims the lane wants.
func (l *Lane) claimable() int {
	next := 0
	switch l.state {
	case lanePaused, laneWaiting, laneSuspect, laneHeld:
		return 0
	case laneRunning:
		next = 1 // the items behind the one that runs
	case laneIdle, laneReady:
	}
	if l.barred || len(l.queue) == l.sent || l.queue[0].unreported {
		return 0
	}
	if head := l.queue[0]; head.IsInFlight() && head.phase != claimed {
		return max(0, 1-l.sent) // until it is not, because the claims behind it would be released again
	}
	return max(0, min(l.fit()-next-l.ahead, len(l.queue)-l.sent))
}

// fit returns how many items of the lane are estimated to begin within mayWait.
func (l *Lane) fit() int {
	switch {
	case l.machine.Bulk:
		return maxFit // a call takes all of them
	case l.machine.Request == 1:
		return 1
	}
	latency := &l.Latency
	if latency.ns.Load() == 0 {
		latency = l.machine.Latency
	}
	return latency.fit(maxFit, l.machine.MayWait)
}

// The windows in which claims are sent. Four requests have as many claims as DynamoDB reads items in one
// request.
const (
	requestsTogether = 4
	requestsAhead    = 2  // full requests claimed ahead of handlers that are slower than the store
	mostAhead        = 24 // full requests claimed ahead of handlers that are faster
)

// maxFit bounds the estimates of how many items fit in a time.
const maxFit = 1 << 20

// slots returns how many items the handlers take at once.
func (m *Machine) slots() int {
	if m.Bulk {
		return m.Concurrency * m.Engine.CallSize()
	}
	return m.Concurrency
}

// idle returns how many items the handlers of a bulk handler that are idle take.
func (m *Machine) idle() int { return (m.Concurrency - m.calls.bulk) * m.Engine.CallSize() }

// room returns how many more claims may be sent, so that none waits too long.
func (m *Machine) room() int {
	slots, claims := m.slots(), &m.claims
	limit := slots - m.calls.running
	if m.Request > 1 {
		rounds := m.Latency.fit(maxFit, m.MayWait)
		limit = min(slots*rounds, max(slots+m.beginMeanwhile(), mostAhead*m.Request)) - m.calls.running
	}
	if claims.suspects || claims.failures > 0 {
		limit = min(limit, m.Request)
	}
	return limit - claims.ahead
}

// answerTime is the time in which claims are answered: twice the average, as some take longer.
func (m *Machine) answerTime() time.Duration {
	return 2 * time.Duration(m.claims.latency.ns.Load()) //nolint:mnd // see above
}

// beginSoon returns how many items the handlers are estimated to begin while claims are answered, at least one
// each.
func (m *Machine) beginSoon() int {
	return m.slots() * m.Latency.fit(maxFit, m.answerTime())
}

// beginMeanwhile returns how many of the handlers are estimated to begin an item while claims are answered.
func (m *Machine) beginMeanwhile() int {
	slots, latency := m.slots(), time.Duration(m.Latency.ns.Load())
	if answer := m.answerTime(); answer < latency {
		return int(time.Duration(slots) * answer / latency)
	}
	return slots
}

// sendClaims sends the claims that can be sent.
func (m *Machine) sendClaims() {
	for items := m.collect(m.claimsToSend()); len(items) > 0; items = m.collect(m.claimsToSend()) {
		m.claims.requests++
		if !m.claims.sweep.set() {
			m.alarms.set(&m.claims.sweep, m.now.Add(m.MayWait/2)) //nolint:mnd // a fraction
		}
		m.do(Action{Kind: DoClaim, Items: items})
	}
}

// claimsToSend returns how many claims are to be sent now.
func (m *Machine) claimsToSend() int {
	claims := &m.claims
	if claims.wanted == 0 || claims.pause.set() || m.isolating() || m.ended() {
		return 0
	}
	if n, down := m.claimsInOutage(); down {
		return n
	}
	if claims.failures > 0 && claims.requests > 0 {
		return 0 // one request tries the store
	}
	soon, most := m.beginSoon(), min(claims.wanted, m.room())
	if idle := m.idle() - claims.ahead; m.Bulk && idle > 0 && claims.requests == 0 {
		return max(0, min(most, idle)) // all of a call together
	}
	full := m.Request
	if !m.Bulk {
		full = min(full, soon)
	}
	n := min(most, max(soon, requestsAhead*full)-claims.ahead)
	switch {
	case n >= full:
		return min(n-n%full, requestsTogether*m.Request)
	case claims.needed == 0 || m.calls.ready.Len() > 0 || m.Bulk:
		return 0
	case claims.requests == 0:
		return max(0, min(most, full))
	case !claims.suspects && claims.wanted <= n && n*m.Partial >= claims.requests*full:
		return n // if more were wanted, there would be a backlog, in which few large requests are better
	}
	return 0
}

// collect returns up to n items to claim, of each lane in turn.
func (m *Machine) collect(n int) (items []*Item) {
	lanes := &m.claims.lanes
	for lanes.Len() > 0 && len(items) < n {
		l := lanes.Pop()
		l.listed = false
		if l.claimable() > 0 {
			if it := l.nextUnclaimed(); it != nil {
				it.phase, it.sent = claiming, m.now
				l.pending++
				l.countAhead(1)
				items = append(items, it)
			}
		}
		l.list()
	}
	return items
}

// nextUnclaimed returns the next item whose claim is to be sent, nil if there is none.
func (l *Lane) nextUnclaimed() *Item {
	for ; l.sent < len(l.queue); l.sent++ {
		it := l.queue[l.sent]
		if it.phase == claiming || it.phase == claimed || it.phase == sharing || it.phase == shared {
			continue
		}
		user := l.machine.keys[it.Key]
		switch {
		case it.phase == releasing || it.unreported || it.notBefore.After(l.machine.now):
		case user == nil && it.endedTwin() != nil:
			l.touch()
		case user == nil && l.sent > 0 && it.isTwin(): // it may take the outcome of one that ends before it
		case user == nil:
			l.sent++
			l.machine.use(it)
			return it
		case user.lane == l && user.sharesWith(it):
			user.share(it)
			continue
		case l.sent == 0: // another lane has claimed the key in the meantime
			l.touch()
		}
		l.barred = true
		return nil
	}
	return nil
}

func (l *Lane) countAhead(n int) {
	l.ahead += n
	l.machine.claims.ahead += n
}

// Answered is the answers to claims, which the driver has set.
type Answered struct{ Items []*Item }

func (e Answered) apply(m *Machine) {
	var failed []*Item
	suspect := false
	m.claims.latency.Note(m.now.Sub(e.Items[0].sent))
	m.claims.requests--
	for _, it := range e.Items {
		l := it.lane
		l.pending--
		it.phase = claimed
		it.takesOver = it.Answer == TakeOver
		suspect = suspect || it.Answer == LeaseOver
		next := l.state == laneIdle && len(l.queue) > 0 && l.queue[0] == it
		switch {
		case it.takesOver:
			it.unclaim() // it is claimed again
			l.sent, l.barred = 0, false
		case it.Answer == Down && !m.Once:
			failed = append(failed, it)
			it.unclaim()
		case it.removed, l.state == lanePaused, l.state == laneWaiting, l.state == laneHeld, m.isolating():
			it.unclaim()
		case !next && (it.Answer == Down || it.Answer == InFlight):
			it.unclaim() // it is claimed again when it is the next
			l.barred = true
		case len(l.queue) > 0 && l.queue[0] != it && l.queue[0].phase == queued:
			it.unclaim() // an item before it has returned to the lane, and may have to wait
		}
		l.touch()
	}
	m.claims.suspects = suspect
	if !m.Once {
		m.noteFailures(failed, len(failed) == len(e.Items))
	}
}

// noteFailures delays the claims that the store has not answered. If it has answered none of a request, it
// delays all claims. One item is reported.
func (m *Machine) noteFailures(failed []*Item, all bool) {
	claims := &m.claims
	if !all {
		claims.failures = 0
		for _, it := range failed {
			it.notBefore = m.now.Add(m.pauseOfClaims(0))
		}
	} else if claims.failures++; !claims.pause.set() {
		m.alarms.set(&claims.pause, m.now.Add(m.pauseOfClaims(claims.failures)))
	}
	if len(failed) > 0 && !failed[0].removed {
		failed[0].lane.explain(failed[0])
	}
}

// pauseOfClaims returns the time before the next claim after the nth that the store has not answered: at most
// Rules.MaxPause.
func (m *Machine) pauseOfClaims(n int) time.Duration {
	return m.pauseFor(n, max(m.Backoff, m.MaxPause))
}

// unclaimAll releases the claims of all items that have not begun, except those that are to be handled alone.
func (m *Machine) unclaimAll() {
	for l := range m.each {
		if l.ahead > 0 {
			l.release(true)
		}
	}
}

// unclaim releases the claims of the lane's items that have not begun. Of a lane whose next item is to be
// handled alone, the items stay that must be handled alone after it.
func (l *Lane) unclaim() { l.release(l.state == laneSuspect) }

// release releases the claims of the lane's items that have not begun. If keep is set, the first items stay
// that must be handled alone.
func (l *Lane) release(keep bool) {
	left := l.ahead
	for i := 0; left > 0 && i < len(l.queue); i++ {
		it := l.queue[i]
		if it.ahead() {
			left--
		}
		if keep = keep && it.phase == claimed && it.leaseOver(); !keep &&
			it.phase == claimed {
			it.unclaim()
		}
	}
	l.sent, l.barred = 0, false
	l.touch()
}

// unclaim releases the claim of an item that has not begun.
func (it *Item) unclaim() {
	l := it.lane
	l.countAhead(-1)
	if !it.holds() {
		it.phase = queued
		it.freeKey()
		return
	}
	it.phase = releasing
	l.pending++
	l.machine.claims.releases = append(l.machine.claims.releases, it)
}

// sendReleases sends the releases that are to be sent.
func (m *Machine) sendReleases() {
	if items := m.claims.releases; len(items) > 0 {
		m.claims.releases = nil
		m.claims.releasing++
		m.do(Action{Kind: DoRelease, Items: items})
	}
}

// Released is that releases were answered.
type Released struct{ Items []*Item }

func (e Released) apply(m *Machine) {
	m.claims.releasing--
	for _, it := range e.Items {
		l := it.lane
		l.pending--
		it.phase, it.Answer = queued, NoAnswer
		l.sent, l.barred = 0, false
		it.freeKey()
		l.touch()
	}
}

// sweepClaims releases claims that have waited too long, and raises the estimates that were wrong.
func (m *Machine) sweepClaims() {
	for l := range m.each {
		l.sweepClaims()
	}
	if m.claims.ahead > 0 && !m.ended() {
		m.alarms.set(&m.claims.sweep, m.now.Add(m.MayWait/2)) //nolint:mnd // a fraction
	}
}

func (l *Lane) sweepClaims() {
	waited := l.waited()
	if waited < l.machine.MayWait {
		return
	}
	if l.unclaim(); l.state == laneRunning {
		l.Latency.raise(waited)
	} else {
		l.machine.Latency.raise(waited)
	}
}

// waited returns how long the lane's first claim has waited.
func (l *Lane) waited() time.Duration {
	if l.ahead == 0 {
		return 0
	}
	for _, it := range l.queue {
		if it.phase == claimed {
			return l.machine.now.Sub(it.sent)
		}
	}
	return 0
}
