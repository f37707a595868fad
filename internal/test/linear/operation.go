package linear

import (
	"errors"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// kind is the kind of an answer.
type kind string

// The answers. After gotNothing the operation may take effect at any time from its call on, or never.
const (
	gotNothing   kind = "no answer"
	gotClaimed   kind = "claimed"
	gotStolen    kind = "stolen"
	gotInFlight  kind = "in flight"
	gotLeaseOver kind = "lease over"
	gotCompleted kind = "completed"
	gotFailed    kind = "failed"
	gotMismatch  kind = "mismatch"
	gotContended kind = "contended" // nothing was changed, because of a concurrent operation
	gotDone      kind = "done"
	gotFenced    kind = "fenced"
	gotFound     kind = "found"
	gotNotFound  kind = "not found"
	gotRejected  kind = "rejected" // the effect, which no client makes impossible
	gotCount     kind = "count"
)

// operation is a call on one key with its answer. One of claim, settle, get, remove and count is set.
type operation struct {
	client       int
	begun, ended int64 // places in the order of all beginnings and ends
	now          span  // the time of the call

	claim  *store.ClaimRequest
	settle *store.Settlement
	get    bool
	remove *int64 // the token
	count  *int   // the counter that was read

	answer kind
	entry  *store.Entry  // which the answer shows, if it shows one
	wait   time.Duration // ClaimResult.ClaimableIn

	again      int  // how many requests of this operation may be delivered besides the one that was answered
	overlapped bool // by another operation on the key
}

// String describes the operation on a line.
func (o *operation) String() string {
	var what string
	switch {
	case o.claim != nil:
		r := o.claim
		what = fmt.Sprintf("claim(%s print %.4s lease %v retention %v redrive %d take over %t)",
			r.Owner, r.Fingerprint, r.Lease, r.Retention, r.RedriveToken, r.TakeOver)
	case o.settle != nil:
		s := o.settle
		what = fmt.Sprintf("%s(%d %s lease %v delay %v refund %t retention %v effect %t)",
			s.Op, s.Token, s.Owner, s.Lease, s.Delay, s.Refund, s.Retention, s.Effect != nil)
	case o.count != nil:
		what = fmt.Sprintf("count is %d", *o.count)
	case o.remove != nil:
		what = fmt.Sprintf("delete(%d)", *o.remove)
	default:
		what = "get"
	}
	shown := ""
	if e := o.entry; e != nil {
		shown = fmt.Sprintf(" {%s %d %s attempts %d print %.4s lease %d retry %d updated %d expiry %d}",
			e.Status, e.Token, e.Owner, e.Attempts, e.Fingerprint,
			e.LeaseUntil.UnixMilli(), e.RetryAt.UnixMilli(), e.UpdatedAt.UnixMilli(), e.Expiry.UnixMilli())
	}
	return fmt.Sprintf("%6d…%-6d %d…%d client %d %s -> %s%s, %d more", o.begun, o.ended, o.now.lo, o.now.hi,
		o.client, what, o.answer, shown, o.again)
}

// claimAnswer sets the answer to a claim.
func (o *operation) claimAnswer(r *store.ClaimResult) {
	o.entry, o.wait = &r.Entry, r.ClaimableIn
	switch {
	case errors.Is(r.Err, store.ErrFingerprintMismatch):
		o.answer = gotMismatch
	case r.Err != nil || r.State == store.ClaimUnknown:
		o.answer, o.entry = gotNothing, nil
	case r.State == store.ClaimInFlight && r.ClaimableIn > 0 && r.Entry.Status != "":
		o.answer = gotInFlight
	case r.State == store.ClaimInFlight: // without the end of a lease
		o.answer, o.entry = gotContended, nil
	case r.Stolen:
		o.answer = gotStolen
	default:
		o.answer = map[store.ClaimState]kind{
			store.Claimed: gotClaimed, store.ClaimLeaseOver: gotLeaseOver, store.ClaimCompleted: gotCompleted,
			store.ClaimFailed: gotFailed,
		}[r.State]
	}
}

// errorAnswer sets the answer of an operation that returns an error only. none is the answer if there is
// none.
func (o *operation) errorAnswer(err error, none kind) {
	var fenced *store.FencedError
	switch {
	case err == nil:
		o.answer = none
	case errors.As(err, &fenced):
		o.answer, o.entry = gotFenced, &fenced.Current
	case errors.Is(err, store.ErrRejected):
		o.answer = gotRejected
	case errors.Is(err, store.ErrContended):
		o.answer = gotContended
	case errors.Is(err, store.ErrNotFound):
		o.answer = gotNotFound
	default:
		o.answer = gotNothing
	}
}

// reads reports whether the operation changes nothing.
func (o *operation) reads() bool { return o.get || o.count != nil }

// outcomes returns all outcomes of the operation on a key with the entry.
func (o *operation) outcomes(e entry, skew time.Duration) []outcome {
	switch {
	case o.claim != nil:
		written := o.now
		if o.entry != nil && o.now.has(o.entry.UpdatedAt.UnixMilli()) {
			written = exactly(o.entry.UpdatedAt.UnixMilli())
		}
		return claimed(e, o.claim, o.now, written, skew)
	case o.settle != nil:
		return settled(e, o.settle, o.now)
	case o.count != nil:
		return []outcome{{gotCount, e}}
	case e.absent():
		return []outcome{{gotNotFound, e}}
	case o.get:
		return []outcome{{gotFound, e}}
	}
	var all []outcome
	same, other := e.byToken(*o.remove)
	if len(same) > 0 {
		all = append(all, outcome{gotDone, e.gone()})
	}
	for _, e := range other {
		all = append(all, outcome{gotFenced, e})
	}
	return all
}

// step returns the entries that a key with the entry e may have after the operation with its answer. There
// are none if the answer is wrong.
func (o *operation) step(e entry, skew time.Duration) (after []entry) {
	if o.answer == gotContended {
		if o.overlapped {
			after = append(after, e)
		}
		return after
	}
	all := o.outcomes(e, skew)
	if !e.absent() && o.now.hi >= e.expiry.lo { // it may have been deleted
		all = append(all, o.outcomes(e.gone(), skew)...)
	}
	if o.answer == gotNothing {
		after = append(after, e) // no effect
		for _, out := range all {
			after = append(after, out.entry)
		}
		return after
	}
	for _, out := range all {
		if out.answer == o.answer && o.shows(&out.entry, skew) {
			after = append(after, out.entry)
		}
	}
	return after
}

// shows reports whether the answer shows the entry, and gives it the exact values of the answer.
func (o *operation) shows(e *entry, skew time.Duration) bool {
	if o.count != nil {
		return *o.count == e.effects
	}
	if o.entry == nil {
		return true
	}
	exact, ok := e.observe(o.entry)
	*e = exact
	if !ok || o.answer != gotInFlight {
		return ok
	}
	until := time.UnixMilli(exact.until(skew).lo)
	return o.now.has(until.Add(-o.wait).UnixMilli())
}
