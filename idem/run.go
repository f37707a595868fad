package idem

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// Run takes a ticket that Claim has filled in to its outcome. A claimed one is executed and settled; one whose store is
// down is executed without protection if the engine fails open; any other is not executed. When Run returns, the handler
// has returned and nothing of it is left running.
func (s *Session) Run(t *Claim) Outcome {
	out, set := s.attempt(t)
	if set.Op == 0 {
		return out
	}
	return s.concluded(t, out, set, s.send(set))
}

// RunAsync is Run for many tasks on a store that is a Batcher: it returns when the handler has returned, and calls done
// with the outcome when that is known, before it returns or later, from another goroutine. Completions are sent at once
// while none is on its way, and are gathered otherwise. At most Config.CommitWindow of them are under way: RunAsync waits
// before it calls the handler. The ticket must be left alone, and the session open, until done has been called.
//
// A completion that has an effect to commit, or its key to claim, is gathered with those of other goroutines, but RunAsync
// waits for it: the next handler of this one may be meant to see the effect. On any other store RunAsync is Run.
func (s *Session) RunAsync(t *Claim, done func(Outcome)) {
	if t.res.State != store.Claimed || !s.commits.enter(s.handlers) {
		done(s.Run(t))
		return
	}
	gathered := false
	defer func() { // deferred for handlers that end their goroutine
		if !gathered {
			s.commits.leave()
		}
	}()
	out, set := s.attempt(t)
	if set.Op == 0 {
		done(out)
		return
	}
	gathered = true
	if set.Effect != nil || set.Claim != nil {
		done(s.concluded(t, out, set, s.commits.addAndWait(set)))
		return
	}
	s.commits.add(commit{set: set, done: func(set store.Settlement, r settled) { done(s.concluded(t, out, set, r)) }})
}

// attempt executes a ticket, if it is to be executed. The outcome is final, unless there is a settlement that is still to
// be made.
func (s *Session) attempt(t *Claim) (Outcome, store.Settlement) {
	out := t.outcome()
	switch {
	case t.res.State == store.Claimed:
		return s.attemptClaimed(t, out)
	case out.Kind == StoreDown && s.engine.cfg.StoreDown == FailOpen:
		out = s.runUnprotected(&t.Task, out, FailedOpen)
	}
	return out, store.Settlement{}
}

func (s *Session) attemptClaimed(t *Claim, out Outcome) (_ Outcome, set store.Settlement) {
	defer func() {
		if set.Op == 0 {
			t.letGo()
		}
		t.spend(&set)
	}()
	if limit := s.engine.attemptLimit(&t.Task); t.res.Entry.Attempts > limit {
		s.keep(t)
		return s.bury(t, out, exhausted(t, limit)), store.Settlement{}
	}
	if s.handlers.Err() != nil {
		out.Kind, out.Err = NotStarted, s.whyNotStarted()
		if t.onCommit != nil {
			return out, store.Settlement{}
		}
		return s.giveBack(t, out, nil), store.Settlement{}
	}
	if t.onCommit == nil {
		if over, lost := s.renew(t, out); lost {
			return over, store.Settlement{}
		}
		s.keep(t)
	}
	result, effect, lost, err := s.execute(t)
	if err != nil && lost != nil {
		discard(effect)
		// The error may be nothing but our own cancellation, and somebody else may be at work on the task by now: no dead
		// letter, no attempt given back.
		return s.retry(t, out, fmt.Errorf("%w; the handler returned: %w", lost, err), 0), store.Settlement{}
	}
	return s.conclude(t, out, result, effect, err)
}

// spend makes a ticket that has run ready for another claim: it is good for one run. One whose completion has an effect to
// commit, or its key to claim, may be refused that, and then goes on.
func (t *Claim) spend(left *store.Settlement) {
	if left.Effect == nil && left.Claim == nil {
		t.res, t.owner, t.onCommit = store.ClaimResult{}, "", nil
	}
}

// renew extends a claim that has waited for its turn for a third of its lease, before its handler begins: another owner may
// have taken the key meanwhile, and a handler that has begun can't be told soon enough.
func (s *Session) renew(t *Claim, out Outcome) (over Outcome, lost bool) {
	if time.Since(t.claimedAt) < s.engine.cfg.beat() {
		return out, false
	}
	set := t.settlement(store.OpExtend, s.engine.cfg.Retention)
	set.Lease = s.engine.cfg.Lease
	sent := time.Now()
	err := s.engine.settleOne(s.handlers, set)
	var fenced *store.FencedError
	if errors.As(err, &fenced) {
		return s.fenced(t, out, fenced), true
	}
	if err == nil {
		t.claimedAt = sent
	}
	if time.Since(t.claimedAt) < s.engine.cfg.Lease {
		return out, false // held, or held for as long as the heartbeat will tell
	}
	out.Kind = StoreDown
	if err != nil {
		out.Err = fmt.Errorf("%w: the lease ended before the handler began, and could not be extended: %w", ErrStoreUnavailable, err)
		return out, true
	}
	out.Err = fmt.Errorf("%w: the lease was extended before the handler began, but the answer took %v, longer than the lease of %v",
		ErrStoreUnavailable, time.Since(sent).Round(time.Millisecond), s.engine.cfg.Lease)
	return s.giveBack(t, out, nil), true
}

// attemptLimit is the number of the last attempt. What can't be dead-lettered is tried for ever.
func (e *Engine) attemptLimit(task *Task) int {
	if e.cfg.MaxAttempts < 0 || task.DeadLetters == nil {
		return math.MaxInt
	}
	return e.cfg.MaxAttempts
}

