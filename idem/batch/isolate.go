package batch

import (
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// This file is the take-over protocol of rule 7. A key whose owner's lease is over may belong to a message
// that kills its process. So the first claim does not take the key (Claim.TakeOver is false), but only
// reports it. The second claim takes it, while no other item of the process is in progress or claimed. If the
// process dies again, only this message is charged an attempt.

// claimAndRun claims an item's key, waits while it is in flight elsewhere, and runs the item. If the lease of
// the key's owner is over, the item runs alone.
func (l *lane) claimAndRun(it *Item) idem.Outcome {
	session, claim := l.run.session, &it.claim
	if it.claimed && claim.State() == store.ClaimUnknown {
		return session.Run(claim)
	}
	alone := false
	for claimed := it.claimed; ; claimed = false {
		if !claimed {
			out := l.tryOnce(claim, alone)
			switch {
			case out.Kind == idem.NotStarted && claim.State() == store.ClaimInFlight:
				// its time ended while it waited for the key
				return session.Run(claim)
			case out.Kind != idem.KindUnknown:
				return out
			}
		}
		alone = claim.State() == store.ClaimLeaseOver
		if !alone && !session.Wait(claim) { // it holds no slot while it waits
			return session.Run(claim)
		}
	}
}

// tryOnce claims a key and runs its item. If the item must wait for the key, the returned outcome is zero.
func (l *lane) tryOnce(claim *idem.Claim, alone bool) idem.Outcome {
	claims := [1]*idem.Claim{claim}
	slots := int64(1)
	if claim.TakeOver = alone; alone {
		slots = int64(l.run.scheduler.cfg.Concurrency)
	}
	return l.withSlots(slots, func() idem.Outcome {
		if alone {
			l.run.empty()
		}
		l.run.session.Claim(claims[:])
		if s := claim.State(); s == store.ClaimInFlight || (s == store.ClaimLeaseOver && !alone) {
			return idem.Outcome{}
		}
		return l.run.session.Run(claim)
	})
}

// empty releases all claims that have not begun, and waits for the completions in progress. The caller holds
// all slots.
func (r *run) empty() {
	r.prefetcher.wait()
	if r.releaseClaims(func(*lane) bool { return true }) {
		r.prefetcher.restart()
	}
	r.session.WaitForCommits()
}
