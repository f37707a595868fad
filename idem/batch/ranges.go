package batch

import "github.com/idemsk/idemsk/idem"

// Range is a sequence of items that one lease holds (idem.Config.ClaimByPartition), such as the records of a
// partition.
type Range struct {
	Key    string  // of the lease; it must not be the key of a task
	Source string  // the place of the first message, for errors
	Items  []*Item // in the order of their positions; a lane has items of one range
}

// leases are the ranges of a run.
type leases struct {
	session *idem.Session
	ranges  []*held
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

// claimRanges claims the leases of ranges. The items of a range whose lease is in flight elsewhere are not
// ready until it is claimed, or the time to wait for it has ended. The claims of the items have their tasks,
// and byKey reports which keys are not those of one item.
func claimRanges(session *idem.Session, ranges []Range, byKey func(*Item) bool) leases {
	l := leases{session: session, ranges: make([]*held, len(ranges))}
	all := make([]*idem.Range, len(ranges))
	for i := range ranges {
		h := &held{items: ranges[i].Items, ready: make(chan struct{})}
		h.lease = idem.Range{Key: ranges[i].Key, Source: ranges[i].Source,
			Claims: make([]*idem.Claim, len(h.items))}
		for n, it := range h.items {
			it.claim.Position, it.claim.ByKey, it.within = it.Position, it.Unprotected || byKey(it), h
			h.lease.Claims[n] = &it.claim
		}
		all[i], l.ranges[i] = &h.lease, h
	}
	session.ClaimRanges(all)
	for _, h := range l.ranges {
		if h.lease.InFlight() {
			go l.await(h)
			continue
		}
		h.open()
	}
	return l
}

// await waits for a lease that is in flight elsewhere.
func (l leases) await(h *held) {
	defer h.open()
	for h.lease.InFlight() && l.session.Wait(h.lease.Lease()) {
		l.session.ClaimRanges([]*idem.Range{&h.lease})
	}
}

// open lets the items of a range begin. An item without a result of its range is claimed by its key.
func (h *held) open() {
	for _, it := range h.items {
		it.claimed = it.claim.ByPartition()
	}
	close(h.ready)
}

// release releases the leases. All items have ended.
func (l leases) release() {
	all := make([]*idem.Range, len(l.ranges))
	for i, h := range l.ranges {
		<-h.ready // of a range none of whose items was tried
		all[i] = &h.lease
	}
	l.session.ReleaseRanges(all...)
}

// abandon leaves the leases to end by themselves, because handlers have not returned.
func (l leases) abandon() {
	for _, h := range l.ranges {
		if h.isReady() {
			h.lease.Abandon()
		}
	}
}

// waitForRange waits until the items of the lane may begin. The lane holds no slot meanwhile.
func (l *lane) waitForRange() {
	if !l.items[0].ready() {
		l.releaseSlot()
		<-l.items[0].within.ready
	}
}

// ready reports whether the item may begin: its range, if it has one, is claimed.
func (it *Item) ready() bool { return it.within == nil || it.within.isReady() }

// byPartition reports whether the item's range gave its claim the result.
func (it *Item) byPartition() bool { return it.within != nil && it.claim.ByPartition() }
