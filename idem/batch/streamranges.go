package batch

import (
	"errors"
	"time"

	"github.com/idemsk/idemsk/idem"
)

// A stream holds the lease of each range of its items (Item.Range) from the first item until Stop. The keys
// of the items are read ahead, under the lease, in the place of claims ahead; an item that the lease does not
// hold is claimed by its key (streamclaims.go). While the lease is not held, no item of the range begins. If
// it is lost, it is claimed again, as by another owner: what was looked up is looked up again.

// streamRange is a range of a stream. Its fields are guarded by Stream.mu.
type streamRange struct {
	stream  *Stream
	key     string
	source  string
	last    int64         // the highest position of its items
	lease   *idem.Range   // the last one that was held; nil if none was
	open    bool          // items may be looked up, or claimed by key
	byKey   bool          // they are claimed by key, see idem.Engine.FailsOpen
	claimed chan struct{} // closed when no claim of the lease is in progress
	stopped chan struct{} // closed by Stop
	left    chan struct{} // closed when the lease was released, or left to end

	lanes []*streamLane // that had not ended when the range was stopped
}

// rangeOf returns the range of an item, nil if it has none. It begins one that is new.
func (st *Stream) rangeOf(it *Item) *streamRange {
	if it.Range == "" {
		return nil
	}
	r := st.ranges[it.Range]
	if r == nil {
		r = &streamRange{stream: st, key: it.Range, source: it.Task.Source, last: it.Position,
			stopped: make(chan struct{}), left: make(chan struct{})}
		st.ranges[it.Range] = r
		r.hold()
	}
	return r
}

// hold claims the lease. Stream.mu is held.
func (r *streamRange) hold() {
	claimed, last := make(chan struct{}), r.last
	r.claimed = claimed
	lease := &idem.Range{Key: r.key, Source: r.source}
	lease.Lost = func() { go r.lost(lease, claimed) }
	go func() {
		defer close(claimed)
		for n := 1; ; n++ {
			r.claim(lease, last)
			pause, again := r.answered(lease, n)
			if !again || !r.sleep(pause) {
				return
			}
		}
	}()
}

// claim claims the lease, and waits while it is in flight elsewhere.
func (r *streamRange) claim(lease *idem.Range, last int64) {
	session := r.stream.session
	for {
		session.HoldRange(lease, last)
		if !lease.InFlight() {
			return
		}
		r.elsewhere()
		if pause, ok := session.WaitTime(lease.Lease()); !ok || !r.sleep(pause) {
			return
		}
	}
}

// sleep waits for d; false if the range or the stream ends first.
func (r *streamRange) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.stopped:
	case <-r.stream.session.Handlers().Done():
	}
	return false
}

// answered handles the answer to the nth claim of the lease. It returns the time before the next one, if
// there is to be one.
func (r *streamRange) answered(lease *idem.Range, n int) (pause time.Duration, again bool) {
	st := r.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	if lease.Held() {
		r.lease = lease
		r.begin(false)
		st.proceed()
		return 0, false
	}
	if isClosed(r.stopped) || st.ended() {
		return 0, false
	}
	cfg := st.scheduler.cfg
	err := lease.Err()
	if st.scheduler.engine.FailsOpen(err) {
		r.begin(true)
	} else {
		r.shut()
		r.report(err)
	}
	if errors.Is(err, idem.ErrStoreUnavailable) {
		cfg.MaxBackoff = max(cfg.Backoff, st.scheduler.engine.Config().BreakerCooldown)
	}
	st.proceed()
	return cfg.pauseFor(n), true
}

// begin lets the items of the range be looked up, or claimed by key.
func (r *streamRange) begin(byKey bool) {
	r.open, r.byKey = true, byKey
	for _, l := range r.stream.lanes {
		if l.within == r {
			l.touch()
		}
	}
}

// shut lets no item of the range begin.
func (r *streamRange) shut() {
	r.open = false
	for _, l := range r.stream.lanes {
		if l.within == r && l.ahead > 0 {
			l.unclaim()
		}
	}
}

// elsewhere notes that another owner has the lease. So the store answers, and nothing is claimed by key any
// more.
func (r *streamRange) elsewhere() {
	r.stream.mu.Lock()
	defer r.stream.mu.Unlock()
	if r.open {
		r.shut()
		r.stream.proceed()
	}
}

// report reports one item of the range, which can't begin because the lease can't be claimed.
func (r *streamRange) report(err error) {
	for _, l := range r.stream.lanes {
		if l.within != r || l.state != laneIdle || len(l.queue) == 0 || l.queue[0].phase != queued ||
			l.queue[0].unreported {
			continue
		}
		it := l.queue[0]
		it.claim.Refuse(err)
		it.Outcome = r.stream.session.Run(&it.claim) // does not call the handler
		l.report(it)
		return
	}
}

// lost claims the lease again.
func (r *streamRange) lost(lease *idem.Range, claimed <-chan struct{}) {
	<-claimed
	st := r.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	if r.lease != lease || isClosed(r.stopped) || st.ended() {
		return
	}
	r.shut()
	r.hold()
	st.proceed()
}

// stopRanges ends ranges whose lanes are about to be stopped. The caller must call leave. Stream.mu is held.
func (st *Stream) stopRanges(keys []string, lanes []*streamLane) (stopped []*streamRange) {
	for _, key := range keys {
		r := st.ranges[key]
		if r == nil {
			continue
		}
		delete(st.ranges, key)
		close(r.stopped)
		for _, l := range lanes {
			if l.within == r {
				r.lanes = append(r.lanes, l)
			}
		}
		stopped = append(stopped, r)
	}
	return stopped
}

// leave releases the lease when the lanes, which have been stopped, have ended. If the stream ends before
// them, the lease ends by itself.
func (r *streamRange) leave() {
	defer close(r.left)
	<-r.claimed
	for _, l := range r.lanes {
		select {
		case <-l.stopped:
		case <-r.stream.over:
			return
		}
	}
	r.stream.mu.Lock()
	lease := r.lease
	r.stream.mu.Unlock()
	if lease != nil {
		r.stream.session.ReleaseRanges(lease)
	}
}
