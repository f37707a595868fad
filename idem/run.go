package idem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/idem/store"
)

// Run runs a task after its claim and returns the outcome. A claimed task is executed and settled. If the store is unavailable and
// the engine fails open, the task is executed without protection. Any other task is not executed. When Run returns, the handler
// has returned.
func (s *Session) Run(claim *Claim) Outcome {
	out, set := s.attempt(claim)
	if set.Op == 0 {
		return out
	}
	return s.concluded(claim, out, set, s.send(set))
}

// RunAsync is Run with group commit, for many tasks on a store that is a Batcher. It returns when the handler has returned, and calls
// done with the outcome before it returns or later, from another goroutine. A completion is sent at once if none is being sent;
// otherwise it is sent together with others in the next request. At most Config.CommitWindow completions are unconfirmed: RunAsync waits
// for one before it calls the handler. The caller must not use the claim, nor close the session, until done has been called.
//
// RunAsync does not wait for a plain completion, because the effect already happened when the handler returned. It waits for a
// completion that commits an effect, because the next handler may have to see the effect. On a store that is no Batcher RunAsync is Run.
func (s *Session) RunAsync(claim *Claim, done func(Outcome)) {
	if claim.res.State != store.Claimed || !s.commits.enter(s.handlers) {
		done(s.Run(claim))
		return
	}
	gathered := false
	defer func() { // deferred, because a handler may end its goroutine
		if !gathered {
			s.commits.leave()
		}
	}()
	out, set := s.attempt(claim)
	if set.Op == 0 {
		done(out)
		return
	}
	gathered = true
	if set.Effect != nil {
		done(s.concluded(claim, out, set, s.commits.addAndWait(set)))
		return
	}
	s.commits.add(commit{set: set, done: func(set store.Settlement, r settled) { done(s.concluded(claim, out, set, r)) }})
}

// attempt executes a task, unless its claim says otherwise. The outcome is final unless a settlement is returned, which the
// caller sends.
func (s *Session) attempt(claim *Claim) (Outcome, store.Settlement) {
	out := claim.outcome()
	switch {
	case claim.res.State == store.Claimed:
		return s.attemptClaimed(claim, out)
	case s.engine.FailsOpen(claim.res.Err):
		out = s.runUnprotected(&claim.Task, out, FailedOpen)
	}
	return out, store.Settlement{}
}

func (s *Session) attemptClaimed(claim *Claim, out Outcome) (_ Outcome, set store.Settlement) {
	defer func() {
		if set.Op == 0 {
			claim.stopHeartbeat()
		}
		claim.spend(&set)
	}()
	if limit := s.engine.attemptLimit(&claim.Task); claim.res.Entry.Attempts > limit {
		s.keep(claim)
		return s.deadLetter(claim, out, exhausted(claim, limit)), store.Settlement{}
	}
	if s.handlers.Err() != nil {
		out.Kind, out.Err = NotStarted, s.notStartedError()
		if claim.insert != nil {
			return out, store.Settlement{}
		}
		return s.refund(claim, out, nil, 0), store.Settlement{}
	}
	if claim.insert == nil {
		if over, lost := s.renew(claim, out); lost {
			return over, store.Settlement{}
		}
	}
	if wait, down := s.engine.outage.begin(claim); down != nil {
		return s.heldBack(claim, out, wait, down), store.Settlement{}
	}
	if claim.insert == nil {
		s.keep(claim)
	}
	result, effect, lost, err := s.execute(claim)
	if errors.Is(err, errNotBegun) {
		s.engine.outage.undecided(claim.key)
		out.Kind, out.Err = NotStarted, err
		return out, store.Settlement{}
	}
	if err != nil && lost != nil {
		s.engine.outage.undecided(claim.key)
		discard(effect)
		// The error may be the result of our own cancellation, and another owner may handle the task now: send no dead letter,
		// and count the attempt.
		return s.retry(claim, out, fmt.Errorf("%w; the handler returned: %w", lost, err), s.engine.retryDelay(claim)), store.Settlement{}
	}
	return s.conclude(claim, out, result, effect, err)
}

// heldBack gives a claim back whose handler can't be called during an outage.
func (s *Session) heldBack(claim *Claim, out Outcome, wait time.Duration, down error) Outcome {
	out.Kind, out.Err, out.RetryIn = NotStarted, down, wait
	if claim.insert != nil {
		return out
	}
	return s.refund(claim, out, nil, 0)
}

// spend resets a claim after its run, so that the task can be claimed again. A claim whose completion commits an effect is reset later, because
// the effect may be refused.
func (claim *Claim) spend(left *store.Settlement) {
	if left.Effect == nil {
		claim.res, claim.owner, claim.insert = store.ClaimResult{}, "", nil
	}
}

