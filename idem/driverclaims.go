package idem

import (
	"errors"

	"github.com/idemsk/idemsk/idem/internal/machine"
	"github.com/idemsk/idemsk/idem/store"
)

// The requests of a driver to the store. d.mu is not held while they are answered.

// claim claims the keys of items.
func (d *driver) claim(items []*machine.Item) {
	d.mu.Lock()
	defer d.unlock()
	claims := claimsOf(items)
	for i, it := range items {
		claims[i].TakeOver = it.TakesOver()
	}
	d.unlock()
	d.session.Claim(claims)
	d.mu.Lock()
	for i, it := range items {
		claims[i].TakeOver = false
		it.Answer = d.answer(itemOf(it))
	}
	d.step(machine.Answered{Items: items})
}

func claimsOf(items []*machine.Item) []*claim {
	claims := make([]*claim, len(items))
	for i, it := range items {
		claims[i] = &itemOf(it).claim
	}
	return claims
}

// answer returns the answer to an item's claim.
func (d *driver) answer(it *Item) machine.Answer {
	claim, engine := &it.claim, d.scheduler.engine
	switch claim.res.State {
	case store.Claimed:
		if claim.FailedBefore() {
			return machine.ClaimedAlone
		}
		return machine.Claimed
	case store.ClaimCompleted:
		return machine.Completed
	case store.ClaimInFlight:
		if claim.delayed() {
			return machine.Delayed
		}
		return machine.InFlight
	case store.ClaimLeaseOver:
		if engine.mayTakeOverBeside(claim) {
			return machine.TakeOver
		}
		return machine.LeaseOver
	case store.ClaimUnknown, store.ClaimFailed:
	}
	switch err := claim.res.Err; {
	case !errors.Is(err, ErrStoreUnavailable):
		return machine.Ends
	case engine.failsOpen(err):
		return machine.FailsOpen
	}
	return machine.Down
}

// unclaim releases the claims of items.
func (d *driver) unclaim(items []*machine.Item) {
	d.mu.Lock()
	defer d.unlock()
	claims := claimsOf(items)
	d.unlock()
	d.session.Release(claims)
	d.mu.Lock()
	d.step(machine.Released{Items: items})
}
