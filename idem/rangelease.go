package idem

import (
	"github.com/idemsk/idemsk/idem/store"
)

// lose ends the contexts of the running handlers because the lease is lost. A nil cause is the end of the
// heartbeat.
func (r *Range) lose(cause error) {
	if cause == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = cause
	for ctx := range r.running {
		ctx.end(cause)
	}
	if r.Lost != nil {
		r.Lost()
	}
}

// ReleaseRanges releases the leases that are held in one call to the store (rule P5). A lease is not
// released, and ends by itself, if it was lost, or if the key of a task that has begun may have no entry: the
// next owner must claim the keys. The caller must have run the claims; it does not call ReleaseRanges for a
// range of which a handler has not returned.
func (s *Session) ReleaseRanges(ranges ...*Range) {
	var ss []store.Settlement
	for _, r := range ranges {
		if !r.Held() {
			continue
		}
		if r.beat.stop(); !r.releasable() {
			continue
		}
		set := r.lease.settlement(store.OpRelease, s.engine.cfg.Retention)
		set.Refund, set.Range = true, &store.Range{Till: r.till}
		ss = append(ss, set)
	}
	s.sendReleases(ss)
}

func (r *Range) releasable() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open == 0 && r.lost == nil
}

// Abandon stops the extension of the lease, for a caller that must answer although a handler has not
// returned.
func (r *Range) Abandon() {
	if r.Held() {
		r.beat.stop()
	}
}
