package schedule

import (
	"context"
	"time"
)

// Run executes the items of the lanes and returns when each has ended. If ctx has a deadline, Run returns
// before it in any case. It then returns the items whose handlers have not returned, which have the State
// Overrun. The process should then end.
func (s *Scheduler) Run(ctx context.Context, lanes [][]*Item) (overruns []*Item) {
	session := s.engine.Session(ctx)
	defer session.Close()
	d := newDriver(s, session, true, nil)
	defer d.close()
	for _, items := range lanes {
		for _, it := range items {
			it.claim.Task = it.Task
		}
	}
	d.mu.Lock()
	d.step(given{lanes, twinsOf(lanes)})
	d.unlock()
	var late <-chan time.Time
	if at, bounded := session.GiveUpAt(); bounded { // the last of its contexts has ended by then
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-d.finished:
		return nil
	case <-late:
	}
	d.mu.Lock()
	defer d.unlock()
	return d.machine.giveUp()
}
