package idem

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/idemsk/idemsk/idem/store"
)

// Run runs a task after its claim and returns the outcome. A claimed task is executed and settled. If the
// store is unavailable and the engine fails open, the task is executed without protection. Any other task is
// not executed. When Run returns, the handler has returned.
func (s *session) Run(claim *claim) Outcome {
	x := newExecution(s, claim)
	if !x.begin() {
		return x.out
	}
	switch set, left := x.returned(x.call(claim.Task.Handler)); {
	case left && claim.committed != nil:
		x.settled(set, claim.committed.answer)
	case left:
		x.settled(set, s.send(set))
	}
	return x.out
}

// RunAsync is Run with group commit, for many tasks on a store that is a Batcher. It returns when the handler
// has returned, and calls done with the outcome before it returns or later, from another goroutine. more
// reports that done is called for another task next, by the same goroutine, which has its answer already. A
// completion is sent at once if none is being sent; otherwise it may be gathered with others. At most
// Config.CommitWindow completions are unconfirmed: RunAsync waits for one before it calls the handler. The
// caller must not use the claim, nor close the session, until done has been called.
//
// RunAsync does not wait for a plain completion, because the effect already happened when the handler
// returned. It waits for a completion that commits an effect, because the next handler may have to see the
// effect. A completion whose effect is a store.SeparateEffect is sent at once. On a store that is no Batcher
// RunAsync is Run.
func (s *session) RunAsync(claim *claim, done func(out Outcome, more bool)) {
	b := newBegun(s, claim, done)
	if !b.begin() {
		return
	}
	returned := false
	defer func() { b.leaveUnless(returned) }()
	result, effect, err := b.call(claim.Task.Handler)
	returned = true
	b.settle(result, effect, err, s.commits.add)
}

// separate reports whether an effect is committed in a request of its own.
func separate(effect store.Effect) bool {
	e, ok := effect.(store.SeparateEffect)
	return ok && e.Separate()
}

// errNotStarted means that the caller's context ended before a task was begun.
var errNotStarted = errors.New("idem: not started")

func (s *session) notStartedError() error {
	if s.ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errNotStarted, context.Cause(s.ctx))
	}
	return fmt.Errorf("%w: less than %v", ErrDeadlineNear, s.engine.cfg.DeadlineMargin)
}

// callSealed calls the handler and returns the effect that it enlisted, for the caller to settle or to
// discard.
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

// call calls the handler and turns a panic into a PanicError, also a panic in a method of the returned error,
// such as that of a nil pointer returned as an error.
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
