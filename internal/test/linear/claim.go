package linear

import (
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// outcome is what an operation may answer and the entry after it, which the answer shows.
type outcome struct {
	answer kind
	entry  entry
}

// claimed returns all outcomes of a claim at a time in now. written is the part of it at which the claim can
// have written an entry.
func claimed(e entry, r *store.ClaimRequest, now, written span, skew time.Duration) []outcome {
	switch {
	case e.absent():
		return []outcome{{gotClaimed, fresh(e, r, written)}}
	case e.held() && e.owner == r.Owner:
		return []outcome{{gotClaimed, e}} // its own claim, whose reply was lost
	case e.status == store.StatusStarted:
		return claimedStarted(e, r, now, written, skew)
	}
	var all []outcome
	over := e.expiry.plus(skew)
	if written.hi >= over.lo {
		all = append(all, outcome{gotClaimed, taken(e, r, written.since(over))})
	}
	if now.lo >= over.hi {
		return all
	}
	if differ(e.print, r.Fingerprint) {
		return append(all, outcome{gotMismatch, e})
	}
	if e.status == store.StatusCompleted {
		return append(all, outcome{gotCompleted, e})
	}
	same, other := e.byToken(r.RedriveToken)
	for _, e := range same {
		all = append(all, outcome{gotClaimed, taken(e, r, written)})
	}
	for _, e := range other {
		all = append(all, outcome{gotFailed, e})
	}
	return all
}

func claimedStarted(e entry, r *store.ClaimRequest, now, written span, skew time.Duration) (all []outcome) {
	if differ(e.print, r.Fingerprint) {
		return []outcome{{gotMismatch, e}}
	}
	over := e.until(skew)
	if now.lo < over.hi {
		all = append(all, outcome{gotInFlight, e})
	}
	switch {
	case !e.released && !r.TakeOver:
		if now.hi >= over.lo {
			all = append(all, outcome{gotLeaseOver, e})
		}
	case written.hi < over.lo:
	case e.released:
		all = append(all, outcome{gotClaimed, taken(e, r, written.since(over))})
	default:
		all = append(all, outcome{gotStolen, taken(e, r, written.since(over))})
	}
	return all
}

func differ(a, b store.Fingerprint) bool { return a != b && !a.IsZero() && !b.IsZero() }

// fresh is the entry of a key that there was not.
func fresh(e entry, r *store.ClaimRequest, now span) entry {
	return hold(entry{token: now, attempts: 1, created: now, print: r.Fingerprint, effects: e.effects}, r,
		now)
}

// taken is the entry of a key that is taken from another owner, or begins a new life.
func taken(e entry, r *store.ClaimRequest, now span) entry {
	next := entry{token: e.token.next(), attempts: 1, created: now, print: r.Fingerprint, effects: e.effects}
	if e.status == store.StatusStarted {
		next.attempts, next.created, next.result, next.failure = e.attempts+1, e.created, e.result, e.failure
		if r.Fingerprint.IsZero() {
			next.print = e.print
		}
	}
	return hold(next, r, now)
}

func hold(e entry, r *store.ClaimRequest, now span) entry {
	e.status, e.owner, e.source = store.StatusStarted, r.Owner, r.Source
	e.lease, e.updated = now.plus(r.Lease), now
	e.expiry = e.lease.plus(r.Retention).ceil()
	return e
}
