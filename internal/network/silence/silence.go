// Package silence bounds the time without an answer in an exchange with a peer, not the duration of the
// exchange. A large answer may arrive slowly, and an exchange without an answer ends soon.
package silence

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Error means that nothing was received from the peer within the limit. It is a timeout, as defined by
// net.Error.
type Error struct{ Limit time.Duration }

func (e *Error) Error() string { return fmt.Sprintf("no answer for %v", e.Limit) }

// Timeout implements net.Error.
func (e *Error) Timeout() bool { return true }

// Temporary implements net.Error. It returns true, because a retry on a new connection may succeed.
func (e *Error) Temporary() bool { return true }

// Watch watches an exchange. Its methods may be called concurrently.
type Watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
}

// Start starts a watch. The caller must stop it.
func Start(parent context.Context, limit time.Duration) *Watch {
	ctx, cancel := context.WithCancelCause(parent)
	return &Watch{ctx: ctx, cancel: cancel, limit: limit,
		timer: time.AfterFunc(limit, func() { cancel(&Error{limit}) })}
}

// Context returns a context that ends when nothing was received for the limit, when the parent ends, or when
// the watch is stopped.
func (w *Watch) Context() context.Context { return w.ctx }

// Heard records progress: the limit counts from now.
func (w *Watch) Heard() { w.timer.Reset(w.limit) }

// Stop stops the watch.
func (w *Watch) Stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// Err returns the error of an exchange that ended with err: the Error if the limit was exceeded. The Error
// does not wrap context.Canceled, which would mean that the caller cancelled the exchange.
func (w *Watch) Err(err error) error {
	var silent *Error
	if err != nil && errors.As(context.Cause(w.ctx), &silent) {
		return silent
	}
	return err
}
