package idem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/idem/store"
)

// execution is the way of one task from its claim to its outcome, in the order of this file: before the
// handler (begin), the call, what its result means (conclude). settle.go has what follows: the settlement of
// the key, and what its answer means.
type execution struct {
	session *session
	claim   *claim
	out     Outcome // what is known so far
	turn    turn

	began   time.Time
	ctx     context.Context         // of the handler; it has begun
	end     context.CancelCauseFunc // ends ctx
	handler *handlerContext         // ctx, if the task is claimed
}

// turn is the answer of the engine's outage to a task that asked whether it may call the handler.
type turn struct {
	asked bool
	wait  time.Duration
	down  error // why it may not
}

// askForTurn asks the engine's outage, once, whether the task may call the handler. Of the tasks of a call, an
// earlier one of a lane must ask before those behind it, which can't be handled without it. The turn of a task
// that does not call the handler is given back.
func (x *execution) askForTurn() {
	outage := x.session.engine.outage
	if x.turn.asked || outage.quiet() || !x.hasAttempt() {
		return
	}
	x.turn.asked = true
	x.turn.wait, x.turn.down = outage.begin(x.claim)
}

// hasAttempt reports whether the key is held, with an attempt that is left, and no earlier one may have had its
// effect.
func (x *execution) hasAttempt() bool {
	claim, engine := x.claim, x.session.engine
	return claim.hold.held && !engine.unended(claim) && !engine.unsettled(claim) &&
		claim.res.Entry.Attempts <= engine.attemptLimit(claim)
}

func newExecution(s *session, claim *claim) execution {
	return execution{session: s, claim: claim, out: claim.outcome()}
}

func (x *execution) cfg() *Config { return &x.session.engine.cfg }

// begin begins the context of the handler, unless it must not be called. The outcome is final then.
func (x *execution) begin() bool {
	if !x.claim.hold.held {
		return x.session.engine.failsOpen(x.claim.res.Err) && x.beginUnprotected()
	}
	begun := false
	defer func() { // deferred, because a sink of dead letters may end its goroutine
		if !begun {
			x.claim.stopHeartbeat()
			x.claim.reset()
		}
	}()
	if begun = x.beginsAtOnce() || x.mayBegin(); begun {
		x.beginHandler()
	}
	return begun
}

// beginsAtOnce reports whether the handler may be called, and no request to the store or to the dead letters
// must be answered before.
func (x *execution) beginsAtOnce() bool {
	return x.hasAttempt() && !x.claim.needsRenewal(x.cfg()) && x.session.engine.outage.quiet() &&
		x.session.handlers.Err() == nil
}

// mayBegin reports whether the handler may be called. If not, the outcome says why, and the key is failed, or
// the claim is given back.
func (x *execution) mayBegin() bool {
	engine := x.session.engine
	if engine.unended(x.claim) {
		x.claim.startHeartbeat(x.session)
		x.outcomeUnknown(x.claim.atMostOnce.unendedError())
		return false
	}
	if engine.unsettled(x.claim) {
		x.claim.startHeartbeat(x.session)
		x.outcomeUnknown(errUnsettled)
		return false
	}
	if limit := engine.attemptLimit(x.claim); x.claim.res.Entry.Attempts > limit {
		x.claim.startHeartbeat(x.session)
		x.deadLetter(exhausted(x.claim, limit), nil)
		return false
	}
	x.askForTurn()
	if x.session.handlers.Err() == nil && x.turn.down == nil && x.renew() {
		engine.outage.undecided(x.claim.key)
		return false
	}
	if x.session.handlers.Err() != nil { // the extension may have taken until then
		engine.outage.undecided(x.claim.key)
		x.notBegun(x.session.notStartedError(), 0)
		return false
	}
	if x.turn.down != nil {
		x.notBegun(x.turn.down, x.turn.wait)
		return false
	}
	return true
}

// beginHandler begins the context of a claimed task's handler, which ends if the claim is lost.
func (x *execution) beginHandler() {
	x.began = x.session.began()
	x.claim.startHeartbeat(x.session)
	x.handler = &x.claim.hold.beat.handler
	x.ctx, x.end = x.handler, x.handler.end
}

