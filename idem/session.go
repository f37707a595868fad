package idem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/idem/store"
)

// Session runs tasks until the deadline of the context that it was created with, for example that of an invocation. Handlers get
// contexts that end Config.DeadlineMargin before the deadline. The margin is the time for settlements and dead letters. Its last
// quarter is left for the caller to answer (budget.go).
//
// A session is safe for concurrent use.
type Session struct {
	engine   *Engine
	ctx      context.Context // for claims: the caller's, less the time for its answer
	handlers context.Context // ends at the deadline less the margin
	settling context.Context // as ctx, but does not end when the caller cancels: an effect that took place is recorded
	deadline time.Time       // the caller's
	bounded  bool            // the caller's context has a deadline
	cancel   context.CancelFunc

	commits commits
}

// Session returns a session. The caller must call Close when its tasks have ended.
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
	s.cancel()
}

// Flush sends the completions of RunAsync that wait to be sent together with others. Call it when no more tasks will be run.
func (s *Session) Flush() { s.commits.flush() }

// WaitForCommits waits until the completions of RunAsync have been answered, or until the session's time ends. Call it before a task
// that may end the process.
func (s *Session) WaitForCommits() { s.commits.wait(s.handlers) }

// Handlers returns the parent of the handlers' contexts, which ends at the deadline less the margin.
func (s *Session) Handlers() context.Context { return s.handlers }

// scratch holds the requests of a claim, so that a claim of one task does not allocate a slice.
var scratch = sync.Pool{New: func() any { return new(claimScratch) }}

var settleScratch = sync.Pool{New: func() any { return new([1]store.Settlement) }}

type claimScratch struct {
	reqs  []store.ClaimRequest
	which []int
}

// Claim sends the claims to the store in one call and fills in their results. A claim that ended in an unknown error may be sent
// again: it keeps its owner for the length of a lease, so that the store recognises it (rule 5). The keys must differ from each other.
func (s *Session) Claim(claims []*Claim) {
	buf, _ := scratch.Get().(*claimScratch)
	defer func() {
		clear(buf.reqs)
		buf.reqs, buf.which = buf.reqs[:0], buf.which[:0]
		scratch.Put(buf)
	}()
	started := time.Now()
	down, held := s.engine.outage.holdsBack(started)
	for i, claim := range claims {
		if held && claim.span == nil && !claim.Task.Rejected {
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
		if claim.res.Err != nil && isStoreFault(claim.res.Err) {
			claim.res.Err = unavailableStore(claim.res.Err)
		}
		claim.resolved()
		s.tell(claim, Event{Step: observe.Claim, Took: took, Err: claim.res.Err, State: claim.res.State, Stolen: claim.res.Stolen})
	}
}

func unavailableStore(err error) error { return fmt.Errorf("%w: %w", ErrStoreUnavailable, err) }

// request returns the request of a claim; false if its key is invalid.
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
		// Otherwise it is the earlier request, sent again: if that was applied, its lease began then.
		claim.owner, claim.claimedAt = e.owners.next(), now
	}
	return store.ClaimRequest{
		Key: claim.key, Fingerprint: claim.Task.Fingerprint, Owner: claim.owner, Source: claim.Task.Source,
		Lease: e.cfg.Lease, Retention: e.cfg.Retention, RedriveToken: claim.Task.RedriveToken, TakeOver: claim.TakeOver,
		Range: claim.span, Token: claim.leastToken(),
	}, true
}

// claim sends requests to the store, unless the breaker is open, and reports the result to the breaker.
func (e *Engine) claim(ctx context.Context, reqs []store.ClaimRequest, started time.Time) (results []store.ClaimResult, took time.Duration) {
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

// fairTime is the time after which a missing answer is a failure of the store, and not a result of the caller's short deadline.
const fairTime = time.Second

// healthOf derives the health of the store from its answers: one defined answer shows that it is up. A claim that its caller
// cancelled, or that had less than fairTime, shows nothing.
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
	case errors.Is(err, ErrInFlight): // of the lease of a range
		return InFlight
	case errors.Is(err, context.Canceled), errors.Is(err, errNotStarted), errors.Is(err, ErrHandlerDown):
		return NotStarted
	case err != nil:
		return StoreDown
	}
	return KindUnknown
}

// Release releases claims that were not run, without counting their attempts, in one call to the store. A key that can't be
// released is free when its lease ends. The task may be claimed again afterwards, by a new owner.
func (s *Session) Release(claims []*Claim) {
	var ss []store.Settlement
	for _, claim := range claims {
		if claim.res.State == store.Claimed && claim.insert == nil {
			set := claim.settlement(store.OpRelease, s.engine.cfg.Retention)
			set.Refund = true
			ss = append(ss, set)
			s.tell(claim, Event{Step: observe.Release})
			claim.res, claim.owner = store.ClaimResult{}, ""
		}
	}
	s.sendReleases(ss)
}

// sendReleases sends releases, up to releaseTries times.
func (s *Session) sendReleases(ss []store.Settlement) {
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

// unknown returns the settlements that the store has not answered.
func unknown(ss []store.Settlement, errs []error) []store.Settlement {
	var left []store.Settlement
	for i, err := range errs {
		if !answered(err) {
			left = append(left, ss[i])
		}
	}
	return left
}

// The pauses between two claims of a key that is in flight elsewhere.
const (
	firstWait = 50 * time.Millisecond
	longWait  = 2 * time.Second
)

// Wait waits before the next claim of a key that is in flight elsewhere, as long as WaitTime says. It returns false at once if
// WaitTime does, and when the session's time ends.
func (s *Session) Wait(claim *Claim) bool {
	pause, ok := s.WaitTime(claim)
	return ok && sleep(s.handlers, pause)
}

// WaitTime returns how long to wait before the next claim of a key that is in flight elsewhere: with exponential backoff and
// jitter, and no longer than its lease or delay. It returns false if the key is not in flight, or if it can't become claimable within
// Config.Wait and the deadline less the margin. Call it once after each claim.
func (s *Session) WaitTime(claim *Claim) (time.Duration, bool) {
	if claim.res.State != store.ClaimInFlight || s.engine.cfg.Wait < 0 {
		return 0, false
	}
	now := time.Now()
	if claim.waitUntil.IsZero() {
		claim.waitUntil = s.waitLimit(now)
	}
	pause := claim.res.ClaimableIn + time.Millisecond // stores count in milliseconds
	left := claim.waitUntil.Sub(now)
	if claim.res.Entry.Released() { // it stays as it is until its retry time
		if pause > left {
			return 0, false
		}
	} else {
		pause = min(pause, backoff(claim.waits), left)
	}
	claim.waits++
	if pause <= 0 {
		return pause, false
	}
	s.tell(claim, Event{Step: observe.Wait, Took: pause})
	return pause, true
}

func (s *Session) waitLimit(now time.Time) time.Time {
	limit := now.Add(MaxLease * 24) // neither a deadline nor a limit
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
