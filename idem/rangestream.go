package idem

import (
	"fmt"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// This file is about ranges without an end: those of the partitions that are assigned to a consumer process.
// The lease is held as long as the caller wants, and the tasks come while it is held (rule P7 in
// docs/design.md).

// reservedPositions is how many positions behind a task that is looked up are reserved with one write of the
// lease. So many tasks are claimed by key if their owner dies, and one write for so many costs next to
// nothing.
const reservedPositions = 2000

// HoldRange claims the lease of a range whose tasks are not known yet. Afterwards Held, InFlight or Err
// reports the result. If the lease is in flight elsewhere, the caller may wait for Session.WaitTime of Lease
// and call HoldRange again. A lease that is held is extended until ReleaseRanges, or until it is lost
// (Range.Lost): then the contexts of the handlers under it end, none begins, and the caller may hold another
// Range with the same Key.
//
// position is that of a task that is known, or any before it.
func (s *Session) HoldRange(r *Range, position int64) {
	if c := &r.lease; c.span == nil {
		c.Task, c.TakeOver = Task{Key: r.Key, Source: r.Source}, true
		c.span = &store.Range{End: position + reservedPositions}
		r.reserving = make(chan struct{}, 1)
	}
	s.Claim([]*Claim{&r.lease})
	if r.Held() {
		r.begin(s)
	}
}

// Err returns why the lease is not held.
func (r *Range) Err() error { return r.notHeldError() }

func (r *Range) isLost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost != nil
}

// LookUp gives claims their results, as ClaimRanges does: a claim for which ByPartition reports false must be
// claimed by Session.Claim. Each has entered a range that is held (Claim.Enter). Before a task is looked up,
// its position has been written to the lease, so that the next owner knows what may have begun. A task that
// is looked up again after its handler ran is claimed by key.
func (s *Session) LookUp(claims []*Claim) {
	reserved := make(map[*Range]error)
	for _, claim := range claims {
		err, known := reserved[claim.membership.within]
		if !known {
			err = claim.membership.within.reserve(claims)
			reserved[claim.membership.within] = err
		}
		if err != nil {
			claim.membership.answered, claim.res.Err = true, err
		}
	}
	s.read(claims, time.Now())
}

// reserve writes the end of the range to its lease if it is not behind the positions of all claims of the
// range.
func (r *Range) reserve(claims []*Claim) error {
	r.reserving <- struct{}{}
	defer func() { <-r.reserving }()
	end := r.lease.span.End
	for _, claim := range claims {
		if claim.membership.within == r {
			end = max(end, claim.Position+1)
		}
	}
	if end == r.lease.span.End {
		return nil
	}
	next := store.Range{End: end + reservedPositions, Till: r.till}
	if err := r.beat.extendWith(&next); err != nil {
		if isStoreFault(err) {
			err = unavailableStore(err)
		}
		return fmt.Errorf("the lease of the range from %s was not extended: %w", r.Source, err)
	}
	r.lease.span.End = next.End
	return nil
}
