package batch

import "time"

// During an outage of what handlers need (idem.Config.OutageFailures) a stream releases the claims that it
// has sent ahead, and sends one at a time, when the engine lets a task try the handler. Items that have
// failed or were refused wait until then. All go on when the outage ends.

// streamOutage is the state of a stream during an outage. It is guarded by Stream.mu.
type streamOutage struct {
	began bool        // an item was held back, and no outage has ended since
	timer *time.Timer // sends the next claim; nil if it is not set
}

// hold begins to hold items back, or goes on.
func (st *Stream) hold() {
	st.outage.began = true
	st.outage.stop()
	st.unclaimAll()
}

// claimsInOutage returns how many claims are to be sent during an outage, and whether there is one.
func (st *Stream) claimsInOutage() (n int, down bool) {
	wait, down := st.scheduler.engine.HandlerDown()
	switch {
	case !down:
		return 0, false
	case wait == 0:
		return max(0, 1-st.claims.ahead-st.running), true
	case st.outage.timer == nil:
		st.outage.timer = time.AfterFunc(wait, st.tryHandler)
	}
	return 0, true
}

func (st *Stream) tryHandler() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.outage.timer = nil
	st.proceed()
}

// endOutage lets all items go on if an outage has ended.
func (st *Stream) endOutage() {
	if !st.outage.began {
		return
	}
	if _, down := st.scheduler.engine.HandlerDown(); down {
		return
	}
	st.outage.began = false
	st.outage.stop()
	for _, l := range st.lanes {
		for _, it := range l.queue {
			if it.held {
				it.held, it.notBefore = false, time.Time{}
				l.wake(lanePaused)
			}
		}
	}
}

func (o *streamOutage) stop() {
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
}
