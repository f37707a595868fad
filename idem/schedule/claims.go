package schedule

import (
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// Claims are sent for the next items of the lanes, one of each lane in turn, before their turn. A request is
// sent when it is full, or when a lane can do nothing without it, no lane is ready, and no other request is in
// progress. In a stream, n others may be in progress if it has n eighths of a full one's claims, and all that
// are wanted (idem.Engine.PartialRequests). For an idle handler that takes many items, all that it takes are sent
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
	lanes     fifo[*lane] // lanes that want claims
	wanted    int         // how many
	needed    int         // lanes that can do nothing before their next item is claimed
	ahead     int         // items that are claiming or claimed
	requests  int         // requests for claims in progress
	latency   estimate    // of these
	releases  []*Item     // to be sent
	releasing int         // requests for releases in progress
	// the last answer had a key of a dead owner: more may follow, and each releases all claims
	suspects bool
	failures int   // consecutive requests without an answer of the store
	pause    alarm // after a failure
	sweep    alarm // releases claims that have waited too long; not set if there are none
}

// list updates how many claims the lane wants.
func (l *lane) list() {
	claims := &l.machine.claims
	n := l.claimable()
	claims.wanted += n - l.wanted
	if l.wanted = n; n > 0 && !l.listed {
		l.listed = true
		claims.lanes.push(l)
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
func (l *lane) claimable() int {
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
	if head := l.queue[0]; head.inFlight() && head.phase != claimed {
		return max(0, 1-l.sent) // until it is not, because the claims behind it would be released again
	}
	return max(0, min(l.fit()-next-l.ahead, len(l.queue)-l.sent))
}

// fit returns how many items of the lane are estimated to begin within mayWait.
func (l *lane) fit() int {
	switch {
	case l.machine.bulk():
		return maxFit // a call takes all of them
	case l.machine.request == 1:
		return 1
	}
	latency := &l.latency
	if latency.ns.Load() == 0 {
		latency = l.machine.latency
	}
	return latency.fit(maxFit, l.machine.mayWait)
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
func (m *machine) slots() int {
	if m.bulk() {
		return m.cfg.Concurrency * m.engine.CallSize()
	}
	return m.cfg.Concurrency
}

// idle returns how many items the handlers of a bulk handler that are idle take.
func (m *machine) idle() int { return (m.cfg.Concurrency - m.calls.bulk) * m.engine.CallSize() }

// room returns how many more claims may be sent, so that none waits too long.
func (m *machine) room() int {
	slots, claims := m.slots(), &m.claims
	limit := slots - m.calls.running
	if m.request > 1 {
		rounds := m.latency.fit(maxFit, m.mayWait)
		limit = min(slots*rounds, max(slots+m.beginMeanwhile(), mostAhead*m.request)) - m.calls.running
	}
	if claims.suspects || claims.failures > 0 {
		limit = min(limit, m.request)
	}
	return limit - claims.ahead
}

// answerTime is the time in which claims are answered: twice the average, as some take longer.
func (m *machine) answerTime() time.Duration {
	return 2 * time.Duration(m.claims.latency.ns.Load()) //nolint:mnd // see above
}

// beginSoon returns how many items the handlers are estimated to begin while claims are answered, at least one
// each.
func (m *machine) beginSoon() int {
	return m.slots() * m.latency.fit(maxFit, m.answerTime())
}

// beginMeanwhile returns how many of the handlers are estimated to begin an item while claims are answered.
func (m *machine) beginMeanwhile() int {
	slots, latency := m.slots(), time.Duration(m.latency.ns.Load())
	if answer := m.answerTime(); answer < latency {
		return int(time.Duration(slots) * answer / latency)
	}
	return slots
}

// sendClaims sends the claims that can be sent.
func (m *machine) sendClaims() {
	for items := m.collect(m.claimsToSend()); len(items) > 0; items = m.collect(m.claimsToSend()) {
		m.claims.requests++
		if !m.claims.sweep.set() {
			m.alarms.set(&m.claims.sweep, m.now.Add(m.mayWait/2)) //nolint:mnd // a fraction
		}
		m.do(action{kind: doClaim, items: items})
	}
}

// claimsToSend returns how many claims are to be sent now.
func (m *machine) claimsToSend() int {
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
	if idle := m.idle() - claims.ahead; m.bulk() && idle > 0 && claims.requests == 0 {
		return max(0, min(most, idle)) // all of a call together
	}
	full := m.request
	if !m.bulk() {
		full = min(full, soon)
	}
	n := min(most, max(soon, requestsAhead*full)-claims.ahead)
	switch {
	case n >= full:
		return min(n-n%full, requestsTogether*m.request)
	case claims.needed == 0 || m.calls.ready.len() > 0 || m.bulk():
		return 0
	case claims.requests == 0:
		return max(0, min(most, full))
	case !claims.suspects && claims.wanted <= n && n*m.partial >= claims.requests*full:
		return n // if more were wanted, there would be a backlog, in which few large requests are better
	}
	return 0
}

// collect returns up to n items to claim, of each lane in turn.
func (m *machine) collect(n int) (items []*Item) {
	lanes := &m.claims.lanes
	for lanes.len() > 0 && len(items) < n {
		l := lanes.pop()
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
func (l *lane) nextUnclaimed() *Item {
	for ; l.sent < len(l.queue); l.sent++ {
		it := l.queue[l.sent]
		if it.phase == claiming || it.phase == claimed || it.phase == sharing || it.phase == shared {
			continue
		}
		user := l.machine.keys[it.claim.Task.Key]
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

func (l *lane) countAhead(n int) {
	l.ahead += n
	l.machine.claims.ahead += n
}

// claimsAnswered is the answers to claims, which the driver has set.
type claimsAnswered struct{ items []*Item }

func (e claimsAnswered) apply(m *machine) {
	var failed []*Item
	suspect := false
	m.claims.latency.note(m.now.Sub(e.items[0].sent))
	m.claims.requests--
	for _, it := range e.items {
		l := it.lane
		l.pending--
		it.phase = claimed
		leaseOver := it.answer.state == store.ClaimLeaseOver
		it.takesOver = leaseOver && it.answer.beside
		suspect = suspect || leaseOver && !it.takesOver
		next := l.state == laneIdle && len(l.queue) > 0 && l.queue[0] == it
		switch {
		case it.takesOver:
			it.unclaim() // it is claimed again
			l.sent, l.barred = 0, false
		case it.answer.down && !m.once:
			failed = append(failed, it)
			it.unclaim()
		case it.removed, l.state == lanePaused, l.state == laneWaiting, l.state == laneHeld, m.isolating():
			it.unclaim()
		case !next && (it.answer.down || it.answer.state == store.ClaimInFlight && !it.answer.delayed):
			it.unclaim() // it is claimed again when it is the next
			l.barred = true
		case len(l.queue) > 0 && l.queue[0] != it && l.queue[0].phase == queued:
			it.unclaim() // an item before it has returned to the lane, and may have to wait
		}
		l.touch()
	}
	m.claims.suspects = suspect
	if !m.once {
		m.noteFailures(failed, len(failed) == len(e.items))
	}
}

// noteFailures delays the claims that the store has not answered. If it has answered none of a request, it
// delays all claims. One item is reported.
func (m *machine) noteFailures(failed []*Item, all bool) {
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
// the breaker's cooldown.
func (m *machine) pauseOfClaims(n int) time.Duration {
	return m.pauseFor(n, max(m.cfg.Backoff, m.cooldown))
}

// unclaimAll releases the claims of all items that have not begun, except those that are to be handled alone.
func (m *machine) unclaimAll() {
	for l := range m.each {
		if l.ahead > 0 {
			l.release(true)
		}
	}
}

// unclaim releases the claims of the lane's items that have not begun. Of a lane whose next item is to be
// handled alone, the items stay that must be handled alone after it.
func (l *lane) unclaim() { l.release(l.state == laneSuspect) }

// release releases the claims of the lane's items that have not begun. If keep is set, the first items stay
// that must be handled alone.
func (l *lane) release(keep bool) {
	left := l.ahead
	for i := 0; left > 0 && i < len(l.queue); i++ {
		it := l.queue[i]
		if it.ahead() {
			left--
		}
		if keep = keep && it.phase == claimed && it.answer.state == store.ClaimLeaseOver; !keep &&
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
	if it.answer.state != store.Claimed {
		it.phase = queued
		it.freeKey()
		return
	}
	it.phase = releasing
	l.pending++
	l.machine.claims.releases = append(l.machine.claims.releases, it)
}

// sendReleases sends the releases that are to be sent.
func (m *machine) sendReleases() {
	if items := m.claims.releases; len(items) > 0 {
		m.claims.releases = nil
		m.claims.releasing++
		m.do(action{kind: doRelease, items: items})
	}
}

// released is that releases were answered.
type released struct{ items []*Item }

func (e released) apply(m *machine) {
	m.claims.releasing--
	for _, it := range e.items {
		l := it.lane
		l.pending--
		it.phase, it.answer = queued, answer{}
		l.sent, l.barred = 0, false
		it.freeKey()
		l.touch()
	}
}

// sweepClaims releases claims that have waited too long, and raises the estimates that were wrong.
func (m *machine) sweepClaims() {
	for l := range m.each {
		l.sweepClaims()
	}
	if m.claims.ahead > 0 && !m.ended() {
		m.alarms.set(&m.claims.sweep, m.now.Add(m.mayWait/2)) //nolint:mnd // a fraction
	}
}

func (l *lane) sweepClaims() {
	waited := l.waited()
	if waited < l.machine.mayWait {
		return
	}
	if l.unclaim(); l.state == laneRunning {
		l.latency.raise(waited)
	} else {
		l.machine.latency.raise(waited)
	}
}

// waited returns how long the lane's first claim has waited.
func (l *lane) waited() time.Duration {
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
