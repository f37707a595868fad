package schedule

import (
	"errors"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// The requests of a driver to the store. d.mu is not held while they are answered.

// claim claims the keys of items.
func (d *driver) claim(items []*Item) {
	d.mu.Lock()
	defer d.unlock()
	claims := make([]*idem.Claim, len(items))
	for i, it := range items {
		it.claim.TakeOver = it.takesOver
		claims[i] = &it.claim
	}
	d.unlock()
	d.session.Claim(claims)
	d.mu.Lock()
	for _, it := range items {
		it.claim.TakeOver = false
		it.answer = d.answer(it)
	}
	d.step(claimsAnswered{items})
}

// answer returns the answer to an item's claim.
func (d *driver) answer(it *Item) answer {
	err := it.claim.Err()
	down := errors.Is(err, idem.ErrStoreUnavailable)
	open := down && d.scheduler.engine.FailsOpen(err)
	return answer{state: it.claim.State(), delayed: it.claim.Delayed(),
		down: down && !open, open: open, failed: it.claim.State() == store.Claimed && it.claim.FailedBefore(),
		beside: d.scheduler.engine.MayTakeOverBeside(&it.claim)}
}

// unclaim releases the claims of items.
func (d *driver) unclaim(items []*Item) {
	d.mu.Lock()
	defer d.unlock()
	claims := make([]*idem.Claim, len(items))
	for i, it := range items {
		claims[i] = &it.claim
	}
	d.unlock()
	d.session.Release(claims)
	d.mu.Lock()
	d.step(released{items})
}
