package idem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/idem/store"
)

// scratch holds the requests of a claim, so that a claim of one task does not allocate a slice.
var scratch = sync.Pool{New: func() any { return new(claimScratch) }}

type claimScratch struct {
	reqs  []store.ClaimRequest
	which []int
}

// Claim sends the claims to the store in one call and fills in their results. A claim that ended in an
// unknown error may be sent again: it keeps its owner for the length of a lease, so that the store recognises
// it (rule 5). The keys must differ from each other.
func (s *session) Claim(claims []*claim) {
	buf, _ := scratch.Get().(*claimScratch)
	defer func() {
		clear(buf.reqs)
		buf.reqs, buf.which = buf.reqs[:0], buf.which[:0]
		scratch.Put(buf)
	}()
	started := time.Now()
	down, held := s.engine.outage.holdsBack(started)
	for i, claim := range claims {
		if held && !claim.Task.Rejected {
			claim.res = store.ClaimResult{Err: down}
			continue
		}
		if req, ok := s.engine.request(claim, started); ok {
			buf.reqs, buf.which = append(buf.reqs, req), append(buf.which, i)
		}
	}
	if len(buf.reqs) == 0 {
		return
	}
	if s.ctx.Err() != nil {
		for _, i := range buf.which {
			claims[i].res = store.ClaimResult{Err: s.notStartedError()}
		}
		return
	}
	results, took := s.engine.claim(s.ctx, buf.reqs, started)
	for i := range results {
		claim := claims[buf.which[i]]
		claim.res, claim.took = results[i], took
		claim.hold.held = claim.res.State == store.Claimed
		if claim.res.Err != nil && isStoreFault(claim.res.Err) {
			claim.res.Err = unavailableStore(claim.res.Err)
		}
		s.tell(claim, Event{Step: observe.Claim, Took: took, Err: claim.res.Err, State: claim.res.State,
			Stolen: claim.res.Stolen})
	}
	if s.engine.cfg.AtMostOnce {
		noteUnended(claims)
		if failed := opening(claims); len(failed) > 0 {
			s.Claim(failed)
		}
	}
}

func unavailableStore(err error) error { return fmt.Errorf("%w: %w", ErrStoreUnavailable, err) }

// request returns the request of a claim; false if its key is invalid.
func (e *Engine) request(claim *claim, now time.Time) (store.ClaimRequest, bool) {
	if err := e.refuses(&claim.Task); err != nil {
		claim.res = store.ClaimResult{Err: err}
		return store.ClaimRequest{}, false
	}
	if claim.key == "" {
		key, err := store.Key(claim.Task.Key, e.cfg.HashKeys)
		if err != nil {
			claim.res = store.ClaimResult{Err: fmt.Errorf("%w (from %s)", err,
				cmp.Or(claim.Task.Source, "an unknown source"))}
			return store.ClaimRequest{}, false
		}
		claim.key = key
	}
	h := &claim.hold
	if h.owner == "" || claim.res.State != store.ClaimUnknown || now.Sub(h.claimedAt) >= e.cfg.Lease {
		// Otherwise it is the earlier request, sent again: if that was applied, its lease began then.
		h.owner, h.claimedAt, h.takesOver = e.owners.next(), now, false
	}
	h.takesOver = h.takesOver || claim.TakeOver
	return store.ClaimRequest{
		Key: claim.key, Fingerprint: claim.Task.Fingerprint, Owner: h.owner, Source: claim.Task.Source,
		Lease: e.cfg.Lease, Retention: e.cfg.Retention, RedriveToken: e.redriveToken(claim),
		TakeOver: claim.TakeOver,
	}, true
}

// claim sends requests to the store, unless the breaker is open, and reports the result to the breaker.
func (e *Engine) claim(ctx context.Context, reqs []store.ClaimRequest,
	started time.Time) (results []store.ClaimResult, took time.Duration) {
	if err := e.breaker.allow(started); err != nil {
		results = make([]store.ClaimResult, len(reqs))
		for i := range results {
			results[i].Err = err
		}
		return results, 0
	}
	results = e.store.Claim(ctx, reqs)
	took = time.Since(started)
	e.breaker.report(started.Add(took), healthOf(ctx, results, took))
	return results, took
}

// fairTime is the time after which a missing answer is a failure of the store, and not a result of the
// caller's short deadline.
const fairTime = time.Second

// healthOf derives the health of the store from its answers: one defined answer shows that it is up. A claim
// that its caller cancelled, or that had less than fairTime, shows nothing.
func healthOf(ctx context.Context, results []store.ClaimResult, took time.Duration) health {
	var h health
	for i := range results {
		switch err := results[i].Err; {
		case isStoreFault(err):
			h = health{healthDown, err}
		case !errors.Is(err, context.Canceled):
			return health{state: healthUp}
		}
	}
	if ctx.Err() != nil && took < fairTime {
		return health{}
	}
	return h
}

func claimErrorKind(err error) Kind {
	switch {
	case errors.Is(err, store.ErrInvalidKey):
		return InvalidKey
	case errors.Is(err, store.ErrFingerprintMismatch):
		return Mismatched
	case errors.Is(err, store.ErrForeignEntry):
		return Retry
	case errors.Is(err, context.Canceled), errors.Is(err, errNotStarted), errors.Is(err, ErrHandlerDown),
		errors.Is(err, ErrNoDeadLetters):
		return NotStarted
	case err != nil:
		return StoreDown
	}
	return KindUnknown
}

// mayTakeOverBeside reports whether the next claim of a key whose owner's lease is over may take it over beside
// other tasks (claim.TakeOver). One attempt has begun, whose process may have died of another task, and at least
// two are left: one beside others, and one alone.
func (e *Engine) mayTakeOverBeside(claim *claim) bool {
	const attempts = 3
	return claim.res.State == store.ClaimLeaseOver && claim.res.Entry.Attempts <= 1 &&
		e.attemptLimit(claim) >= attempts && !e.cfg.AtMostOnce
}

// Release releases claims that were not run, without counting their attempts, in one call to the store. A key
// that can't be released is free when its lease ends. The task may be claimed again afterwards, by a new
// owner.
func (s *session) Release(claims []*claim) {
	var ss []store.Settlement
	for _, claim := range claims {
		if claim.hold.held && !s.engine.unended(claim) {
			set := claim.settlement(store.OpRelease, s.engine.cfg.Retention)
			set.Refund = true
			ss = append(ss, set)
			s.tell(claim, Event{Step: observe.Release})
			claim.reset()
		}
	}
	s.sendReleases(ss)
}
