package idem

import (
	"errors"

	"github.com/idemsk/idemsk/idem/store"
)

// answered reports whether a settlement needs not be sent again: it has landed, or the store has refused it.
func answered(err error) bool {
	return err == nil || errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrRejected) || errors.Is(err, store.ErrClaimRefused) ||
		errors.Is(err, store.ErrForeignEntry)
}

// enlisting returns the effect of the handler, nil if the handler has returned and has none.
func (c *handlerContext) enlisting() store.Effect {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.effect == nil && !c.returned {
		c.effect = c.transactor.NewEffect()
	}
	return c.effect
}

// sealed returns what the handler has enlisted, nil if nothing; it is the caller's to settle or to discard. What can't be committed is
// discarded.
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

// discard gives up an effect that is not to be committed; nil is none.
func discard(effect store.Effect) {
	if effect != nil {
		effect.Discard()
	}
}
