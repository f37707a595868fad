package idem

import (
	"context"
	"errors"
	"fmt"

	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/idem/store"
)

// FailsOpen reports whether a task is run without protection although its claim ended with an error: the
// store does not answer, and the engine fails open. A store with a wrong configuration does not count,
// because it would never protect a task. The keys of a range whose lease can't be claimed are claimed first.
func (e *Engine) FailsOpen(err error) bool {
	return e.cfg.FailOpen && errors.Is(err, ErrStoreUnavailable) &&
		!errors.Is(err, store.ErrMisconfigured)
}

// RunUnprotected runs a task without a claim, as if there were no engine, for comparison.
func (s *Session) RunUnprotected(task *Task) Outcome {
	return s.runUnprotected(task, Outcome{}, Unprotected)
}

func (s *Session) runUnprotected(task *Task, out Outcome, done Kind) Outcome {
	if s.handlers.Err() != nil {
		out.Kind, out.Err = NotStarted, s.notStartedError()
		return out
	}
	ctx, cancel := context.WithCancel(context.WithValue(s.handlers, observe.HandlingKey{},
		observe.Handling{Source: task.Source, StoredKey: out.Key}))
	began := s.began()
	result, err := call(ctx, task.Handler)
	s.ended(observe.Handle, task, Attempt{Key: task.Key, Source: task.Source}, out.Key, began, err)
	cancel()
	switch c := classOf(err); {
	case err == nil || c.class == resultless:
		out.Kind, out.Result = done, result
	case c.class == unavailable:
		out.Kind, out.Err = DependencyDown, err
	case c.class == permanent && task.DeadLetters != nil && !interrupted(s.handlers, err):
		return s.deadLetterUnprotected(task, out, err)
	default:
		out.Kind, out.Err = Retry, err
	}
	return out
}

func (s *Session) deadLetterUnprotected(task *Task, out Outcome, cause error) Outcome {
	b := DeadLetter{Attempt: Attempt{Key: task.Key, Source: task.Source}, StoredKey: out.Key,
		Failure: *failureOf(cause), Err: cause}
	out.Kind, out.Err = DeadLettered, cause
	if err := s.sendDeadLetter(task, b); err != nil {
		out.Kind, out.Err = Retry, fmt.Errorf("%w; it is for: %w", err, cause)
	}
	return out
}
