package schedule

import (
	"errors"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// The requests of a driver to the store. d.mu is not held while they are answered.

// claim claims the keys of items, or reads them under the lease of their range.
func (d *driver) claim(items []*Item) {
	d.mu.Lock()
	defer d.unlock()
	claims := make([]*idem.Claim, 0, len(items))
	var looked []*idem.Claim
	for _, it := range items {
		it.claim.TakeOver = it.takesOver
		switch s := it.lane.within; {
		case s == nil:
			claims = append(claims, &it.claim)
		case d.machine.once:
			if s.lease.Held() {
				it.claim.Enter(s.lease)
			}
			claims = append(claims, &it.claim)
		case s.byKey:
			it.claim.Enter(nil)
			claims = append(claims, &it.claim)
		default:
			it.claim.Position, it.claim.ByKey = it.Position, it.replaced
			it.claim.Enter(s.lease)
			looked = append(looked, &it.claim)
		}
	}
	d.unlock()
	d.session.LookUp(looked)
	for _, claim := range looked {
		if !claim.ByPartition() {
			claims = append(claims, claim)
		}
	}
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
	return answer{state: it.claim.State(), delayed: it.claim.Delayed(), lost: it.claim.LeaseLost(),
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

// hold claims the lease of a range.
func (d *driver) hold(s *span) {
	d.mu.Lock()
	defer d.unlock()
	if s.claim == nil {
		lease := &idem.Range{Key: s.key, Source: s.source}
		lease.Lost = func() { go d.lost(s, lease) }
		s.claim = lease
	}
	lease, from := s.claim, s.from
	d.unlock()
	if d.machine.once {
		d.session.ClaimRanges([]*idem.Range{lease})
	} else {
		d.session.HoldRange(lease, from)
	}
	d.mu.Lock()
	d.step(d.held(s))
}

// held returns the answer to the claim of a range's lease.
func (d *driver) held(s *span) held {
	lease := s.claim
	e := held{span: s, lease: lease, ok: lease.Held()}
	if e.ok {
		s.claim = nil
	} else {
		e.err = lease.Err()
		e.open = d.scheduler.engine.FailsOpen(e.err)
		e.down = errors.Is(e.err, idem.ErrStoreUnavailable)
	}
	if lease.InFlight() {
		e.wait, e.waits = d.session.WaitTime(lease.Lease())
	}
	for _, it := range s.items {
		it.answer = d.answer(it)
		it.answer.kept = it.claim.ByPartition()
	}
	return e
}

func (d *driver) lost(s *span, lease *idem.Range) {
	d.pass(leaseLost{s, lease})
}

// leave releases the lease of a range.
func (d *driver) leave(s *span) {
	d.mu.Lock()
	defer d.unlock()
	lease := s.lease
	d.unlock()
	if lease != nil {
		d.session.ReleaseRanges(lease)
	}
	d.mu.Lock()
	close(s.left)
}
