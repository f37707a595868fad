package idem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// execution is the way of one task from its claim to its outcome, in the order of this file: before the
// handler (attempt), the call (execute), what its result means (conclude). settle.go has what follows: the
// settlement of the key, and what its answer means.
type execution struct {
	session *Session
	claim   *Claim
	out     Outcome // what is known so far
}

func newExecution(s *Session, claim *Claim) *execution {
	return &execution{session: s, claim: claim, out: claim.outcome()}
}

func (x *execution) cfg() *Config { return &x.session.engine.cfg }

// attempt executes a task, unless its claim says otherwise. The outcome is final unless a settlement is left,
// which the caller sends.
func (x *execution) attempt() (set store.Settlement, left bool) {
	switch {
	case x.claim.hold.kind != holdNone:
		return x.attemptClaimed()
	case x.session.engine.FailsOpen(x.claim.res.Err):
		x.out = x.session.runUnprotected(&x.claim.Task, x.out, FailedOpen)
	}
	return store.Settlement{}, false
}

func (x *execution) attemptClaimed() (set store.Settlement, left bool) {
	claim := x.claim
	defer func() {
		if !left {
			claim.stopHeartbeat()
		}
		if set.Effect == nil { // otherwise the effect may be refused
			claim.reset()
		}
	}()
	if x.session.engine.unended(claim) {
		claim.startHeartbeat(x.session)
		x.outcomeUnknown(claim.atMostOnce.unendedError())
		return set, false
	}
	if limit := x.session.engine.attemptLimit(&claim.Task); claim.res.Entry.Attempts > limit {
		claim.startHeartbeat(x.session)
		x.deadLetter(exhausted(claim, limit))
		return set, false
	}
	if !x.mayBegin() {
		return set, false
	}
	claim.startHeartbeat(x.session)
	result, effect, lost, err := x.execute()
	switch {
	case errors.Is(err, errNotBegun):
		x.session.engine.outage.undecided(claim.key)
		x.out.Kind, x.out.Err = NotStarted, err
		return set, false
	case err != nil && lost != nil:
		// The error may be the result of our own cancellation, and another owner may handle the task now:
		// send no dead letter, and count the attempt.
		x.session.engine.outage.undecided(claim.key)
		discard(effect)
		err = fmt.Errorf("%w; the handler returned: %w", lost, err)
		if x.atMostOnce() {
			x.keep(err)
		} else {
			x.retry(err, x.session.engine.retryDelay(claim))
		}
		return set, false
	}
	return x.conclude(result, effect, err)
}

// mayBegin reports whether the handler may be called. If not, the outcome says why, and the claim is given
// back.
func (x *execution) mayBegin() bool {
	if x.session.handlers.Err() == nil && x.renew() {
		return false
	}
	if x.session.handlers.Err() != nil { // the extension may have taken until then
		x.notBegun(x.session.notStartedError(), 0)
		return false
	}
	if wait, down := x.session.engine.outage.begin(x.claim); down != nil {
		x.notBegun(down, wait)
		return false
	}
	return true
}

// notBegun gives a claim back whose handler is not called.
func (x *execution) notBegun(err error, wait time.Duration) {
	x.out.Kind, x.out.Err, x.out.RetryIn = NotStarted, err, wait
	if x.claim.hold.kind == holdKey {
		x.refund(nil, 0)
	}
}

// attemptLimit is the limit of rule 8: the number of the last attempt. A task without a dead-letter sink has
// no limit.
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

// conclude settles the key by the handler's result. A completion is left for the caller to send.
func (x *execution) conclude(result []byte, effect store.Effect, err error) (set store.Settlement,
	left bool) {
	outage := x.session.engine.outage
	switch {
	case err == nil:
		outage.succeeded(x.claim.key)
		return x.complete(result, 0, effect), true
	case classOf(err).class == resultless:
		outage.succeeded(x.claim.key)
		x.out.Err = fmt.Errorf("%w: %w", store.ErrResultNotStored, err)
		return x.complete(nil, store.ResultUnencodable, effect), true
	}
	discard(effect)
	if x.atMostOnce() && mayHaveEffect(x.session.handlers, err) {
		_, _ = x.duringOutage(err) // it is a sign of one, but this attempt is not given back
		x.outcomeUnknown(x.claim.begunError(err))
		return set, false
	}
	if interrupted(x.session.handlers, err) {
		outage.undecided(x.claim.key)
		x.out.Kind = Retry
		x.out.Err = fmt.Errorf("idem: the handler was cancelled, and its attempt is not counted: it returned: %w", err)
		x.refund(x.claim.interrupted(err), classOf(err).delay)
		return set, false
	}
	if wait, down := x.duringOutage(err); down != nil {
		x.out.Kind, x.out.Err, x.out.RetryIn = DependencyDown, down, wait
		x.refund(x.claim.failure(Unavailable(err)), classOf(err).delay)
		return set, false
	}
	x.failed(err)
	return set, false
}