// renew extends a claim that is older than the interval of heartbeats before its handler begins: another owner may have taken the key,
// and a running handler would learn it too late.
func (s *Session) renew(claim *Claim, out Outcome) (over Outcome, lost bool) {
	if time.Since(claim.claimedAt) < s.engine.cfg.beat() {
		return out, false
	}
	set := claim.settlement(store.OpExtend, s.engine.cfg.Retention)
	set.Lease = s.engine.cfg.Lease
	sent := time.Now()
	err := s.engine.settleOne(s.handlers, set)
	var fenced *store.FencedError
	if errors.As(err, &fenced) {
		return s.fenced(claim, out, fenced), true
	}
	if err == nil {
		claim.claimedAt = sent
	}
	if time.Since(claim.claimedAt) < s.engine.cfg.Lease {
		return out, false // the claim is held, or the heartbeat will find that it is not
	}
	out.Kind = StoreDown
	if err != nil {
		out.Err = fmt.Errorf("%w: the lease ended before the handler began, and could not be extended: %w", ErrStoreUnavailable, err)
		return out, true
	}
	out.Err = fmt.Errorf("%w: the lease was extended before the handler began, but the answer took %v, longer than the lease of %v",
		ErrStoreUnavailable, time.Since(sent).Round(time.Millisecond), s.engine.cfg.Lease)
	return s.refund(claim, out, nil, 0), true
}

// attemptLimit is the limit of rule 8: the number of the last attempt. A task without a dead-letter sink has no limit.
func (e *Engine) attemptLimit(task *Task) int {
	if e.cfg.MaxAttempts < 0 || task.DeadLetters == nil {
		return math.MaxInt
	}
	return e.cfg.MaxAttempts
}

func exhausted(claim *Claim, limit int) error {
	entry := &claim.res.Entry
	last := "none was recorded"
	if entry.Failure != nil {
		last = entry.Failure.Code + ": " + entry.Failure.Message
	}
	return fmt.Errorf("%w: %d attempts were begun and none settled the key: a process died or ran out of time, "+
		"or the dead letter could not be sent; last recorded failure: %s", ErrAttemptsExhausted, limit, last)
}

// errNotStarted means that the caller's context ended before a task was begun.
var errNotStarted = errors.New("idem: not started")

func (s *Session) notStartedError() error {
	if s.ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errNotStarted, context.Cause(s.ctx))
	}
	return fmt.Errorf("%w: less than %v", ErrDeadlineNear, s.engine.cfg.DeadlineMargin)
}

// execute calls the handler. lost is the reason if the claim was lost meanwhile.
func (s *Session) execute(claim *Claim) (result []byte, effect store.Effect, lost, err error) {
	began := s.began()
	if claim.insert != nil {
		return s.executeUnclaimed(claim, began)
	}
	defer claim.beat.handler.end(nil)
	result, effect, err = callSealed(&claim.beat.handler, claim.Task.Handler)
	s.ended(observe.Handle, &claim.Task, claim.beat.handler.attempt, claim.key, began, err)
	return result, effect, claim.beat.returned(), err
}

// errNotBegun means that the lease of the task's range was lost before its handler began.
var errNotBegun = errors.New("idem: not begun")

// executeUnclaimed calls the handler of a task whose key has no claim.
func (s *Session) executeUnclaimed(claim *Claim, began time.Time) (result []byte, effect store.Effect, lost, err error) {
	ctx := new(handlerContext)
	ctx.begin(s, claim)
	defer ctx.end(nil)
	r := claim.lease
	if r != nil {
		if lost = r.enter(ctx); lost != nil {
			return nil, nil, lost, fmt.Errorf("%w: %w", errNotBegun, lost)
		}
		claim.ran = claim.res.Entry.Token
	}
	result, effect, err = callSealed(ctx, claim.Task.Handler)
	if r != nil {
		lost = r.returned(ctx)
	}
	s.ended(observe.Handle, &claim.Task, ctx.attempt, claim.key, began, err)
	return result, effect, lost, err
}