// call calls the task's handler, whose context has begun. The caller must call returned.
func (x *execution) call(h Handler) (result []byte, effect store.Effect, err error) {
	ended := true
	defer func() {
		if ended { // the handler has ended its goroutine
			x.end(nil)
			x.claim.stopHeartbeat()
			x.claim.reset()
		}
	}()
	if x.handler != nil {
		result, effect, err = callSealed(x.handler, h)
	} else {
		result, err = call(x.ctx, h)
	}
	ended = false
	return result, effect, err
}

// returned settles the key by the result of the handler, which has returned. A settlement may be left for the
// caller to send.
func (x *execution) returned(result []byte, effect store.Effect, err error) (set store.Settlement, left bool) {
	x.end(nil)
	if x.handler == nil {
		x.returnedUnprotected(result, err)
		return set, false
	}
	claim := x.claim
	defer func() {
		if !left {
			claim.stopHeartbeat()
		}
		if set.Effect == nil { // otherwise the effect may be refused
			claim.reset()
		}
	}()
	lost := claim.hold.beat.returned()
	x.session.ended(observe.Handle, &claim.Task, x.handler.attempt, claim.key, x.began, err)
	if err == nil || lost == nil {
		return x.conclude(result, effect, err)
	}
	// The error may be the result of our own cancellation, and another owner may handle the task now: send no
	// dead letter, and count the attempt.
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

// notBegun gives a claim back whose handler is not called.
func (x *execution) notBegun(err error, wait time.Duration) {
	x.out.Kind, x.out.Err, x.out.RetryIn = NotStarted, err, wait
	x.refund(nil, 0)
}

// attemptLimit is the limit of rule 8: the number of the last attempt. A task without a dead-letter sink has
// no limit, nor has a rejected one that leaves its key claimed (takesUnended).
func (e *Engine) attemptLimit(claim *claim) int {
	if e.cfg.MaxAttempts < 0 || claim.Task.DeadLetters == nil || e.takesUnended(claim) {
		return math.MaxInt
	}
	return e.cfg.MaxAttempts
}

func exhausted(claim *claim, limit int) error {
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
	if c := classOf(err); c.class == outOfTurn {
		if err = c.err; !x.atMostOnce() || !mayHaveEffect(x.session.handlers, err) {
			outage.undecided(x.claim.key)
			x.out.Kind, x.out.Err = Behind, err
			x.refund(nil, classOf(err).delay)
			return set, false
		}
	}
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
	return c == retriable || c == permanent && errors.Is(err, context.Canceled)
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
		x.deadLetter(err, x.claim.failure(err))
	case attempts >= x.session.engine.attemptLimit(x.claim):
		x.deadLetter(fmt.Errorf("%w (attempt %d of %d): %w", ErrAttemptsExhausted, attempts,
			x.cfg().MaxAttempts, err), x.claim.failure(err))
	case c.class == permanent:
		x.retry(fmt.Errorf("%w: %w", ErrNoDeadLetters, err), x.session.engine.retryDelay(x.claim))
	default:
		x.retry(err, cmp.Or(c.delay, x.session.engine.retryDelay(x.claim)))
	}
}

// deadLetter sends the dead letter first and then fails the key, so that a crash in between loses nothing. If
// the dead letter can't be sent, the task is released for another attempt, with the failure of its handler;
// with nil, the failure before stands.
func (x *execution) deadLetter(cause error, ofHandler *store.Failure) {
	failure := failureOf(cause)
	letter := DeadLetter{Attempt: x.claim.attempt(), StoredKey: x.claim.key, Failure: *failure, Err: cause}
	if err := x.session.sendDeadLetter(&x.claim.Task, letter); err != nil {
		err = fmt.Errorf("%w; it is for: %w", err, cause)
		if isOutcome(cause) {
			x.keep(err)
			return
		}
		// The delay is that of a first failure: the sink has failed, not the task once more.
		x.out.Kind, x.out.Err, x.out.RetryIn = Retry, err, x.cfg().retryDelay(1)
		x.release(ofHandler, x.out.RetryIn, false)
		return
	}
	x.session.engine.outage.forget(x.claim.key)
	set := x.claim.settlement(store.OpFail, x.cfg().Retention)
	set.Failure = failure
	x.out.Kind, x.out.Err = DeadLettered, cause
	x.settled(set, x.session.send(set))
}
