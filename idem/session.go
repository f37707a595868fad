package idem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// Session is an engine at work until a deadline: that of the context it was made with, as an invocation of a function
// has one. It keeps the contexts that its tasks need, which is why they are made once and not for each task. Config.DeadlineMargin
// says how much time before the deadline is kept free: for settlements and dead letters, and its last quarter for the caller.
//
// A session is safe for concurrent use.
type Session struct {
	engine   *Engine
	ctx      context.Context // the caller's, less what is left to it for its answer: claims are made under it
	handlers context.Context // ends at the deadline less the margin
	settling context.Context // as ctx, but does not end with the caller's cancellation: an effect that took place is recorded
	deadline time.Time       // the caller's
	bounded  bool            // there is one
	cancel   context.CancelFunc

	firstBeats firstBeats
	commits    commits
}

// Session begins a session. Close must be called when its tasks have ended.
func (e *Engine) Session(ctx context.Context) *Session {
	s := &Session{engine: e}
	if e.BatchSize() > 1 {
		s.commits.session, s.commits.window = s, make(chan struct{}, e.cfg.CommitWindow)
	}
	var cancels [3]context.CancelFunc
	if s.deadline, s.bounded = ctx.Deadline(); s.bounded {
		end := e.cfg.settlingEnd(s.deadline)
		s.ctx, cancels[0] = context.WithDeadline(ctx, end)
		s.handlers, cancels[1] = context.WithDeadline(ctx, e.cfg.handlersEnd(s.deadline))
		s.settling, cancels[2] = context.WithDeadline(context.WithoutCancel(ctx), end)
	} else {
		s.ctx, cancels[0] = context.WithCancel(ctx)
		s.handlers, cancels[1] = context.WithCancel(ctx)
		s.settling, cancels[2] = context.WithCancel(context.WithoutCancel(ctx))
	}
	s.cancel = func() {
		for _, cancel := range cancels {
			cancel()
		}
	}
	return s
}

// Close ends the session's contexts.
func (s *Session) Close() {
	s.firstBeats.stop()
	s.cancel()
}

// WaitForCommits waits until the completions that RunAsync has taken over have landed, or time is over: before a task that
// may end the process.
func (s *Session) WaitForCommits() { s.commits.wait(s.handlers) }

// Handlers returns the context that handlers run under, which ends at the deadline less the margin.
func (s *Session) Handlers() context.Context { return s.handlers }

// scratch holds the requests of a claim, so that a claim of one allocates nothing for them.
var scratch = sync.Pool{New: func() any { return new(claimScratch) }}

var settleScratch = sync.Pool{New: func() any { return new([1]store.Settlement) }}

type claimScratch struct {
	reqs  []store.ClaimRequest
	which []int
}

// Claim sends the claims of the tickets to the store in one call and fills in what came of them. A ticket whose claim
// ended in an unknown error may be claimed again: it keeps its owner for the length of a lease, and so recognises itself.
// The keys of the tickets must differ from each other.
//
// With Config.ClaimOnCommit nothing is sent: the claims go with the completions.
func (s *Session) Claim(claims []*Claim) {
	if s.engine.cfg.ClaimOnCommit {
		claims = s.claimLater(claims)
	}
	s.claim(claims, false)
}

// claim sends the claims of the tickets, unless the breaker is open; or also then, if it has allowed them before.
func (s *Session) claim(claims []*Claim, allowed bool) {
	buf, _ := scratch.Get().(*claimScratch)
	defer func() {
		clear(buf.reqs)
		buf.reqs, buf.which = buf.reqs[:0], buf.which[:0]
		scratch.Put(buf)
	}()
	started := time.Now()
	for i, claim := range claims {
		if req, ok := s.engine.request(claim, started); ok {
			buf.reqs, buf.which = append(buf.reqs, req), append(buf.which, i)
		}
	}
	if len(buf.reqs) == 0 {
		return
	}
	if s.ctx.Err() != nil {
		for _, i := range buf.which {
			claims[i].res = store.ClaimResult{Err: s.whyNotStarted()}
		}
		return
	}
	results, took := s.engine.claim(s.ctx, buf.reqs, started, allowed)
	for i := range results {
		claim := claims[buf.which[i]]
		claim.res, claim.took = results[i], took
		if claim.res.Err != nil && isStoreFault(claim.res.Err) {
			claim.res.Err = unavailableStore(claim.res.Err)
		}
	}
}

func unavailableStore(err error) error { return fmt.Errorf("%w: %w", ErrStoreUnavailable, err) }

// request makes the claim of a ticket; false if its key is invalid.
func (e *Engine) request(claim *Claim, now time.Time) (store.ClaimRequest, bool) {
	if claim.key == "" {
		key, err := store.Key(claim.Task.Key, e.cfg.HashKeys)
		if err != nil {
			claim.res = store.ClaimResult{Err: fmt.Errorf("%w (from %s)", err, cmp.Or(claim.Task.Source, "an unknown source"))}
			return store.ClaimRequest{}, false
		}
		claim.key = key
	}
	if claim.owner == "" || claim.res.State != store.ClaimUnknown || now.Sub(claim.claimedAt) >= e.cfg.Lease {
		// Otherwise it is the earlier claim, sent again: if that had landed, the lease runs since then.
		claim.owner, claim.claimedAt = e.owners.next(), now
	}
	return store.ClaimRequest{
		Key: claim.key, Fingerprint: claim.Task.Fingerprint, Owner: claim.owner, Source: claim.Task.Source,
		Lease: e.cfg.Lease, Retention: e.cfg.Retention, Redrive: claim.Task.Redrive, TakeOver: claim.TakeOver,
	}, true
}

