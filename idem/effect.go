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

func (c *handlerContext) enlisting() store.Effect {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.effect == nil {
		c.effect = c.transactor.NewEffect()
	}
	return c.effect
}

// sealed returns what the handler has enlisted, nil if nothing.
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
