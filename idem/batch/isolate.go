package batch

import (
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// This file is the take-over protocol of rule 7. A key whose owner's lease is over may belong to a message that kills its
// process. So the first claim does not take it (Ticket.TakeOver is false), but only finds it; the second, which does, is made
// with nothing else of the process begun or claimed. If the process dies again, this message is the only one that is charged
// an attempt, and attempts run out for it alone.

// claimAndRun claims an item's key, waiting while it is in flight elsewhere, and runs it; alone, if its owner's lease is over.
func (l *lane) claimAndRun(it *Item) idem.Outcome {
	session, claim := l.run.session, &it.ticket
	if it.claimed && claim.State() == store.ClaimUnknown {
		return session.Run(claim)
	}
	alone := false
	for claimed := it.claimed; ; claimed = false {
		if !claimed {
			out := l.tryOnce(claim, alone)
			switch {
			case out.Kind == idem.NotStarted && claim.State() == store.ClaimInFlight: // its time ran out while it waited for the key
				return session.Run(claim)
			case out.Kind != idem.KindUnknown:
				return out
			}
		}
		alone = claim.State() == store.ClaimLeaseOver
		if !alone && !session.Wait(claim) { // without a slot: others get on meanwhile
			return session.Run(claim)
		}
	}
}

// tryOnce claims a ticket and runs it, unless that has to wait: then the outcome is none.
func (l *lane) tryOnce(claim *idem.Claim, alone bool) idem.Outcome {
	tickets := [1]*idem.Claim{claim}
	slots := int64(1)
	if claim.TakeOver = alone; alone {
		slots = int64(l.run.scheduler.concurrency)
	}
	return l.withSlots(slots, func() idem.Outcome {
		if alone {
			l.run.empty()
		}
		l.run.session.Claim(tickets[:])
		if s := claim.State(); s == store.ClaimInFlight || (s == store.ClaimLeaseOver && !alone) {
			return idem.Outcome{}
		}
		return l.run.session.Run(claim)
	})
}

// empty gives back all claims that no lane has begun, and waits for the completions under way. The caller holds all slots.
func (r *run) empty() {
	r.heads.wait()
	if r.giveBack(func(*lane) bool { return true }) {
		r.heads.again()
	}
	r.session.WaitForCommits()
}
