package idem

import (
	"context"
	"errors"
	"fmt"

	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/idem/store"
)

// failsOpen reports whether a task is run without protection although its claim ended with an error: the
// store does not answer, and the engine fails open. A store with a wrong configuration does not count,
// because it would never protect a task.
func (e *Engine) failsOpen(err error) bool {
	return e.cfg.FailOpen && errors.Is(err, ErrStoreUnavailable) &&
		!errors.Is(err, store.ErrMisconfigured)
}

// beginUnprotected begins the context of a task's handler without a claim.
func (x *execution) beginUnprotected() bool {
	s := x.session
	if s.handlers.Err() != nil {
		x.out.Kind, x.out.Err = NotStarted, s.notStartedError()
		return false
	}
	x.began = s.began()
	x.ctx, x.end = context.WithCancelCause(context.WithValue(s.handlers, observe.HandlingKey{},
		observe.Handling{Source: x.claim.Task.Source, StoredKey: x.out.Key}))
	return true
}

// returnedUnprotected makes the result of a handler that was called without a claim the outcome.
func (x *execution) returnedUnprotected(result []byte, err error) {
	s, task, out := x.session, &x.claim.Task, &x.out
	s.ended(observe.Handle, task, Attempt{Key: task.Key, Source: task.Source}, out.Key, x.began, err)
	switch c := classOf(err); {
	case err == nil || c.class == resultless:
		out.Kind, out.Result = FailedOpen, result
	case c.class == unavailable:
		out.Kind, out.Err = DependencyDown, err
	case c.class == permanent && task.DeadLetters != nil && !interrupted(s.handlers, err):
		x.deadLetterUnprotected(err)
	default:
		out.Kind, out.Err = Retry, err
	}
}

func (x *execution) deadLetterUnprotected(cause error) {
	task, out := &x.claim.Task, &x.out
	b := DeadLetter{Attempt: Attempt{Key: task.Key, Source: task.Source}, StoredKey: out.Key,
		Failure: *failureOf(cause), Err: cause}
	out.Kind, out.Err = DeadLettered, cause
	if err := x.session.sendDeadLetter(task, b); err != nil {
		out.Kind, out.Err = Retry, fmt.Errorf("%w; it is for: %w", err, cause)
	}
}