// claim asks the store, unless the breaker is open and has not allowed it, and tells the breaker how it went.
func (e *Engine) claim(ctx context.Context, reqs []store.ClaimRequest, started time.Time, allowed bool) (results []store.ClaimResult, took time.Duration) {
	if !allowed {
		if err := e.breaker.allow(started); err != nil {
			results = make([]store.ClaimResult, len(reqs))
			for i := range results {
				results[i].Err = err
			}
			return results, 0
		}
	}
	results = e.store.Claim(ctx, reqs)
	took = time.Since(started)
	e.breaker.report(started.Add(took), healthOf(ctx, results, took))
	return results, took
}

// fairTime is how long a store must have had before a missing answer tells of the store, and not of the caller's deadline.
const fairTime = time.Second

// healthOf says what the answers tell of the store: one proper answer shows that it is up; a claim that its caller gave
// up, or had next to no time for, shows nothing.
func healthOf(ctx context.Context, results []store.ClaimResult, took time.Duration) health {
	h := healthUnknown
	for i := range results {
		switch err := results[i].Err; {
		case isStoreFault(err):
			h = healthDown
		case !errors.Is(err, context.Canceled):
			return healthUp
		}
	}
	if ctx.Err() != nil && took < fairTime {
		return healthUnknown
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
	case errors.Is(err, context.Canceled), errors.Is(err, errNotStarted):
		return NotStarted
	case err != nil:
		return StoreDown
	}
	return KindUnknown
}

// Release gives back claims that were not begun, with their attempts, in one call to the store. A key that can't be given
// back is free when its lease is over. A ticket may be claimed again afterwards, by a new owner, even if its release lands
// late.
func (s *Session) Release(claims []*Claim) {
	var ss []store.Settlement
	for _, claim := range claims {
		if claim.res.State == store.Claimed && claim.onCommit == nil {
			set := claim.settlement(store.OpRelease, s.engine.cfg.Retention)
			set.Refund = true
			ss = append(ss, set)
			claim.res, claim.owner = store.ClaimResult{}, ""
		}
	}
	if len(ss) == 0 {
		return
	}
	ctx, cancel := s.settleContext()
	defer cancel()
	for n := 0; len(ss) > 0 && n < releaseTries; n++ {
		if n > 0 && !sleep(ctx, backoff(n-1)) {
			return
		}
		ss = unknown(ss, s.engine.store.Settle(ctx, ss))
	}
}

// unknown returns the settlements that the store has not given a proper answer for.
func unknown(ss []store.Settlement, errs []error) []store.Settlement {
	var left []store.Settlement
	for i, err := range errs {
		if !answered(err) {
			left = append(left, ss[i])
		}
	}
	return left
}

// The pauses between two looks at a key that is in flight elsewhere.
const (
	firstWait = 50 * time.Millisecond
	longWait  = 2 * time.Second
)

// Wait waits until it may be worth claiming a ticket again whose key is in flight elsewhere: with exponential backoff and
// jitter, and not beyond the end of its lease or of its delay. It returns false at once if the ticket is not in flight,
// or if it can't become claimable within Config.Wait and the deadline less the margin; and when that time is over.
func (s *Session) Wait(claim *Claim) bool {
	if claim.res.State != store.ClaimInFlight || s.engine.cfg.Wait < 0 {
		return false
	}
	now := time.Now()
	if claim.waitUntil.IsZero() {
		claim.waitUntil = s.waitLimit(now)
	}
	pause := claim.res.ClaimableIn + time.Millisecond // stores count in milliseconds
	left := claim.waitUntil.Sub(now)
	if claim.res.Entry.Released() { // nothing happens to it before its time
		if pause > left {
			return false
		}
	} else {
		pause = min(pause, backoff(claim.waits), left)
	}
	claim.waits++
	return pause > 0 && sleep(s.handlers, pause)
}

func (s *Session) waitLimit(now time.Time) time.Time {
	limit := now.Add(MaxLease * 24) // no deadline, no limit: as good as for ever
	if d, ok := s.handlers.Deadline(); ok {
		limit = d
	}
	if w := s.engine.cfg.Wait; w > 0 && now.Add(w).Before(limit) {
		limit = now.Add(w)
	}
	return limit
}

// backoff returns the nth pause (from 0): exponential, with full jitter over its upper half.
func backoff(n int) time.Duration {
	d := min(firstWait<<min(n, 16), longWait)
	return d/2 + rand.N(d/2+1) //nolint:gosec // jitter needs no cryptographic randomness
}

// sleep waits for d; false if the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
