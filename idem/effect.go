package idem

import (
	"context"
	"errors"
	"fmt"
)

// Transactor is implemented by stores that commit a handler's effect together with the completion of its key, or neither:
// the effect takes place exactly once, whenever the process dies.
type Transactor interface {
	// NewEffect returns an empty effect for a handler to fill. Settle commits it with the OpComplete that carries it.
	NewEffect() Effect
}

// Effect is what a handler has enlisted, in a type of the store's. Handlers get it by a function of the store's package,
// such as dynamostore.TxFrom.
type Effect interface {
	// Seal ends the enlisting, when the handler has returned. It reports whether there is anything to commit; its error is
	// taken for the handler's.
	Seal() (enlisted bool, err error)
}

// ErrRejected is matched by every RejectedError.
var ErrRejected = errors.New("idem: the effect was rejected")

// RejectedError says that an effect can't be committed as it is: one of its own conditions does not hold, or the store can't
// take it. Nothing was changed, and the key is held as before. The engine takes Err for the error of the handler.
type RejectedError struct{ Err error }

func (e *RejectedError) Error() string { return e.Err.Error() }

// Is matches ErrRejected.
func (e *RejectedError) Is(target error) bool { return target == ErrRejected }

func (e *RejectedError) Unwrap() error { return e.Err }

// ErrClaimRefused is matched by every ClaimRefusedError.
var ErrClaimRefused = errors.New("idem: the key is not free")

// ClaimRefusedError says that a completion was to claim its key too (Settlement.Claim), and that there is a record under the
// key. Nothing was changed. Result is what a claim would have been answered; its State is ClaimUnknown, without an error, if
// the claim would have taken the key.
type ClaimRefusedError struct{ Result ClaimResult }

func (e *ClaimRefusedError) Error() string {
	rec := &e.Result.Record
	if rec.Status == "" && e.Result.Err != nil {
		return fmt.Sprintf("%v: %v", ErrClaimRefused, e.Result.Err)
	}
	return fmt.Sprintf("%v: %q is %s, version %d, from %s", ErrClaimRefused, rec.Key, rec.Status, rec.Version, orUnknown(rec.Source))
}

// Is matches ErrClaimRefused.
func (e *ClaimRefusedError) Is(target error) bool { return target == ErrClaimRefused }

func (e *ClaimRefusedError) Unwrap() error { return e.Result.Err }

// answered reports whether a settlement needs not be sent again: it has landed, or the store has refused it.
func answered(err error) bool {
	return err == nil || errors.Is(err, ErrFenced) || errors.Is(err, ErrRejected) || errors.Is(err, ErrClaimRefused) ||
		errors.Is(err, ErrForeignRecord)
}

type effectKey struct{}

// EffectFrom returns the effect of the task that a handler's context belongs to, the same at each call; ok is false where
// the store is no Transactor, and where a handler runs without protection. It is for stores: they know the effect's type.
func EffectFrom(ctx context.Context) (e Effect, ok bool) {
	c, ok := ctx.Value(effectKey{}).(*handlerContext)
	if !ok || c.transactor == nil {
		return nil, false
	}
	return c.enlisting(), true
}

func (c *handlerContext) enlisting() Effect {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.effect == nil {
		c.effect = c.transactor.NewEffect()
	}
	return c.effect
}

// sealed returns what the handler has enlisted, nil if nothing.
func (c *handlerContext) sealed() (Effect, error) {
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
