package idem

import (
	"context"
	"time"
)

// Session runs tasks until the deadline of the context that it was created with, for example that of an
// invocation. Handlers get contexts that end Config.DeadlineMargin before the deadline. The margin is the
// time for settlements and dead letters. Its last quarter is left for the caller to answer (budget.go).
//
// A session is safe for concurrent use.
type session struct {
	engine   *Engine
	ctx      context.Context // for claims: the caller's, less the time for its answer
	handlers context.Context // ends at the deadline less the margin
	// as ctx, but does not end when the caller cancels: an effect that took place is recorded
	settling context.Context
	deadline time.Time // the caller's
	bounded  bool      // the caller's context has a deadline
	cancel   context.CancelFunc

	commits commits
}

// newSession returns a session. The caller must call Close when its tasks have ended.
func (e *Engine) newSession(ctx context.Context) *session {
	s := &session{engine: e}
	if e.batchSize() > 1 {
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
func (s *session) Close() {
	s.cancel()
}

// Flush sends the completions of RunAsync that wait to be sent together with others. Call it when no more
// tasks will be run.
func (s *session) Flush() { s.commits.flush() }

// WaitForCommits waits until the completions of RunAsync have been answered, or until the session's time
// ends. Call it before a task that may end the process.
func (s *session) WaitForCommits() { s.commits.wait(s.handlers) }

// Handlers returns the parent of the handlers' contexts, which ends at the deadline less the margin.
func (s *session) Handlers() context.Context { return s.handlers }
