package batch

import (
	"context"

	"github.com/idemsk/idemsk/idem"
)

// Range is a sequence of items that one lease holds (idem.Config.ClaimByRange), such as the records of a partition.
type Range struct {
	Key    string  // of the lease; it must not be the key of a task
	Source string  // the place of the first message, for errors
	Items  []*Item // in the order of their positions; a lane has items of one range
}

// held is a range of a run.
type held struct {
	lease idem.Range
	items []*Item
	ready chan struct{} // closed when the items may begin
}

func (h *held) isReady() bool {
	select {
	case <-h.ready:
		return true
	default:
		return false
	}
}

// RunRanges is Run for items of which ranges hold some or all. It claims the leases first, and releases them at the end.
func (s *Scheduler) RunRanges(ctx context.Context, lanes [][]*Item, ranges []Range) (overruns []*Item) {
	session := s.engine.Session(ctx)
	defer session.Close()
	r := newRun(s, session, lanes)
	r.claimRanges(ranges)
	if overruns = r.run(); len(overruns) > 0 {
		r.abandonRanges()
	} else {
		r.releaseRanges()
	}
	return overruns
}

// claimRanges claims the leases. The items of a range whose lease is in flight elsewhere wait for it while the others run.
func (r *run) claimRanges(ranges []Range) {
	leases := make([]*idem.Range, 0, len(ranges))
	r.ranges = make([]*held, 0, len(ranges))
	for i := range ranges {
		h := &held{items: ranges[i].Items, ready: make(chan struct{})}
		h.lease = idem.Range{Key: ranges[i].Key, Source: ranges[i].Source, Claims: make([]*idem.Claim, len(h.items))}
		for n, it := range h.items {
			it.claim.Position, it.claim.ByKey, it.within = it.Position, it.group != nil || it.Unprotected, h
			h.lease.Claims[n] = &it.claim
		}
		leases, r.ranges = append(leases, &h.lease), append(r.ranges, h)
	}
	r.session.ClaimRanges(leases)
	for _, h := range r.ranges {
		if h.lease.InFlight() {
			go r.await(h)
			continue
		}
		h.open()
	}
}

// await waits for a lease that is in flight elsewhere.
func (r *run) await(h *held) {
	defer h.open()
	for h.lease.InFlight() && r.session.WaitRange(&h.lease) {
		r.session.ClaimRanges([]*idem.Range{&h.lease})
	}
}

// open lets the items of a range begin. An item without a result of its range is claimed by its key.
func (h *held) open() {
	for _, it := range h.items {
		it.claimed = it.claim.ByRange()
	}
	close(h.ready)
}

// waitForRange waits until the items of the lane may begin. The lane holds no slot meanwhile.
func (l *lane) waitForRange() {
	if h := l.items[0].within; h != nil && !h.isReady() {
		l.releaseSlot()
		<-h.ready
	}
}

// releaseRanges releases the leases. All lanes have ended.
func (r *run) releaseRanges() {
	leases := make([]*idem.Range, len(r.ranges))
	for i, h := range r.ranges {
		<-h.ready // of a range none of whose lanes has started
		n := 0
		for n < len(h.items) && h.items[n].Settled() {
			n++
		}
		h.lease.Settled, leases[i] = n, &h.lease
	}
	r.session.ReleaseRanges(leases)
}

// abandonRanges leaves the leases to end by themselves, because handlers have not returned.
func (r *run) abandonRanges() {
	for _, h := range r.ranges {
		if h.isReady() {
			r.session.AbandonRange(&h.lease)
		}
	}
}

// byRange reports whether the item's range gave its claim the result.
func (it *Item) byRange() bool { return it.within != nil && it.claim.ByRange() }
