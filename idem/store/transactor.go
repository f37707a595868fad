package store

import "context"

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
	// Discard gives up an effect that will not be committed. The engine calls it exactly once for each effect that it does not hand to
	// Settle, when the handler has returned and before it releases or fails the key. An effect that was handed to Settle is the store's.
	Discard()
}

// EffectKey is the context key under which an engine keeps, for handlers, a func() Effect that returns the same one at each call.
type EffectKey struct{}

// EffectFrom returns the effect of the task that a handler's context belongs to, the same at each call; ok is false where
// the store is no Transactor, where a handler runs without protection, and where one has returned. It is for stores: they know the effect's type.
func EffectFrom(ctx context.Context) (e Effect, ok bool) {
	effect, ok := ctx.Value(EffectKey{}).(func() Effect)
	if !ok {
		return nil, false
	}
	e = effect()
	return e, e != nil
}
