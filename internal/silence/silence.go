// Package silence bounds an exchange with a peer by how long nothing is heard of it, not by how long the whole of it takes: a large
// answer that arrives slowly is not given up, and one that does not arrive is given up soon.
package silence

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Error says that an exchange was given up. It is a time-out, as net.Error has it.
type Error struct{ Limit time.Duration }

func (e *Error) Error() string { return fmt.Sprintf("nothing was heard for %v", e.Limit) }

// Timeout is true.
func (e *Error) Timeout() bool { return true }

// Temporary is true: over a new connection there may be an answer.
func (e *Error) Temporary() bool { return true }

// Watch watches an exchange. Its methods may be called concurrently.
type Watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
}

// Start begins a watch, which must be stopped.
func Start(parent context.Context, limit time.Duration) *Watch {
	ctx, cancel := context.WithCancelCause(parent)
	return &Watch{ctx: ctx, cancel: cancel, limit: limit, timer: time.AfterFunc(limit, func() { cancel(&Error{limit}) })}
}

// Context ends when nothing was heard for the limit, when the parent does, and when the watch is stopped.
func (w *Watch) Context() context.Context { return w.ctx }

// Heard tells that there was progress: the limit counts from now.
func (w *Watch) Heard() { w.timer.Reset(w.limit) }

// Stop ends the watch.
func (w *Watch) Stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// Err returns what an exchange ended with that ended with err: the Error if it was given up. That is no context.Canceled, which
// would mean that the caller has changed its mind.
func (w *Watch) Err(err error) error {
	var silent *Error
	if err != nil && errors.As(context.Cause(w.ctx), &silent) {
		return silent
	}
	return err
}
