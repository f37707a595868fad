package store

import "context"

// Transactor is implemented by stores that commit a handler's effect together with the completion of its key,
// or neither. The effect then takes place exactly once, even if the process dies at any moment.
type Transactor interface {
	// NewEffect returns an empty effect, which a handler fills. Settle commits it with the OpComplete that
	// carries it.
	NewEffect() Effect
}

// CallTransactor is implemented by Transactors that also commit one effect together with the completions of
// many keys: that of a handler which was called once for all of them.
type CallTransactor interface {
	Transactor
	// NewCallEffect returns an empty effect for a call of a handler. All completions of the call carry it,
	// each with an OpComplete of the same call of Settle. They commit with the effect, or nothing does. If
	// one of them is refused, because its owner does not hold the key, it has the error of Settle, and all
	// others have a *RejectedError. Completions that had no answer are sent again together, without those
	// that had one.
	NewCallEffect() Effect
}

// Effect is what a handler has enlisted, in a type of the store. Handlers get it from a function of the
// store's package, such as dynamostore.TxFrom.
type Effect interface {
	// Seal ends the enlisting, after the handler has returned. It reports whether there is anything to
	// commit. The engine treats its error as the error of the handler.
	Seal() (enlisted bool, err error)
	// Discard discards an effect that will not be committed. The engine calls it exactly once for each effect
	// that it does not pass to Settle, after the handler has returned and before it releases or fails the
	// key. The store owns an effect that was passed to Settle.
	Discard()
}

// SeparateEffect is an Effect that may be committed in a request of its own, such as a transaction that has begun
// on a connection. The engine does not hold it back for a request in progress then.
type SeparateEffect interface {
	Effect
	// Separate reports whether that is so. The engine calls it after Seal.
	Separate() bool
}

// EffectKey is the context key under which an engine provides a func() Effect for handlers, which returns the
// same effect at each call.
type EffectKey struct{}

// EffectFrom returns the effect of the task to which a handler's context belongs, the same at each call. ok
// is false if the store is no Transactor, if the handler runs without protection, or if it has returned.
// Stores call EffectFrom and assert their own type.
func EffectFrom(ctx context.Context) (e Effect, ok bool) {
	effect, ok := ctx.Value(EffectKey{}).(func() Effect)
	if !ok {
		return nil, false
	}
	e = effect()
	return e, e != nil
}

// DiscardKey is the context key under which an engine provides a func() for handlers that discards the
// effect.
type DiscardKey struct{}

// DiscardEffect discards what was enlisted with the context of a handler: what is enlisted from now on is
// another effect. A caller that handles several tasks in one call, which failed as a whole, calls it for each
// of them before it handles the task again.
func DiscardEffect(ctx context.Context) {
	if again, ok := ctx.Value(DiscardKey{}).(func()); ok {
		again()
	}
}
