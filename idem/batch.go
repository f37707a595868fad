package idem

import (
	"context"
	"time"

	"github.com/idemsk/idemsk/idem/internal/machine"
)

// Run executes the items of the lanes and returns when each has ended. If ctx has a deadline, Run returns
// before it in any case. It then returns the items whose handlers have not returned, which have the State
// ItemOverrun. The process should then end.
func (s *Scheduler) Run(ctx context.Context, lanes [][]*Item) (overruns []*Item) {
	session := s.engine.newSession(ctx)
	defer session.Close()
	d := newDriver(s, session, true, nil)
	defer d.close()
	given := machine.Given{Lanes: make([][]*machine.Item, len(lanes))}
	for n, items := range lanes {
		for _, it := range items {
			given.Lanes[n] = append(given.Lanes[n], it.enter())
		}
	}
	d.mu.Lock()
	d.step(given)
	d.unlock()
	var late <-chan time.Time
	if at, bounded := session.GiveUpAt(); bounded { // the last of its contexts has ended by then
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-d.finished:
	case <-late:
		overruns = d.giveUp()
	}
	for _, items := range lanes {
		for _, it := range items {
			it.close(session.handlers.Err())
		}
	}
	return overruns
}

// giveUp returns the items of a batch whose handlers have not returned. Nothing is written to its items any more.
func (d *driver) giveUp() (overruns []*Item) {
	d.mu.Lock()
	defer d.unlock()
	over, behind := d.machine.GiveUp()
	for _, it := range itemsOf(behind) {
		it.State = ItemBehindOverrun
	}
	overruns = itemsOf(over)
	for _, it := range overruns {
		it.State = ItemOverrun
	}
	return overruns
}