// callSealed calls the handler and returns the effect that it enlisted, for the caller to settle or to discard.
func callSealed(ctx *handlerContext, h Handler) (result []byte, effect store.Effect, err error) {
	var wrong error
	func() {
		returned := false
		defer func() { // deferred, because a handler may end its goroutine
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

// call calls the handler and turns a panic into a PanicError, also a panic in a method of the returned error, such as that of a nil
// pointer returned as an error.
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

// conclude settles the key by the handler's result. A completion is returned for the caller to send.
func (s *Session) conclude(claim *Claim, out Outcome, result []byte, effect store.Effect, err error) (Outcome, store.Settlement) {
	switch {
	case err == nil:
		s.engine.outage.succeeded(claim.key)
		return s.complete(claim, out, result, 0, effect)
	case classOf(err).class == resultless:
		s.engine.outage.succeeded(claim.key)
		out.Err = fmt.Errorf("%w: %w", store.ErrResultNotStored, err)
		return s.complete(claim, out, nil, store.ResultUnencodable, effect)
	}
	discard(effect)
	if s.interrupted(err) {
		s.engine.outage.undecided(claim.key)
		out.Kind, out.Err = Retry, fmt.Errorf("idem: the handler was cancelled, and its attempt is not counted: it returned: %w", err)
		return s.refund(claim, out, nil, classOf(err).delay), store.Settlement{}
	}
	if wait, down := s.duringOutage(claim, err); down != nil {
		out.Kind, out.Err, out.RetryIn = DependencyDown, down, wait
		return s.refund(claim, out, claim.givenBack(err), classOf(err).delay), store.Settlement{}
	}
	return s.failed(claim, out, err), store.Settlement{}
}

// duringOutage counts a handler's error, and returns the wait and the error of a task whose attempt is given back because of an outage.
func (s *Session) duringOutage(claim *Claim, err error) (wait time.Duration, down error) {
	switch c := classOf(err).class; {
	case claim.Task.Rejected:
		return 0, nil
	case claim.Together, c == permanent, c == callFailed:
		s.engine.outage.undecided(claim.key)
		return 0, nil
	}
	return s.engine.outage.failedBy(claim.key, claim.res.Entry.Attempts, time.Now(), err)
}

// interrupted reports whether a handler's error may be the result of its caller's cancellation, as when a process shuts down. The end
// of a deadline is none: the handler has used its time.
func (s *Session) interrupted(err error) bool {
	if !errors.Is(s.handlers.Err(), context.Canceled) {
		return false
	}
	c := classOf(err).class
	return c == retriable || c == permanent && errors.Is(err, context.Canceled)
}

// failed settles a claimed key by a handler's error.
func (s *Session) failed(claim *Claim, out Outcome, err error) Outcome {
	switch c := classOf(err); {
	case c.class == unavailable:
		out.Kind, out.Err = DependencyDown, err
		return s.refund(claim, out, claim.givenBack(err), c.delay)
	case c.class == callFailed:
		out.Kind, out.Err = Retry, err
		return s.refund(claim, out, failureOf(err), c.delay)
	case c.class == permanent && claim.Task.DeadLetters != nil:
		return s.deadLetter(claim, out, err)
	case claim.res.Entry.Attempts >= s.engine.attemptLimit(&claim.Task):
		return s.deadLetter(claim, out, fmt.Errorf("%w (attempt %d of %d): %w", ErrAttemptsExhausted, claim.res.Entry.Attempts, s.engine.cfg.MaxAttempts, err))
	case c.class == permanent:
		return s.retry(claim, out, fmt.Errorf("%w: %w", ErrNoDeadLetters, err), s.engine.retryDelay(claim))
	default:
		return s.retry(claim, out, err, cmp.Or(c.delay, s.engine.retryDelay(claim)))
	}
}

func (s *Session) complete(claim *Claim, out Outcome, result []byte, omitted int, effect store.Effect) (Outcome, store.Settlement) {
	set := claim.settlement(store.OpComplete, s.engine.cfg.Retention)
	set.Effect = effect
	set.Result, set.ResultOmitted = result, omitted
	if len(result) > max(0, s.engine.cfg.MaxResult) {
		set.Result, set.ResultOmitted = nil, len(result)
	}
	out.Kind, out.Result = Executed, result
	return out, set
}

// deadLetter sends the dead letter first and then fails the key, so that a crash in between loses nothing. If the dead letter can't be
// sent, the task is released for another attempt.
func (s *Session) deadLetter(claim *Claim, out Outcome, cause error) Outcome {
	failure := failureOf(cause)
	b := DeadLetter{Attempt: claim.attempt(), StoredKey: claim.key, Failure: *failure, Err: cause}
	if err := s.sendDeadLetter(&claim.Task, b); err != nil {
		return s.retry(claim, out, fmt.Errorf("%w; it is for: %w", err, cause), s.engine.cfg.retryDelay(1)) // the sink's failure, not another of the task
	}
	s.engine.outage.forget(claim.key)
	set := claim.settlement(store.OpFail, s.engine.cfg.Retention)
	set.Failure = failure
	out.Kind, out.Err = DeadLettered, cause
	return s.concluded(claim, out, set, s.send(set))
}

// sendDeadLetter returns ErrDeadLetterNotSent (wrapped) with the cause, a panic's too.
func (s *Session) sendDeadLetter(task *Task, b DeadLetter) (err error) {
	began := s.began()
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrDeadLetterNotSent, err)
		}
		s.ended(observe.DeadLetter, task, b.Attempt, b.StoredKey, began, err)
	}()
	ctx, cancel := s.letterContext()
	defer cancel()
	return task.DeadLetters.Send(ctx, b)
}

// letterTime bounds the sending of a dead letter in a session without a deadline. A shorter lease does not: it is extended meanwhile.
const letterTime = 30 * time.Second

// letterContext bounds the sending of a dead letter so that a quarter of the margin is left to settle the key.
func (s *Session) letterContext() (context.Context, context.CancelFunc) {
	if end, ok := s.settling.Deadline(); ok {
		return context.WithDeadline(s.settling, s.engine.cfg.lettersEnd(end))
	}
	return context.WithTimeout(s.settling, letterTime)
}
