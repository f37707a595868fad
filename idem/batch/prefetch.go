package batch

import (
	"errors"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// Claims are prefetched if the store takes many claims in one request: for the first items of the lanes that
// will start next, and for the next items of a lane that has used up its claims. No claim is prefetched for
// an item that shares its key with another item of the batch, or for an item after it in its lane. No
// prefetched claim takes a key over from an owner whose lease is over. Such items are claimed individually,
// when they are next in their lane.

// lanePrefetch is the maximum number of claims that the only lane of a batch prefetches, in full requests of
// the store.
const lanePrefetch = 10

// The claims of first items are sent several full requests at a time. The first time only one is sent, so
// that the first lanes start early. Four requests have as many claims as DynamoDB reads items in one request.
const (
	prefetchRequests = 4
	prefetchWindows  = 6 // the maximum number of windows that are sent and have not begun
)

// prefetchSize returns how many claims a lane sends at a time: one full request, or several if there are few
// lanes.
func (r *run) prefetchSize() int {
	size := r.scheduler.engine.BatchSize()
	if size == 1 || len(r.lanes) == 0 {
		return 1
	}
	return max(1, lanePrefetch/len(r.lanes)) * size
}

// mayWait returns how long a claim may wait until its handler has returned.
func (r *run) mayWait() time.Duration { return r.scheduler.engine.MaxPrefetchAge() }

// prefetcher claims the first items of the next lanes while earlier lanes run. Only the goroutine that starts
// the lanes uses it.
type prefetcher struct {
	next     int            // the lane that starts next
	claimed  int            // the number of lanes whose first items have been claimed
	windows  []window       // the claims sent for lanes that have not started, in the order of the lanes
	sent     int            // how many windows have been sent
	suspects bool           // a key of a dead owner was met: more may follow, and each releases all claims
	pending  sync.WaitGroup // claims in progress
}

// window is the claims that were sent together for some of the lanes.
type window struct {
	from, to int // the range of lanes; to is exclusive
	answered chan struct{}
}

// wait waits until no claim is in progress.
func (h *prefetcher) wait() { h.pending.Wait() }

// restart makes the first items of all lanes that have not started be claimed anew. The caller holds all
// slots, so no lane starts meanwhile.
func (h *prefetcher) restart() { h.claimed, h.windows, h.suspects = h.next, nil, true }

// startAt drops the windows of the lanes before lane i.
func (h *prefetcher) startAt(i int) {
	h.next = i + 1
	for len(h.windows) > 0 && h.windows[0].to <= i {
		h.windows = h.windows[1:]
	}
}

// waitFor waits for the claims of lane i, which is the next to start.
func (h *prefetcher) waitFor(i int) {
	if len(h.windows) > 0 && h.windows[0].from <= i {
		<-h.windows[0].answered
	}
}

// prefetchFirst ensures that the first item of lane i is claimed, and sends the claims of later lanes. The
// caller holds a slot.
func (r *run) prefetchFirst(i int) {
	if r.prefetch == 1 {
		return
	}
	h := &r.prefetcher
	h.startAt(i)
	switch {
	case !h.suspects:
		for len(h.windows) < prefetchWindows && r.claimFirst(i, min(prefetchRequests, h.sent+1)) {
		}
	case r.lanes[i].beginsUnclaimed():
		r.claimFirst(i, 1)
	}
	h.waitFor(i)
}

// claimFirst sends the claims of lanes that are estimated to start before these claims have waited too long.
// It reports whether there were any.
func (r *run) claimFirst(i, requests int) bool {
	h := &r.prefetcher
	each := r.scheduler.latency.fit(r.prefetch, r.mayWait())
	from := h.claimed
	var claims []*idem.Claim
	for limit, lanes := requests*r.scheduler.engine.BatchSize(), r.startSoon(i); h.claimed < lanes &&
		len(claims) < limit; h.claimed++ {
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

// startSoon returns how many lanes are estimated to end within mayWait. The first lanes find all slots free,
// lane i has a slot, and later lanes wait for earlier ones.
func (r *run) startSoon(i int) int {
	slots, lanes := r.scheduler.cfg.Concurrency, len(r.lanes)
	rounds := r.scheduler.latency.fit(r.items, r.mayWait()) * lanes / r.items // of lanes of average length
	return min(lanes, max(slots, i+1, i+slots*(rounds-1)))
}

// claimFrom claims item i, unless that has been done, together with the items after it. An item whose key was
// in flight elsewhere, or whose claim failed because the store was unavailable, is claimed again, because its
// claim may be old. A key whose delay has not passed is not. The caller holds a slot.
func (l *lane) claimFrom(i int) {
	if it := l.items[i]; it.claimed {
		claim := &it.claim
		if it.byPartition() || claim.Delayed() || claim.State() != store.ClaimInFlight &&
			!errors.Is(claim.Err(), idem.ErrStoreUnavailable) {
			return
		}
		it.claimed = false
	}
	n := l.fit(l.run.prefetch)
	l.run.session.Claim(l.collect(make([]*idem.Claim, 0, n), i, n))
}

// fit returns how many of n claims are estimated to begin within mayWait: by the lane's own latency estimate,
// or by that of all lanes.
func (l *lane) fit(n int) int {
	latency := &l.run.scheduler.latency
	if l.latency.ns.Load() > 0 {
		latency = &l.latency
	}
	return latency.fit(n, l.run.mayWait())
}

// collect adds the claims of up to n items from item i on, and marks them as claimed.
func (l *lane) collect(claims []*idem.Claim, i, n int) []*idem.Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, it := range l.items[i:min(i+n, len(l.items))] {
		if !it.prefetchable() {
			break
		}
		it.claimed = true
		claims = append(claims, &it.claim)
	}
	return claims
}

// beginsUnclaimed reports whether the claim of the lane's first item is to be prefetched.
func (l *lane) beginsUnclaimed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.items[0].prefetchable()
}

// releaseClaims releases the claims of the lane that have not begun.
func (l *lane) releaseClaims() {
	if l.run.prefetch > 1 {
		l.run.session.Release(l.unbegun(nil))
	}
}

// unbegun adds the claims of items that are claimed and have not begun, and marks the items as not claimed.
// It also marks items as not claimed whose key was in flight elsewhere or whose claim failed, so that they
// are claimed again. The items of a range that is not ready are those of the goroutine that waits for its
// lease.
func (l *lane) unbegun(claims []*idem.Claim) []*idem.Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, it := range l.items {
		if !it.ready() || it.begun || !it.claimed || it.byPartition() {
			continue
		}
		switch it.claim.State() {
		case store.Claimed:
			claims = append(claims, &it.claim)
			it.claimed = false
		case store.ClaimInFlight, store.ClaimUnknown:
			it.claimed = false
		case store.ClaimLeaseOver, store.ClaimCompleted, store.ClaimFailed:
		}
	}
	return claims
}

// releaseClaims releases the claims that have not begun of some of the lanes. No claim of these lanes may be
// in progress. It reports whether there were any.
func (r *run) releaseClaims(of func(*lane) bool) bool {
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
