package idem

import (
	"context"
	"sync"

	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/idem/store"
)

// handlerContext is the context of a handler: that of its session, with the attempt for AttemptFrom, the
// effect for store.EffectFrom, and an end of its own, when the claim is lost or the handler has returned.
type handlerContext struct {
	context.Context
	end context.CancelCauseFunc // a nil cause is the usual end

	attempt    Attempt
	stored     string           // the key as stored
	transactor store.Transactor // nil if the store is none

	mu       sync.Mutex
	effect   store.Effect // nil until the handler asks for it
	returned bool         // the handler has returned, and can't enlist any more
}

// begin begins the context. The attempt and the key are set.
func (c *handlerContext) begin(s *session) {
	c.transactor = s.engine.transactor
	c.Context, c.end = context.WithCancelCause(s.handlers)
}

// Value returns the attempt, what LogHandler adds, the function for store.EffectFrom, or the value of the
// session's context.
func (c *handlerContext) Value(key any) any {
	switch key {
	case attemptKey{}:
		return c.attempt
	case observe.HandlingKey{}:
		return observe.Handling{Source: c.attempt.Source, StoredKey: c.stored, Number: c.attempt.Number,
			Token: c.attempt.Token}
	case store.EffectKey{}:
		if c.transactor == nil {
			return nil
		}
		return c.enlisting
	case store.DiscardKey{}:
		return c.discardEffect
	}
	return c.Context.Value(key)
}

// enlisting returns the handler's effect, or nil if the handler has returned without one.
func (c *handlerContext) enlisting() store.Effect {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.effect == nil && !c.returned {
		c.effect = c.transactor.NewEffect()
	}
	return c.effect
}

func (c *handlerContext) discardEffect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.returned {
		discard(c.effect)
		c.effect = nil
	}
}

// sealed returns the effect if the handler has enlisted anything, nil otherwise. The caller must settle or
// discard it. An effect that can't be committed is discarded.
func (c *handlerContext) sealed() (store.Effect, error) {
	c.mu.Lock()
	effect := c.effect
	c.returned = true
	c.mu.Unlock()
	if effect == nil {
		return nil, nil //nolint:nilnil // nothing enlisted
	}
	enlisted, err := effect.Seal()
	if err != nil || !enlisted {
		effect.Discard()
		return nil, err
	}
	return effect, nil
}

// discard discards an effect that will not be committed; effect may be nil.
func discard(effect store.Effect) {
	if effect != nil {
		effect.Discard()
	}
}