func exhausted(t *Claim, limit int) error {
	rec := &t.res.Entry
	last := "none was recorded"
	if rec.Failure != nil {
		last = rec.Failure.Code + ": " + rec.Failure.Message
	}
	return fmt.Errorf("%w: %d attempts were begun and none settled the key: a process died or ran out of time, "+
		"or the dead letter could not be sent; last recorded failure: %s", ErrAttemptsExhausted, limit, last)
}

// errNotStarted says that the caller's time had ended, or its context was cancelled, before a task was begun.
var errNotStarted = errors.New("idem: not started")

func (s *Session) whyNotStarted() error {
	if s.ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errNotStarted, context.Cause(s.ctx))
	}
	return fmt.Errorf("%w: less than %v", ErrDeadlineNear, s.engine.cfg.DeadlineMargin)
}

// execute calls the handler. lost says why the claim was lost meanwhile, if it
// was.
func (s *Session) execute(t *Claim) (result []byte, effect store.Effect, lost, err error) {
	if t.onCommit != nil {
		ctx := &handlerContext{Context: s.handlers, attempt: t.attempt(), transactor: s.engine.transactor}
		defer ctx.end(nil)
		result, effect, err = callSealed(ctx, t.Task.Handler)
		return result, effect, nil, err
	}
	defer t.beat.handler.end(nil)
	result, effect, err = callSealed(&t.beat.handler, t.Task.Handler)
	return result, effect, t.beat.returned(), err
}

// callSealed calls the handler and takes what it has enlisted: the caller's to settle or to discard.
func callSealed(ctx *handlerContext, h Handler) (result []byte, effect store.Effect, err error) {
	var wrong error
	func() {
		returned := false
		defer func() { // deferred for handlers that end their goroutine
			if effect, wrong = ctx.sealed(); !returned {
				discard(effect)
			}
		}()
		result, err = call(ctx, h)
		returned = true
	}()
	if wrong != nil && (err == nil || classOf(err).class == resultless) {
		return nil, nil, wrong
	}
	return result, effect, err
}

// call calls the handler and turns a panic into a PanicError: also one of the returned error's own methods, as those of a
// nil pointer that was returned as an error.
func call(ctx context.Context, h Handler) (result []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			result, err = nil, &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if result, err = h.Handle(ctx); err != nil {
		failureOf(err)
	}
	return result, err
}

// conclude settles the key by what the handler returned, but for a completion: that is returned, still to be made.
func (s *Session) conclude(t *Claim, out Outcome, result []byte, effect store.Effect, err error) (Outcome, store.Settlement) {
	switch {
	case err == nil:
		return s.complete(t, out, result, 0, effect)
	case classOf(err).class == resultless:
		out.Err = fmt.Errorf("%w: %w", store.ErrResultNotStored, err)
		return s.complete(t, out, nil, store.ResultUnencodable, effect)
	}
	discard(effect)
	if t.onCommit != nil {
		return s.failedUnclaimed(t, err), store.Settlement{}
	}
	return s.failed(t, out, err), store.Settlement{}
}

// failed settles a claimed key by a handler's error.
func (s *Session) failed(t *Claim, out Outcome, err error) Outcome {
	switch c := classOf(err); {
	case c.class == unavailable:
		out.Kind, out.Err = DependencyDown, err
		return s.giveBack(t, out, failureOf(err))
	case c.class == permanent && t.Task.DeadLetters != nil:
		return s.bury(t, out, err)
	case t.res.Entry.Attempts >= s.engine.attemptLimit(&t.Task):
		return s.bury(t, out, fmt.Errorf("%w (attempt %d of %d): %w", ErrAttemptsExhausted, t.res.Entry.Attempts, s.engine.cfg.MaxAttempts, err))
	case c.class == permanent:
		return s.retry(t, out, fmt.Errorf("%w: %w", ErrNoDeadLetters, err), 0)
	default:
		return s.retry(t, out, err, c.delay)
	}
}

func (s *Session) complete(t *Claim, out Outcome, result []byte, omitted int, effect store.Effect) (Outcome, store.Settlement) {
	set := t.settlement(store.OpComplete, s.engine.cfg.Retention)
	set.Effect, set.Claim = effect, t.onCommit
	set.Result, set.ResultOmitted = result, omitted
	if len(result) > max(0, s.engine.cfg.MaxResult) {
		set.Result, set.ResultOmitted = nil, len(result)
	}
	out.Kind, out.Result = Executed, result
	return out, set
}

// bury sends the dead letter first and then fails the key, so that nothing is lost in between. A dead letter that can't be
// sent leaves the task for another attempt.
func (s *Session) bury(t *Claim, out Outcome, cause error) Outcome {
	failure := failureOf(cause)
	b := DeadLetter{Attempt: t.attempt(), StoredKey: t.key, Failure: *failure, Err: cause}
	if err := s.sendDeadLetter(t.Task.DeadLetters, b); err != nil {
		return s.retry(t, out, fmt.Errorf("%w; it is for: %w", err, cause), 0)
	}
	set := t.settlement(store.OpFail, s.engine.cfg.Retention)
	set.Failure = failure
	out.Kind, out.Err = DeadLettered, cause
	return s.concluded(t, out, set, s.send(set))
}

// sendDeadLetter returns ErrDeadLetterNotSent (wrapped) with the cause, a panic's too.
func (s *Session) sendDeadLetter(to DeadLetterSink, b DeadLetter) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrDeadLetterNotSent, err)
		}
	}()
	ctx, cancel := s.letterContext()
	defer cancel()
	return to.DeadLetter(ctx, b)
}

// letterContext bounds a dead letter so that time is left to settle the key by what came of it: a quarter of the margin.
func (s *Session) letterContext() (context.Context, context.CancelFunc) {
	if end, ok := s.settling.Deadline(); ok {
		return context.WithDeadline(s.settling, s.engine.cfg.lettersEnd(end))
	}
	return s.settleContext()
}
