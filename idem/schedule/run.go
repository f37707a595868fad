package schedule

import (
	"context"
	"time"

	"github.com/idemsk/idemsk/idem"
)

// Run executes the items of the lanes and returns when each has ended. If ctx has a deadline, Run returns
// before it in any case. It then returns the items whose handlers have not returned, which have the State
// Overrun. The process should then end.
//
// The leases of ranges hold their items: they are claimed first, and released at the end. Items of the lanes
// that belong to no range are claimed by their keys.
func (s *Scheduler) Run(ctx context.Context, lanes [][]*Item, ranges ...Range) (overruns []*Item) {
	session := s.engine.Session(ctx)
	defer session.Close()
	d := newDriver(s, session, true, nil)
	defer d.close()
	for _, items := range lanes {
		for _, it := range items {
			it.claim.Task = it.Task
		}
	}
	twins := twinsOf(lanes)
	leases := d.claimRanges(ranges, twins)
	d.mu.Lock()
	d.step(given{lanes, twins})
	d.unlock()
	var late <-chan time.Time
	if at, bounded := session.GiveUpAt(); bounded { // the last of its contexts has ended by then
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-d.finished:
		session.ReleaseRanges(leases...)
		return nil
	case <-late:
	}
	d.mu.Lock()
	overruns = d.machine.giveUp()
	d.unlock()
	for _, lease := range leases { // handlers have not returned, so they end by themselves
		lease.Abandon()
	}
	return overruns
}

// claimRanges claims the leases of a batch, and reads the keys of their items.
func (d *driver) claimRanges(ranges []Range, twins map[string][]*Item) (leases []*idem.Range) {
	spans := make([]*span, len(ranges))
	for i, r := range ranges {
		s := d.machine.newSpan(r.Key, r.Source)
		s.items, s.claim = r.Items, &idem.Range{Key: r.Key, Source: r.Source,
			Claims: make([]*idem.Claim, len(r.Items))}
		for n, it := range r.Items {
			_, twin := twins[it.Task.Key]
			it.claim.Position, it.claim.ByKey, it.within = it.Position, it.Unprotected || twin, s
			s.claim.Claims[n] = &it.claim
		}
		spans[i], leases = s, append(leases, s.claim)
	}
	d.session.ClaimRanges(leases)
	d.mu.Lock()
	defer d.unlock()
	for _, s := range spans {
		d.step(d.held(s))
	}
	return leases
}