// complete returns the completion of the key.
func (x *execution) complete(result []byte, omitted int, effect store.Effect) store.Settlement {
	set := x.claim.completion(x.cfg(), result, omitted)
	if set.Effect = effect; x.claim.committed != nil {
		set.Effect = x.claim.committed.effect
	}
	x.out.Kind, x.out.Result = Executed, result
	return set
}

// duringOutage counts a handler's error, and returns the wait and the error of a task whose attempt is given
// back because of an outage.
func (x *execution) duringOutage(err error) (wait time.Duration, down error) {
	outage := x.session.engine.outage
	switch c := classOf(err).class; {
	case x.claim.Task.Rejected:
		return 0, nil
	case x.claim.Together, c == permanent, c == callFailed:
		outage.undecided(x.claim.key)
		return 0, nil
	}
	return outage.failedBy(x.claim.key, x.claim.res.Entry.Attempts, time.Now(), err)
}

// interrupted reports whether a handler's error may be the result of its caller's cancellation, as when a
// process shuts down. The end of a deadline is none: the handler has used its time.
func interrupted(handlers context.Context, err error) bool {
	if !errors.Is(handlers.Err(), context.Canceled) {
		return false
	}
	c := classOf(err).class
	return c == retriable || c == outcomeUnknown || c == permanent && errors.Is(err, context.Canceled)
}

// failed settles a claimed key by a handler's error.
func (x *execution) failed(err error) {
	attempts := x.claim.res.Entry.Attempts
	switch c := classOf(err); {
	case c.class == unavailable:
		x.out.Kind, x.out.Err = DependencyDown, err
		x.refund(x.claim.failure(err), c.delay)
	case c.class == callFailed:
		x.out.Kind, x.out.Err = Retry, err
		x.refund(x.claim.failure(err), c.delay)
	case c.class == permanent && x.claim.Task.DeadLetters != nil:
		x.deadLetter(err)
	case attempts >= x.session.engine.attemptLimit(&x.claim.Task):
		x.deadLetter(fmt.Errorf("%w (attempt %d of %d): %w", ErrAttemptsExhausted, attempts,
			x.cfg().MaxAttempts, err))
	case c.class == permanent:
		x.retry(fmt.Errorf("%w: %w", ErrNoDeadLetters, err), x.session.engine.retryDelay(x.claim))
	default:
		x.retry(err, cmp.Or(c.delay, x.session.engine.retryDelay(x.claim)))
	}
}

// deadLetter sends the dead letter first and then fails the key, so that a crash in between loses nothing. If
// the dead letter can't be sent, the task is released for another attempt.
func (x *execution) deadLetter(cause error) {
	failure := failureOf(cause)
	letter := DeadLetter{Attempt: x.claim.attempt(), StoredKey: x.claim.key, Failure: *failure, Err: cause}
	if err := x.session.sendDeadLetter(&x.claim.Task, letter); err != nil {
		err = fmt.Errorf("%w; it is for: %w", err, cause)
		if errors.Is(cause, ErrOutcomeUnknown) {
			x.keep(err)
			return
		}
		// The delay is that of a first failure: the sink has failed, not the task once more.
		x.retry(err, x.cfg().retryDelay(1))
		return
	}
	x.session.engine.outage.forget(x.claim.key)
	set := x.claim.settlement(store.OpFail, x.cfg().Retention)
	set.Failure = failure
	x.out.Kind, x.out.Err = DeadLettered, cause
	x.settled(set, x.session.send(set))
}
