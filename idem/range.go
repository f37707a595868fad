package idem

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/idem/store"
)

// Range is a sequence of tasks that one lease claims together, such as the records of a partition in a batch
// (Config.ClaimByPartition). The caller sets Key, Source and Claims, calls Session.ClaimRanges, runs the
// claims, and calls Session.ReleaseRanges. The tasks of a range without an end are not known when its lease
// is claimed: see Session.HoldRange.
//
// docs/design.md ("Claims by partition range") states its rules, P1 to P7; the comment of each function names
// its rule.
type Range struct {
	Key    string   // of the lease; it must not be the key of a task
	Source string   // the place of the first message
	Claims []*Claim // in the order of their positions, each of which is greater than the one before
	// Lost is called when the lease of a range without an end is lost, if it is not nil. It must not block.
	Lost func()

	lease Claim
	token int64
	till  int64 // see store.Range
	beat  *heartbeat

	reserving chan struct{} // has an element while the end of the range is written

	mu      sync.Mutex
	running map[*handlerContext]struct{}
	open    int   // tasks that have begun, and whose keys may have no entry yet
	lost    error // the reason, once the lease is lost
}

// Held reports whether the lease is held.
func (r *Range) Held() bool { return r.lease.res.State == store.Claimed }

// InFlight reports whether another owner has the lease.
func (r *Range) InFlight() bool { return r.lease.res.State == store.ClaimInFlight }

// ClaimRanges claims the leases in one call to the store, and reads the keys of their tasks. Afterwards
// ByPartition reports of each claim whether it has a result, and can be run; the key of any other claim must
// be claimed by Session.Claim. If a lease can't be claimed, all claims of its range have that result: if it
// is in flight elsewhere, the caller may wait (Session.Wait, Lease) and claim it again.
//
// The keys of the tasks are to be claimed if the positions of the range do not grow, or if the store does not
// answer and the engine fails open: then each task is unprotected only if the store does not answer its own
// claim either. The keys of all tasks must differ, except those with ByKey.
func (s *Session) ClaimRanges(ranges []*Range) {
	var leases []*Claim
	for _, r := range ranges {
		if r.valid() {
			leases = append(leases, r.leaseClaim())
		}
	}
	s.Claim(leases)
	var held []*Range
	for _, r := range ranges {
		if !r.valid() {
			continue
		}
		if err := r.notHeldError(); err != nil {
			for _, claim := range r.Claims {
				if claim.Refuse(err); s.engine.FailsOpen(err) {
					claim.Enter(nil)
				}
			}
			continue
		}
		r.begin(s)
		held = append(held, r)
	}
	s.read(enterAll(held), time.Now())
}

// enterAll puts the claims of ranges into them, and returns them (rule P3).
func enterAll(ranges []*Range) (claims []*Claim) {
	for _, r := range ranges {
		for _, claim := range r.Claims {
			claim.Enter(r)
		}
		claims = append(claims, r.Claims...)
	}
	return claims
}

// Lease returns the claim of the lease, for Session.Wait and Session.WaitTime before it is claimed again.
func (r *Range) Lease() *Claim { return &r.lease }

// leaseClaim returns the claim of the lease, which has no limit of attempts. Its range ends after the last
// task (rule P2).
func (r *Range) leaseClaim() *Claim {
	if c := &r.lease; c.span == nil {
		c.Task, c.TakeOver = Task{Key: r.Key, Source: r.Source}, true
		c.span = &store.Range{End: r.Claims[len(r.Claims)-1].Position + 1}
	}
	return &r.lease
}

// valid reports whether the positions are those of a range.
func (r *Range) valid() bool {
	last := int64(-1)
	for _, claim := range r.Claims {
		if claim.Position <= last || claim.Position == math.MaxInt64 {
			return false
		}
		last = claim.Position
	}
	return len(r.Claims) > 0
}

func (r *Range) notHeldError() error {
	lease := &r.lease
	switch lease.res.State {
	case store.Claimed:
		return nil
	case store.ClaimUnknown:
		if lease.res.Err != nil {
			return fmt.Errorf("the lease of the range from %s: %w", r.Source, lease.res.Err)
		}
	case store.ClaimInFlight, store.ClaimLeaseOver:
		return fmt.Errorf("%w: the lease of the range from %s: key %q, token %d, %s", ErrInFlight, r.Source,
			lease.key, lease.res.Entry.Token, lease.heldUntil())
	case store.ClaimCompleted, store.ClaimFailed:
	}
	return fmt.Errorf("%w: the lease of the range from %s: key %q, %s", store.ErrForeignEntry, r.Source,
		lease.key, lease.res.Entry.Status)
}

// begin begins the heartbeat of a lease that was claimed, which lasts until ReleaseRanges. It extends the
// lease instead of those of the keys.
func (r *Range) begin(s *Session) {
	r.token, r.running = r.lease.res.Entry.Token, make(map[*handlerContext]struct{})
	if kept := r.lease.res.Entry.Range; kept != nil {
		r.till = kept.Till
	}
	r.beat = newHeartbeat(s, &r.lease)
	r.beat.handler.end = r.lose
	r.beat.begin(r.lease.hold.claimedAt)
}

// read reads the keys of claims, except those that are claimed by key.
func (s *Session) read(all []*Claim, started time.Time) {
	var reqs []store.ClaimRequest
	var claims []*Claim
	for _, claim := range all {
		if claim.membership.answered || claim.ByKey || claim.membership.token != 0 || claim.Task.RedriveToken != 0 {
			continue
		}
		if req, ok := s.engine.request(claim, started); ok {
			reqs, claims = append(reqs, req), append(claims, claim)
		} else {
			claim.membership.answered = true // its key is invalid
		}
	}
	if len(reqs) == 0 {
		return
	}
	results := s.engine.ranger.Look(s.ctx, reqs)
	took := time.Since(started)
	s.engine.breaker.report(started.Add(took), healthOf(s.ctx, results, took))
	for i, claim := range claims {
		claim.took = took
		claim.found(&results[i], &reqs[i])
		if claim.membership.answered {
			s.tell(claim, Event{Step: observe.Claim, Took: took, Err: claim.res.Err, State: claim.res.State})
		}
	}
}

// found decides whether the result of a look is that of the claim, whether the claim is held by the range's
// lease, or whether its key must be claimed.
func (claim *Claim) found(res *store.ClaimResult, req *store.ClaimRequest) {
	r := claim.membership.within
	absent := res.State == store.ClaimUnknown && res.Err == nil && res.Entry.Status == ""
	switch {
	case res.Err != nil:
		if claim.res.Err = res.Err; isStoreFault(res.Err) {
			claim.res.Err = unavailableStore(res.Err)
		}
	case res.State == store.ClaimCompleted || res.State == store.ClaimFailed:
		claim.res = *res
	case absent && claim.Position >= r.till:
		// The token of the next lease is greater than the end of this one, and so than this token.
		req.Owner, req.Token = r.lease.hold.owner, max(r.token, min(res.Entry.Token, r.beat.end().UnixMilli()))
		claim.hold = hold{kind: holdPartition, owner: req.Owner, claimedAt: r.lease.hold.claimedAt, insert: req}
		claim.res.State, claim.res.Entry = store.Claimed, store.Fresh(req, time.UnixMilli(req.Token))
	default:
		// a live claim, a release, an entry past its retention, or a record that a dead owner may have begun
		claim.hold.owner = ""
		return
	}
	claim.membership.answered = true
}
