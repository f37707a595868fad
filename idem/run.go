package idem

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"
)

// Run takes a ticket that Claim has filled in to its outcome. A claimed one is executed and settled; one whose store is
// down is executed without protection if the engine fails open; any other is not executed. When Run returns, the handler
// has returned and nothing of it is left running.
func (s *Session) Run(t *Ticket) Outcome {
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
func (s *Session) RunAsync(t *Ticket, done func(Outcome)) {
	if t.res.State != Claimed || !s.commits.enter(s.handlers) {
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
	s.commits.add(commit{set: set, done: func(set Settlement, r settled) { done(s.concluded(t, out, set, r)) }})
}

// attempt executes a ticket, if it is to be executed. The outcome is final, unless there is a settlement that is still to
// be made.
func (s *Session) attempt(t *Ticket) (Outcome, Settlement) {
	out := t.outcome()
	switch {
	case t.res.State == Claimed:
		return s.attemptClaimed(t, out)
	case out.Kind == StoreDown && s.engine.cfg.StoreDown == FailOpen:
		out = s.runUnprotected(&t.Task, out, FailedOpen)
	}
	return out, Settlement{}
}

// RunUnprotected runs a task without any claim, as if there were no engine: for messages without a key, and for comparison.
func (s *Session) RunUnprotected(task *Task) Outcome {
	return s.runUnprotected(task, Outcome{}, Unprotected)
}

func (s *Session) attemptClaimed(t *Ticket, out Outcome) (_ Outcome, set Settlement) {
	defer func() { t.spend(&set) }()
	if limit := s.engine.attemptLimit(&t.Task); t.res.Record.Attempts > limit {
		return s.bury(t, out, exhausted(t, limit)), Settlement{}
	}
	if s.handlers.Err() != nil {
		out.Kind, out.Err = NotStarted, s.whyNotStarted()
		if t.onCommit != nil {
			return out, Settlement{}
		}
		return s.giveBack(t, out, nil), Settlement{}
	}
	if t.onCommit == nil && time.Since(t.claimedAt) >= s.engine.cfg.Lease/3 {
		if over, lost := s.renew(t, out); lost {
			return over, Settlement{}
		}
	}
	result, effect, lost, err := s.execute(t)
	if err != nil && lost != nil {
		// The error may be nothing but our own cancellation, and somebody else may be at work on the task by now: no dead
		// letter, no attempt given back.
		return s.retry(t, out, fmt.Errorf("%w; the handler returned: %w", lost, err), 0), Settlement{}
	}
	return s.conclude(t, out, result, effect, err)
}

// spend makes a ticket that has run ready for another claim: it is good for one run. One whose completion has an effect to
// commit, or its key to claim, may be refused that, and then goes on.
func (t *Ticket) spend(left *Settlement) {
	if left.Effect == nil && left.Claim == nil {
		t.res, t.owner, t.onCommit = ClaimResult{}, "", nil
	}
}

// renew extends a claim that has waited for its turn, before its handler begins: somebody may have taken the key meanwhile,
// and a handler that has begun can't be told soon enough.
func (s *Session) renew(t *Ticket, out Outcome) (over Outcome, lost bool) {
	set := t.settlement(OpExtend, s.engine.cfg.Retention)
	set.Lease = s.engine.cfg.Lease
	sent := time.Now()
	err := s.engine.settleOne(s.handlers, set)
	var fenced *FencedError
	switch {
	case err == nil:
		t.claimedAt = sent
	case errors.As(err, &fenced):
		return s.fenced(t, out, fenced), true
	case time.Since(t.claimedAt) >= s.engine.cfg.Lease:
		out.Kind, out.Err = StoreDown, fmt.Errorf("%w: the lease ended before the handler began, and could not be extended: %w", ErrStoreUnavailable, err)
		return out, true
	}
	return out, false // held, or held for as long as the heartbeat will tell
}

// attemptLimit is the number of the last attempt. What can't be dead-lettered is tried for ever.
func (e *Engine) attemptLimit(task *Task) int {
	if e.cfg.MaxAttempts < 0 || task.DeadLetters == nil {
		return math.MaxInt
	}
	return e.cfg.MaxAttempts
}

func exhausted(t *Ticket, limit int) error {
	rec := &t.res.Record
	last := "none was recorded"
	if rec.Failure != nil {
		last = rec.Failure.Code + ": " + rec.Failure.Message
	}
	return fmt.Errorf("%w: %d attempts were begun and none settled the key: a process died or ran out of time, "+
		"or the dead letter could not be sent; last recorded failure: %s", ErrAttemptsExhausted, limit, last)
}

func (s *Session) whyNotStarted() error {
	if err := s.ctx.Err(); err != nil {
		return fmt.Errorf("idem: not started: %w", context.Cause(s.ctx))
	}
	return fmt.Errorf("%w: less than %v", ErrDeadlineNear, s.engine.cfg.DeadlineMargin)
}

// execute calls the handler under a heartbeat, if there is a claim to keep. lost says why the claim was lost meanwhile, if it
// was.
func (s *Session) execute(t *Ticket) (result []byte, effect Effect, lost, err error) {
	if t.onCommit != nil {
		ctx := &handlerContext{Context: s.handlers, attempt: t.attempt(), transactor: s.engine.transactor}
		defer ctx.end(nil)
		result, effect, err = callSealed(ctx, t.Task.Handler)
		return result, effect, nil, err
	}
	beat := startHeartbeat(s, t)
	defer beat.handler.end(nil)
	result, effect, err = callSealed(&beat.handler, t.Task.Handler)
	return result, effect, beat.stop(), err
}

// callSealed calls the handler and takes what it has enlisted. What a handler enlists that fails is dropped.
func callSealed(ctx *handlerContext, h Handler) (result []byte, effect Effect, err error) {
	result, err = call(ctx, h)
	effect, wrong := ctx.sealed()
	if err == nil && wrong != nil {
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
func (s *Session) conclude(t *Ticket, out Outcome, result []byte, effect Effect, err error) (Outcome, Settlement) {
	switch {
	case err == nil:
		return s.complete(t, out, result, 0, effect)
	case classOf(err).class == resultless:
		out.Err = fmt.Errorf("%w: %w", ErrResultNotStored, err)
		return s.complete(t, out, nil, ResultUnencodable, effect)
	case t.onCommit != nil:
		return s.failedUnclaimed(t, err), Settlement{}
	}
	return s.failed(t, out, err), Settlement{}
}

// failed settles a claimed key by a handler's error.
func (s *Session) failed(t *Ticket, out Outcome, err error) Outcome {
	switch c := classOf(err); {
	case c.class == unavailable:
		out.Kind, out.Err = DependencyDown, err
		return s.giveBack(t, out, failureOf(err))
	case c.class == permanent && t.Task.DeadLetters != nil:
		return s.bury(t, out, err)
	case t.res.Record.Attempts >= s.engine.attemptLimit(&t.Task):
		return s.bury(t, out, fmt.Errorf("%w (attempt %d of %d): %w", ErrAttemptsExhausted, t.res.Record.Attempts, s.engine.cfg.MaxAttempts, err))
	case c.class == permanent:
		return s.retry(t, out, fmt.Errorf("%w: %w", ErrNoDeadLetters, err), 0)
	default:
		return s.retry(t, out, err, c.delay)
	}
}

func (s *Session) complete(t *Ticket, out Outcome, result []byte, omitted int, effect Effect) (Outcome, Settlement) {
	set := t.settlement(OpComplete, s.engine.cfg.Retention)
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
func (s *Session) bury(t *Ticket, out Outcome, cause error) Outcome {
	failure := failureOf(cause)
	b := Burial{Attempt: t.attempt(), StoredKey: t.key, Failure: *failure, Err: cause}
	if err := s.sendDeadLetter(t.Task.DeadLetters, b); err != nil {
		return s.retry(t, out, fmt.Errorf("%w; it is for: %w", err, cause), 0)
	}
	set := t.settlement(OpFail, s.engine.cfg.Retention)
	set.Failure = failure
	out.Kind, out.Err = DeadLettered, cause
	return s.concluded(t, out, set, s.send(set))
}

func (s *Session) sendDeadLetter(to DeadLetterer, b Burial) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		if err != nil {
			err = fmt.Errorf("the dead letter could not be sent: %w", err)
		}
	}()
	ctx, cancel := s.settleContext()
	defer cancel()
	return to.DeadLetter(ctx, b)
}

// retry releases the key for another attempt and keeps the one that was charged.
func (s *Session) retry(t *Ticket, out Outcome, err error, delay time.Duration) Outcome {
	out.Kind, out.Err = Retry, err
	return s.released(t, out, s.release(t, failureOf(err), delay, false))
}

// giveBack releases the key with its attempt.
func (s *Session) giveBack(t *Ticket, out Outcome, f *Failure) Outcome {
	return s.released(t, out, s.release(t, f, 0, true))
}

func (s *Session) release(t *Ticket, f *Failure, delay time.Duration, refund bool) settled {
	set := t.settlement(OpRelease, s.engine.cfg.Retention)
	set.Failure, set.Delay, set.Refund = f, delay, refund
	return s.send(set)
}

// released adds to an outcome how its release went. A key that could not be released is free when its lease is over.
func (s *Session) released(t *Ticket, out Outcome, r settled) Outcome {
	out.SettleTook = r.took
	var fenced *FencedError
	if errors.As(r.err, &fenced) {
		before := out.Err
		if out = s.fenced(t, out, fenced); out.Kind == Fenced {
			out.Err = fmt.Errorf("%w; before that: %w", out.Err, before)
		}
	} else if r.err != nil {
		out.Err = fmt.Errorf("%w (and the key could not be released, it stays taken for up to %v: %w)", out.Err, s.engine.cfg.Lease, r.err)
	}
	return out
}

// concluded adds to an outcome how its settlement went.
func (s *Session) concluded(t *Ticket, out Outcome, set Settlement, r settled) Outcome {
	if set.Claim != nil {
		s.engine.breaker.report(time.Now(), healthOf([]ClaimResult{{Err: r.err}}))
	}
	out.SettleTook = r.took
	if r.err != nil {
		out = s.notSettled(t, out, set, r.err)
	}
	t.spend(&Settlement{})
	return out
}

// notSettled is what became of a task whose settlement failed. One that was refused for its effect, or that found its key
// taken, goes on.
func (s *Session) notSettled(t *Ticket, out Outcome, set Settlement, err error) Outcome {
	var fenced *FencedError
	var refused *ClaimRefusedError
	var rejected *RejectedError
	switch {
	case errors.As(err, &fenced):
		return s.fenced(t, out, fenced)
	case errors.As(err, &refused):
		return s.claimRefused(t, refused)
	case errors.As(err, &rejected) && t.onCommit != nil:
		return s.failedUnclaimed(t, rejected.Err)
	case errors.As(err, &rejected):
		out.Kind, out.Result, out.Err = KindUnknown, nil, nil
		return s.failed(t, out, rejected.Err)
	}
	what := "the task is done, but its key could not be set to say so and"
	if set.Effect != nil || set.Claim != nil {
		what = "the store did not say whether the task's effect and its completion were committed; if they were not, the task"
	}
	out.Kind = CompletionFailed
	out.Err = fmt.Errorf("%s runs again when the lease of %v is over: key %q, version %d, from %s: %s: %w",
		what, s.engine.cfg.Lease, set.Key, set.Version, orUnknown(t.Task.Source), set.Op, err)
	return out
}

// fenced is rule 3's other half: whoever took the key has completed the same request, so the task is done, with that
// owner's result.
func (s *Session) fenced(t *Ticket, out Outcome, err *FencedError) Outcome {
	out.Kind, out.Fenced, out.Result, out.Err = Fenced, true, nil, err
	if cur := &err.Current; cur.Status == StatusCompleted && cur.Fingerprint.Matches(t.Task.Fingerprint) {
		out.Kind, out.Token = Replayed, cur.Version
		out.Result, out.Err = cur.StoredResult()
	}
	return out
}

func (t *Ticket) settlement(op SettleOp, retention time.Duration) Settlement {
	return Settlement{Op: op, Key: t.key, Version: t.res.Record.Version, Owner: t.owner, Retention: retention}
}

// settled is how a settlement went.
type settled struct {
	err  error
	took time.Duration
}

// releaseTries bounds how often a release is sent; completions and failures are sent until the session's deadline.
const releaseTries = 3

// send sends a settlement until the store has given a proper answer, or time or patience are over.
func (s *Session) send(set Settlement) settled {
	started := time.Now()
	ctx, cancel := s.settleContext()
	defer cancel()
	for n := 0; ; n++ {
		err := s.engine.settleOne(ctx, set)
		if answered(err) || (set.Op == OpRelease && n+1 >= releaseTries) || !sleep(ctx, backoff(n)) {
			return settled{err: err, took: time.Since(started)}
		}
	}
}

// settleContext bounds a settlement, or a dead letter, by the session's deadline, or by a lease if it has none.
func (s *Session) settleContext() (context.Context, context.CancelFunc) {
	if s.bounded {
		return s.settling, func() {}
	}
	return context.WithTimeout(s.settling, s.engine.cfg.Lease)
}

func (e *Engine) settleOne(ctx context.Context, set Settlement) error {
	buf, _ := settleScratch.Get().(*[1]Settlement)
	defer settleScratch.Put(buf)
	buf[0] = set
	errs := e.store.Settle(ctx, buf[:])
	buf[0] = Settlement{}
	if len(errs) == 0 {
		return nil
	}
	return errs[0]
}

func (s *Session) runUnprotected(task *Task, out Outcome, done Kind) Outcome {
	if s.handlers.Err() != nil {
		out.Kind, out.Err = NotStarted, s.whyNotStarted()
		return out
	}
	ctx, cancel := context.WithCancel(s.handlers)
	result, err := call(ctx, task.Handler)
	cancel()
	switch c := classOf(err); {
	case err == nil || c.class == resultless:
		out.Kind, out.Result = done, result
	case c.class == unavailable:
		out.Kind, out.Err = DependencyDown, err
	case c.class == permanent && task.DeadLetters != nil:
		return s.buryUnprotected(task, out, err)
	default:
		out.Kind, out.Err = Retry, err
	}
	return out
}

func (s *Session) buryUnprotected(task *Task, out Outcome, cause error) Outcome {
	b := Burial{Attempt: Attempt{Key: task.Key, Source: task.Source}, StoredKey: out.Key, Failure: *failureOf(cause), Err: cause}
	out.Kind, out.Err = DeadLettered, cause
	if err := s.sendDeadLetter(task.DeadLetters, b); err != nil {
		out.Kind, out.Err = Retry, fmt.Errorf("%w; it is for: %w", err, cause)
	}
	return out
}
