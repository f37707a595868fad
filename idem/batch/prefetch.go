package batch

import (
	"errors"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/idemsk/idemsk/idem"
)

// Claims are prefetched where the store takes many in one request: for the heads, the first items of the lanes that are about to
// start, and for the next items of a lane that has used up its claims. None is prefetched for an item that shares its key with
// another of the batch, nor past one, and none is taken over from an owner whose lease is over: such items are claimed when it
// is their turn, by themselves.

// lanePrefetch bounds the claims that a lane prefetches, in full requests of the store, if it is the only one.
const lanePrefetch = 10

// The claims of heads are sent some full requests at a time, first one and then more, so that the first lanes start when the first
// of them are answered. Four have as many claims as DynamoDB reads items at once.
const (
	headRequests = 4
	headWindows  = 6 // how many times that are sent, and not begun, at most
)

// prefetchSize is how many claims a lane makes at a time: a full request, or some if the lanes are few.
func (r *run) prefetchSize() int {
	size := r.scheduler.engine.BatchSize()
	if size == 1 || len(r.lanes) == 0 {
		return 1
	}
	return max(1, lanePrefetch/len(r.lanes)) * size
}

// mayWait is how long a claim may wait until its handler has returned.
func (r *run) mayWait() time.Duration { return r.scheduler.engine.ClaimMayWait() }

// heads are the first items of lanes. Those of the lanes that come next are claimed while the lanes before them are at work. The
// start of lanes, which is one goroutine, claims them.
type heads struct {
	next    int            // the lane that starts next
	claimed int            // the number of lanes whose heads' claims have been sent
	windows []window       // sent for lanes that have not started, in their order
	sent    int            // how often claims have been sent
	few     bool           // a key of a dead owner was met: others may follow, and have all that is claimed given back
	pending sync.WaitGroup // claims under way
}

// window is the claims that were sent at once for some of the lanes.
type window struct {
	from, to int // the lanes: from the one to before the other
	answered chan struct{}
}

// wait waits until no claim is under way.
func (h *heads) wait() { h.pending.Wait() }

// again has the heads of all lanes that have not started claimed anew. The caller holds all slots, so none starts.
func (h *heads) again() { h.claimed, h.windows, h.few = h.next, nil, true }

// startAt forgets what was sent for lanes before lane i alone.
func (h *heads) startAt(i int) {
	h.next = i + 1
	for len(h.windows) > 0 && h.windows[0].to <= i {
		h.windows = h.windows[1:]
	}
}

// waitFor waits for the claims of lane i, which is the next.
func (h *heads) waitFor(i int) {
	if len(h.windows) > 0 && h.windows[0].from <= i {
		<-h.windows[0].answered
	}
}

// prefetchHeads makes sure that the first items of lane i are claimed, and sends the claims of more. The caller holds a slot.
func (r *run) prefetchHeads(i int) {
	if r.prefetch == 1 {
		return
	}
	h := &r.heads
	h.startAt(i)
	switch {
	case !h.few:
		for len(h.windows) < headWindows && r.claimHeads(i, min(headRequests, h.sent+1)) {
		}
	case r.lanes[i].beginsUnclaimed():
		r.claimHeads(i, 1)
	}
	h.waitFor(i)
}

// claimHeads sends the claims of lanes that will start while these may wait, as far as is known when lane i starts. It reports
// whether there were any.
func (r *run) claimHeads(i, requests int) bool {
	h := &r.heads
	each := r.scheduler.latency.fit(r.prefetch, r.mayWait())
	from := h.claimed
	var claims []*idem.Claim
	for limit, lanes := requests*r.scheduler.engine.BatchSize(), r.startSoon(i); h.claimed < lanes && len(claims) < limit; h.claimed++ {
		claims = r.lanes[h.claimed].collect(claims, 0, each)
	}
	if len(claims) == 0 {
		return false
	}
	w := window{from: from, to: h.claimed, answered: make(chan struct{})}
	h.windows = append(h.windows, w)
	h.sent++
	h.pending.Go(func() {
		defer close(w.answered)
		r.session.Claim(claims)
	})
	return true
}

// startSoon returns how many lanes will have started, and come to an end, while claims that are sent now may wait. The first
// ones find all slots free, lane i has one, and those behind it wait for lanes before them.
func (r *run) startSoon(i int) int {
	slots, lanes := r.scheduler.concurrency, len(r.lanes)
	rounds := r.scheduler.latency.fit(r.items, r.mayWait()) * lanes / r.items // of lanes of average length
	return min(lanes, max(slots, i+1, i+slots*(rounds-1)))
}

// claimFrom claims item i, unless that has been done, together with those behind it. One that was in flight elsewhere, or whose
// claim met a store that did not answer, is claimed again: that may be long ago. The caller holds a slot.
func (l *lane) claimFrom(i int) {
	if it := l.items[i]; it.claimed {
		if it.ticket.State() != store.ClaimInFlight && !errors.Is(it.ticket.Err(), idem.ErrStoreUnavailable) {
			return
		}
		it.claimed = false
	}
	n := l.fit(l.run.prefetch)
	l.run.session.Claim(l.collect(make([]*idem.Claim, 0, n), i, n))
}

// fit returns how many of n claims will begin while they may wait: by what the lane's own items took, or those of all.
func (l *lane) fit(n int) int {
	latency := &l.run.scheduler.latency
	if l.latency.ns.Load() > 0 {
		latency = &l.latency
	}
	return latency.fit(n, l.run.mayWait())
}

// collect adds the tickets of up to n items from item i on, and marks them as claimed.
func (l *lane) collect(claims []*idem.Claim, i, n int) []*idem.Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, it := range l.items[i:min(i+n, len(l.items))] {
		if !it.prefetchable() {
			break
		}
		it.claimed = true
		claims = append(claims, &it.ticket)
	}
	return claims
}

// beginsUnclaimed reports whether the lane's first item is one whose claim is to be prefetched.
func (l *lane) beginsUnclaimed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.items[0].prefetchable()
}

// giveBack gives back the claims that the lane has not begun.
func (l *lane) giveBack() {
	if l.run.prefetch > 1 {
		l.run.session.Release(l.unbegun(nil))
	}
}

// unbegun adds the tickets of items that are claimed and not begun, and marks them as not claimed; as it does those that were in
// flight elsewhere, or whose claim failed, so that they are claimed anew.
func (l *lane) unbegun(claims []*idem.Claim) []*idem.Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, it := range l.items {
		if it.begun || !it.claimed {
			continue
		}
		switch it.ticket.State() {
		case store.Claimed:
			claims = append(claims, &it.ticket)
			it.claimed = false
		case store.ClaimInFlight, store.ClaimUnknown:
			it.claimed = false
		case store.ClaimLeaseOver, store.ClaimCompleted, store.ClaimFailed:
		}
	}
	return claims
}

// giveBack gives back the claims that have not been begun of some of the lanes, none of which may be claiming. It reports whether
// there were any.
func (r *run) giveBack(of func(*lane) bool) bool {
	if r.prefetch == 1 {
		return false
	}
	var claims []*idem.Claim
	for i := range r.lanes {
		if l := &r.lanes[i]; of(l) {
			claims = l.unbegun(claims)
		}
	}
	r.session.Release(claims)
	return len(claims) > 0
}
