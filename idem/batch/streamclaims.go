package batch

import (
	"errors"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// A stream sends claims for the next items of its lanes, one of each lane in turn, before their turn. A
// request is sent when it is full, or when a lane can do nothing without it, no lane is ready, and no other
// request is in progress. A full request has as many claims as the store takes, but no more than the handlers
// begin soon. So many are claimed ahead of them, or two full requests. More would not make the stream faster,
// and other processes take over the claims of one that dies one at a time.
//
// No claims are sent for items that are estimated to begin only after their claims have waited too long: by
// the latency of the lane for the items of a lane, and by that of all lanes for their number. A claim that
// has waited too long nevertheless is released.
//
// With ranges (streamranges.go), the keys are read instead, many more in a request, and only those are
// claimed that the lease of the range does not hold.
//
// An item that shares its key with an earlier one of its lane is passed over, if it makes the same request:
// it will take that one's outcome. Nothing is claimed behind an item that must wait for an item of another
// lane. Without this rule two lanes could wait for each other.

// streamClaims is the state of a stream's claims. It is guarded by Stream.mu.
type streamClaims struct {
	lanes    fifo[*streamLane] // lanes that want claims
	wanted   int               // how many
	needed   int               // lanes that can do nothing before their next item is claimed
	ahead    int               // items that are claiming or claimed
	calls    int               // calls of Session.Claim in progress, except for items that run alone
	latency  estimate          // of these calls
	releases []*streamItem     // to be sent
	relCalls int               // calls of Session.Release in progress
	// the last answer had a key of a dead owner: more may follow, and each releases all claims
	suspects bool
	failures int         // consecutive calls without an answer of the store
	pause    *time.Timer // after a failure
	sweep    *time.Timer // releases claims that have waited too long; nil if there are none
}

func (c *streamClaims) stop() {
	for _, timer := range []*time.Timer{c.pause, c.sweep} {
		if timer != nil {
			timer.Stop()
		}
	}
}

// list updates how many claims the lane wants.
func (l *streamLane) list() {
	claims := &l.stream.claims
	n := l.claimable()
	claims.wanted += n - l.wanted
	if l.wanted = n; n > 0 && !l.listed {
		l.listed = true
		claims.lanes.push(l)
	}
	if needs := n > 0 && l.state == laneIdle; needs != l.needs {
		if l.needs = needs; needs {
			claims.needed++
		} else {
			claims.needed--
		}
	}
}

// claimable returns how many claims the lane wants.
func (l *streamLane) claimable() int {
	next := 0
	switch l.state {
	case lanePaused, laneWaiting, laneSuspect:
		return 0
	case laneRunning:
		next = 1 // the items behind the one that runs
	case laneIdle, laneReady:
	}
	if l.barred || l.within != nil && !l.within.open || len(l.queue) == l.sent || l.queue[0].unreported {
		return 0
	}
	return max(0, min(l.fit()-next-l.ahead, len(l.queue)-l.sent))
}

// fit returns how many items of the lane are estimated to begin within mayWait.
func (l *streamLane) fit() int {
	if l.stream.batch == 1 {
		return 1
	}
	latency := &l.latency
	if latency.ns.Load() == 0 {
		latency = &l.stream.scheduler.latency
	}
	return latency.fit(maxFit, l.stream.scheduler.engine.MaxPrefetchAge())
}

// aheadRequests is how many full requests are claimed ahead of handlers that are slower than the store.
const aheadRequests = 2

// maxFit bounds the estimates of how many items fit in a time.
const maxFit = 1 << 20

// room returns how many more claims may be sent, so that none waits too long.
func (st *Stream) room() int {
	slots, claims := st.scheduler.cfg.Concurrency, &st.claims
	limit := slots - st.running
	if st.batch > 1 {
		rounds := st.scheduler.latency.fit(maxFit, st.scheduler.engine.MaxPrefetchAge())
		limit = min(slots*rounds, max(slots, prefetchWindows*prefetchRequests*st.batch)) - st.running
	}
	if claims.suspects || claims.failures > 0 {
		limit = min(limit, st.batch)
	}
	return limit - claims.ahead
}

// beginSoon returns how many items the handlers are estimated to begin in twice the time in which claims are
// answered.
func (st *Stream) beginSoon() int {
	answer := 2 * time.Duration(st.claims.latency.ns.Load()) //nolint:mnd // some requests take longer than the average
	return st.scheduler.cfg.Concurrency * st.scheduler.latency.fit(maxFit, answer)
}

// sendClaims sends the claims that can be sent. If each claim is a request of its own, the workers send them;
// see work.
func (st *Stream) sendClaims() {
	if st.batch == 1 {
		return
	}
	for items := st.nextClaims(); len(items) > 0; items = st.nextClaims() {
		go func() {
			st.mu.Lock()
			defer st.mu.Unlock()
			st.claim(items)
			st.proceed()
		}()
	}
}

// nextClaims returns the items whose claims are to be sent now. The caller must call claim if there are any.
func (st *Stream) nextClaims() []*streamItem {
	items := st.collect(st.claimsToSend())
	if claims := &st.claims; len(items) > 0 {
		claims.calls++
		if claims.sweep == nil {
			claims.sweep = time.AfterFunc(st.scheduler.engine.MaxPrefetchAge()/2, st.sweepClaims) //nolint:mnd // a fraction
		}
	}
	return items
}

// claimsToSend returns how many claims are to be sent now.
func (st *Stream) claimsToSend() int {
	claims := &st.claims
	if claims.wanted == 0 || claims.pause != nil || st.isolating() || st.ended() {
		return 0
	}
	if n, down := st.claimsInOutage(); down {
		return n
	}
	soon, most := st.beginSoon(), min(claims.wanted, st.room())
	full := min(st.batch, soon)
	if n := min(most, max(soon, aheadRequests*full)-claims.ahead); n >= full {
		return min(n-n%full, prefetchRequests*st.batch)
	}
	if claims.calls == 0 && claims.needed > 0 && st.ready.len() == 0 {
		return max(0, min(most, full))
	}
	return 0
}

// collect returns up to n items to claim, of each lane in turn.
func (st *Stream) collect(n int) (items []*streamItem) {
	now := time.Now()
	lanes := &st.claims.lanes
	for lanes.len() > 0 && len(items) < n {
		l := lanes.pop()
		l.listed = false
		if l.claimable() > 0 {
			if it := l.nextUnclaimed(); it != nil {
				it.phase, it.sent = claiming, now
				l.calls++
				l.countAhead(1)
				items = append(items, it)
			}
		}
		l.list()
	}
	return items
}

// nextUnclaimed returns the next item whose claim is to be sent, nil if there is none.
func (l *streamLane) nextUnclaimed() *streamItem {
	for ; l.sent < len(l.queue); l.sent++ {
		it := l.queue[l.sent]
		if it.phase == claiming || it.phase == claimed || it.phase == sharing || it.phase == shared {
			continue
		}
		user := l.stream.keys[it.claim.Task.Key]
		switch {
		case it.phase == releasing || it.Unprotected || it.unreported || it.mustWait() > 0:
		case user == nil:
			l.sent++
			it.key = it.claim.Task.Key
			l.stream.keys[it.key] = it
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

func (l *streamLane) countAhead(n int) {
	l.ahead += n
	l.stream.claims.ahead += n
}

// claim sends claims. st.mu is held, but not until they are answered.
func (st *Stream) claim(items []*streamItem) {
	claims := make([]*idem.Claim, 0, len(items))
	var looked []*idem.Claim
	for _, it := range items {
		switch r := it.lane.within; {
		case r == nil:
			claims = append(claims, &it.claim)
		case r.byKey:
			it.claim.Enter(nil)
			claims = append(claims, &it.claim)
		default:
			it.claim.Position, it.claim.ByKey = it.Position, it.replaced
			it.claim.Enter(r.lease)
			looked = append(looked, &it.claim)
		}
	}
	st.mu.Unlock()
	st.session.LookUp(looked)
	for _, claim := range looked {
		if !claim.ByPartition() {
			claims = append(claims, claim)
		}
	}
	st.session.Claim(claims)
	st.mu.Lock()
	st.claims.latency.note(time.Since(items[0].sent))
	st.claims.calls--
	st.answered(items)
}

// answered handles the answers to claims.
func (st *Stream) answered(items []*streamItem) {
	var failed []*streamItem
	suspect := false
	for _, it := range items {
		it.lane.calls--
		it.phase = claimed
		suspect = suspect || it.claim.State() == store.ClaimLeaseOver
		switch {
		case it.claim.LeaseLost(), it.lane.within != nil && !it.lane.within.open:
			// it is looked up again under another lease
			it.unclaim()
		case st.unavailable(it):
			failed = append(failed, it)
			it.unclaim()
		case it.removed, it.lane.state == lanePaused, it.lane.state == laneWaiting, st.isolating():
			it.unclaim()
		}
		it.lane.touch()
	}
	st.claims.suspects = suspect
	st.noteFailures(failed, len(failed) == len(items))
}

// unavailable reports whether the store did not answer a claim, and the handler must not be called.
func (st *Stream) unavailable(it *streamItem) bool {
	return errors.Is(it.claim.Err(), idem.ErrStoreUnavailable) &&
		!st.scheduler.engine.FailsOpen(it.claim.Err())
}

// noteFailures delays the claims that the store has not answered. If it has answered none of a call, it
// delays all claims. One item is reported.
func (st *Stream) noteFailures(failed []*streamItem, all bool) {
	claims := &st.claims
	if !all {
		claims.failures = 0
		for _, it := range failed {
			it.notBefore = time.Now().Add(st.pauseOfClaims())
		}
	} else if claims.failures++; claims.pause == nil {
		claims.pause = time.AfterFunc(st.pauseOfClaims(), st.resumeClaims)
	}
	if len(failed) > 0 && !failed[0].removed {
		failed[0].Outcome = st.session.Run(&failed[0].claim) // does not call the handler
		failed[0].lane.report(failed[0])
	}
}

func (st *Stream) resumeClaims() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.claims.pause = nil
	st.proceed()
}

// pauseOfClaims returns the time before the next claim after the store has not answered one: at most the
// breaker's cooldown.
func (st *Stream) pauseOfClaims() time.Duration {
	cfg := st.scheduler.cfg
	cfg.MaxBackoff = max(cfg.Backoff, st.scheduler.engine.Config().BreakerCooldown)
	return cfg.pauseFor(st.claims.failures)
}

// unclaimAll releases the claims of all items that have not begun.
func (st *Stream) unclaimAll() {
	for _, l := range st.lanes {
		if l.ahead > 0 {
			l.unclaim()
		}
	}
}

// unclaim releases the claims of the lane's items that have not begun. Of a lane whose next item is to be
// handled alone, the items stay that must be handled alone after it.
func (l *streamLane) unclaim() {
	keep, left := l.state == laneSuspect, l.ahead
	for i := 0; left > 0 && i < len(l.queue); i++ {
		it := l.queue[i]
		if it.phase == claiming || it.phase == claimed {
			left--
		}
		if keep = keep && it.phase == claimed && it.claim.State() == store.ClaimLeaseOver; !keep &&
			it.phase == claimed {
			it.unclaim()
		}
	}
	l.sent, l.barred = 0, false
	l.touch()
}

// unclaim releases the claim of an item that has not begun.
func (it *streamItem) unclaim() {
	l := it.lane
	l.countAhead(-1)
	if it.claim.State() != store.Claimed {
		it.phase = queued
		it.freeKey()
		return
	}
	it.phase = releasing
	l.calls++
	l.stream.claims.releases = append(l.stream.claims.releases, it)
}

// sendReleases sends the releases that are to be sent.
func (st *Stream) sendReleases() {
	if items := st.claims.releases; len(items) > 0 {
		st.claims.releases = nil
		st.claims.relCalls++
		go st.release(items)
	}
}

func (st *Stream) release(items []*streamItem) {
	claims := make([]*idem.Claim, len(items))
	for i, it := range items {
		claims[i] = &it.claim
	}
	st.session.Release(claims)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.claims.relCalls--
	for _, it := range items {
		it.phase = queued
		it.lane.calls--
		it.lane.sent, it.lane.barred = 0, false
		it.freeKey()
		it.lane.touch()
	}
	st.proceed()
}

// sweepClaims releases claims that have waited too long, and raises the estimates that were wrong.
func (st *Stream) sweepClaims() {
	st.mu.Lock()
	defer st.mu.Unlock()
	claims := &st.claims
	claims.sweep = nil
	mayWait := st.scheduler.engine.MaxPrefetchAge()
	for _, l := range st.lanes {
		waited := l.waited()
		if waited < mayWait {
			continue
		}
		if l.unclaim(); l.state == laneRunning {
			l.latency.raise(waited)
		} else {
			st.scheduler.latency.raise(waited)
		}
	}
	if claims.ahead > 0 && !st.ended() {
		claims.sweep = time.AfterFunc(mayWait/2, st.sweepClaims) //nolint:mnd // a fraction
	}
	st.proceed()
}

// waited returns how long the lane's first claim has waited.
func (l *streamLane) waited() time.Duration {
	if l.ahead == 0 {
		return 0
	}
	for _, it := range l.queue {
		if it.phase == claimed {
			return time.Since(it.sent)
		}
	}
	return 0
}
