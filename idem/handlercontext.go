package idem

import (
	"context"
	"sync"

	"github.com/idemsk/idemsk/idem/store"
)

// handlerContext is the context of a handler: that of its session, with the attempt for AttemptFrom, and with an end of its
// own, which comes when the claim is lost or the handler has returned.
//
// The context that has this end is made when somebody first looks for it. To make it is to register with the session's
// context, where all handlers of a batch would queue; a handler that does not wait for anything has no use for it.
type handlerContext struct {
	context.Context // the session's
	attempt         Attempt
	transactor      store.Transactor // nil if the store is none

	mu     sync.Mutex
	ending context.Context // nil until somebody looks
	cancel context.CancelCauseFunc
	over   bool
	cause  error        // why it is over
	effect store.Effect // nil until the handler asks for it
	// returned: the handler has returned, so that nothing can be enlisted any more
	returned bool
}

// end ends the context, unless it has ended. A nil cause is the usual end.
func (c *handlerContext) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over, c.cause = true, cause
	if c.cancel != nil {
		c.cancel(cause)
	}
}

func (c *handlerContext) own() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending == nil {
		c.ending, c.cancel = context.WithCancelCause(c.Context)
		if c.over {
			c.cancel(c.cause)
		}
	}
	return c.ending
}

// Done implements context.Context.
func (c *handlerContext) Done() <-chan struct{} { return c.own().Done() }

// Err implements context.Context.
func (c *handlerContext) Err() error { return c.own().Err() }

// Value returns the attempt, the function for EffectFrom, or what the context below holds.
func (c *handlerContext) Value(key any) any {
	switch key {
	case attemptKey{}:
		return c.attempt
	case store.EffectKey{}:
		if c.transactor == nil {
			return nil
		}
		return c.enlisting
	}
	return c.own().Value(key)
}
