package idem

import (
	"context"
	"sync"

	"github.com/idemsk/idemsk/idem/store"
)

// handlerContext is the context of a handler: that of its session, with the attempt for AttemptFrom, the effect for store.EffectFrom, and
// an end of its own, when the claim is lost or the handler has returned.
type handlerContext struct {
	context.Context
	end context.CancelCauseFunc // a nil cause is the usual end

	attempt    Attempt
	transactor store.Transactor // nil if the store is none

	mu     sync.Mutex
	effect store.Effect // nil until the handler asks for it
}

// begin begins the context of a claim's handler.
func (c *handlerContext) begin(s *Session, claim *Claim) {
	c.attempt, c.transactor = claim.attempt(), s.engine.transactor
	c.Context, c.end = context.WithCancelCause(s.handlers)
}

// Value returns the attempt, the function for store.EffectFrom, or the value of the session's context.
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
	return c.Context.Value(key)
}

// enlisting returns the handler's effect.
func (c *handlerContext) enlisting() store.Effect {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.effect == nil {
		c.effect = c.transactor.NewEffect()
	}
	return c.effect
}

// sealed returns the effect if the handler has enlisted anything, nil otherwise.
func (c *handlerContext) sealed() (store.Effect, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.effect == nil {
		return nil, nil //nolint:nilnil // nothing enlisted
	}
	switch enlisted, err := c.effect.Seal(); {
	case err != nil:
		return nil, err
	case !enlisted:
		return nil, nil //nolint:nilnil // nothing enlisted
	}
	return c.effect, nil
}
