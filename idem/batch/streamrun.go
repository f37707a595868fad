package batch

import (
	"errors"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// A stream has at most Config.Concurrency workers, which are started when they are needed and end with the
// stream. A worker handles one item of each ready lane in turn, and waits when there is none. A worker takes
// many items because its stack has already grown to the size that a handler needs. If each claim is a request
// of its own, a worker also sends claims, because no claim is sent then for which there would be no worker
// when it is answered.
//
// A key whose owner's lease is over is taken over as in isolate.go: while it is the next of its lane, no
// other handler begins, no claim is sent, and all claims are released. When nothing is in progress any more,
// a worker claims the key and handles the item.

// startWorker wakes or starts a worker if there is work for it. Only one is being started at a time; it
// starts the next one.
func (st *Stream) startWorker() {
	if st.starting || st.idle == 0 && st.workers == st.scheduler.cfg.Concurrency || !st.hasWork() {
		return
	}
	st.starting = true
	if st.idle > 0 {
		st.wake.Signal()
		return
	}
	st.workers++
	go st.work()
}

// hasWork reports whether there is work for one more worker.
func (st *Stream) hasWork() bool { return st.runnable() || st.batch == 1 && st.claimsToSend() > 0 }

// runnable reports whether a lane may begin an item.
func (st *Stream) runnable() bool {
	switch {
	case st.ended():
		return false
	case st.isolating():
		claims := &st.claims
		return !st.alone && st.running == 0 && claims.calls == 0 && claims.relCalls == 0 &&
			len(claims.releases) == 0
	}
	return st.ready.len() > 0
}

// isolate lets a lane's next item be handled alone.
func (st *Stream) isolate(l *streamLane) {
	st.suspects.push(l)
	if st.suspects.len() == 1 {
		st.unclaimAll()
	}
}

// isolating reports whether an item is to be handled alone, or is being.
func (st *Stream) isolating() bool { return st.alone || st.suspects.len() > 0 }

func (st *Stream) work() {
	st.mu.Lock()
	st.starting = false
	defer func() { // deferred, because a handler may end its goroutine
		st.workers--
		st.proceed()
		st.mu.Unlock()
	}()
	for !st.closed {
		if it := st.next(); it != nil {
			st.advance()
			st.handle(it)
		} else if !st.claimAsWorker() {
			st.waitForWork()
		}
	}
}

// claimAsWorker sends claims if workers send them; false if there are none.
func (st *Stream) claimAsWorker() bool {
	if st.batch > 1 {
		return false
	}
	items := st.nextClaims()
	if len(items) == 0 {
		return false
	}
	st.advance()
	st.claim(items)
	st.proceed()
	return true
}

// waitForWork waits until startWorker or Close wakes the worker. It returns at once if there is work.
func (st *Stream) waitForWork() {
	if st.proceed(); st.closed || st.hasWork() {
		return
	}
	st.idle++
	st.wake.Wait()
	st.idle--
	st.starting = false
}

// next begins an item; nil if there is none.
func (st *Stream) next() *streamItem {
	for st.runnable() {
		if st.suspects.len() > 0 {
			l := st.suspects.pop()
			if l.state == laneSuspect && l.headIsSuspect() {
				st.alone = true
				return l.begin()
			}
			l.wake(laneSuspect)
			continue
		}
		l := st.ready.pop()
		if l.state == laneReady && l.headIsReady() {
			return l.begin()
		}
		l.wake(laneReady) // its claim was released
	}
	return nil
}

func (l *streamLane) headIsSuspect() bool {
	return len(l.queue) > 0 && l.queue[0].phase == claimed && l.queue[0].claim.State() == store.ClaimLeaseOver
}

func (l *streamLane) headIsReady() bool {
	return len(l.queue) > 0 && (l.queue[0].phase == claimed || l.queue[0].Unprotected &&
		!l.queue[0].unreported)
}

// handle handles an item. st.mu is held, but not while the handler runs.
func (st *Stream) handle(it *streamItem) {
	alone := st.alone
	st.mu.Unlock()
	began := time.Now()
	returned := false
	defer func() {
		if !returned { // the handler has ended its goroutine
			st.tried(it, idem.Outcome{Kind: idem.Retry, Err: errExited})
		}
		if took := time.Since(began); !alone {
			it.lane.latency.note(took)
			st.scheduler.latency.note(took)
		}
		st.mu.Lock()
		st.endTurn(it)
		st.proceed()
	}()
	switch {
	case it.Unprotected:
		st.tried(it, st.session.RunUnprotected(&it.claim.Task))
	case alone:
		st.handleAlone(it)
	default:
		st.session.RunAsync(&it.claim, func(out idem.Outcome) { st.tried(it, out) })
	}
	returned = true
}

// handleAlone takes a key over and handles its item.
func (st *Stream) handleAlone(it *streamItem) {
	st.session.WaitForCommits()
	it.claim.TakeOver = true
	st.session.Claim([]*idem.Claim{&it.claim})
	it.claim.TakeOver = false
	if it.waits() { // another process was faster
		st.mu.Lock()
		it.known, it.again = true, true
		st.mu.Unlock()
		return
	}
	out := st.session.Run(&it.claim)
	if errors.Is(it.claim.Err(), idem.ErrStoreUnavailable) {
		// The key may have been taken over. Sent again, the claim would recognise itself, and the item would
		// not be alone.
		it.claim = idem.Claim{Task: it.claim.Task}
	}
	st.tried(it, out)
}

// tried records the outcome of an item that has begun.
func (st *Stream) tried(it *streamItem, out idem.Outcome) {
	again := false
	if it.refuse(&out) {
		again = it.replace()
	} else {
		it.Outcome = out
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	it.known, it.again = true, again
	if it.returned { // otherwise endTurn follows
		it.conclude()
		st.proceed()
	}
}

// endTurn ends the turn of a lane whose item's handler has returned.
func (st *Stream) endTurn(it *streamItem) {
	st.running--
	st.alone = false
	it.returned = true
	if it.known {
		it.conclude()
	} else {
		it.wakeWaiting()
	}
	it.lane.wake(laneRunning)
}
