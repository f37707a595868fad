package idem

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// jointCall is a call of a handler for several claimed tasks, and the context of this handler. If the handler
// takes the effect of the call (store.EffectFrom with this context), the keys of all tasks complete in the
// transaction of the effect, or none does. The store must be a store.CallTransactor, and all tasks must be
// claimed.
//
// The caller makes one with session.Call, calls the handler, then Seal, and then either Commit or Discard.
// The tasks have begun before (session.Begin), and end after that (session.Return).
type jointCall struct {
	context.Context // of the handlers

	session *session
	claims  []*claim
	store   callStore // nil if there can be no effect

	mu       sync.Mutex
	effect   store.Effect // nil until the handler asks for it
	separate bool         // a task has an effect of its own
	returned bool         // the handler has returned
}

// callStore is a store that commits calls.
type callStore interface {
	store.Store
	store.CallTransactor
}

// Call returns a call for claimed tasks.
func (s *session) Call(claims []*claim) *jointCall {
	c := &jointCall{Context: s.handlers, session: s, claims: claims}
	// With AtMostOnce a call is not made again after its transaction was rolled back, so it has none.
	if !s.engine.cfg.AtMostOnce &&
		!slices.ContainsFunc(claims, func(claim *claim) bool { return !claim.hold.held }) {
		c.store = s.engine.calls
	}
	return c
}

// Value returns the function for store.EffectFrom, or the value of the handlers' context.
func (c *jointCall) Value(key any) any {
	if key != (store.EffectKey{}) {
		return c.Context.Value(key)
	}
	if c.store == nil {
		return nil
	}
	return c.enlisting
}

// enlisting returns the effect of the call, or nil if tasks have their own, or if the handler has returned
// without one.
func (c *jointCall) enlisting() store.Effect {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.effect == nil && !c.returned && !c.separate {
		c.effect = c.store.NewCallEffect()
	}
	return c.effect
}

// TaskContext returns the context of one task of the call. own is that of the task's handler. Its effect is
// that of the call if the handler has taken that, and otherwise one of the task.
func (c *jointCall) TaskContext(own context.Context) context.Context {
	return taskContext{Context: own, call: c}
}

type taskContext struct {
	context.Context
	call *jointCall
}

// Value returns the function for store.EffectFrom, or the value of the handler's context.
func (t taskContext) Value(key any) any {
	own := t.Context.Value(key)
	enlisting, ok := own.(func() store.Effect)
	if !ok || key != (store.EffectKey{}) {
		return own
	}
	return func() store.Effect {
		t.call.mu.Lock()
		defer t.call.mu.Unlock()
		if t.call.effect != nil {
			return t.call.effect
		}
		t.call.separate = true
		return enlisting()
	}
}

// Seal ends a call whose handler has returned: it gets no effect any more. An error means that its effect
// can't be committed, and was discarded. Otherwise the caller calls Commit or Discard.
func (c *jointCall) Seal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.returned = true
	if c.effect == nil {
		return nil
	}
	enlisted, err := c.effect.Seal()
	if err != nil || !enlisted {
		c.effect.Discard()
		c.effect = nil
	}
	return err
}

// Discard discards the effect of a call that has failed.
func (c *jointCall) Discard() { discard(c.effect) }

// Commit commits the effect of a call, if it has one, and the completions of all tasks. The handler has
// returned a result for each task, of which result returns the value and the error. again has the indices of
// the tasks that must be handled again, because nothing was committed: all that succeeded, if one failed; and
// those whose keys are held, if a key was taken by another owner. All other results are those of their tasks.
//
// An error means that the call failed as a whole, and that nothing was committed.
func (c *jointCall) Commit(result func(i int) (value []byte, err error)) (again []int, err error) {
	if c.effect == nil {
		return nil, nil
	}
	sets := make([]store.Settlement, len(c.claims))
	for i, claim := range c.claims {
		value, err := result(i)
		omitted := 0
		if err != nil {
			value, omitted = nil, store.ResultUnencodable
		}
		if err == nil || classOf(err).class == resultless {
			again = append(again, i)
		}
		sets[i] = claim.completion(&c.session.engine.cfg, value, omitted)
		sets[i].Effect = c.effect
	}
	if len(again) < len(c.claims) {
		c.Discard()
		return again, nil
	}
	return c.settle(sets)
}

// settle sends the completions until the store has answered all, or the time has ended.
func (c *jointCall) settle(sets []store.Settlement) (again []int, err error) {
	started := time.Now()
	ctx, cancel := c.session.settleContext()
	defer cancel()
	errs := make([]error, len(sets))
	left := make([]int, len(sets)) // not answered
	for i := range left {
		left[i] = i
	}
	for n := 0; ; n++ {
		some := make([]store.Settlement, len(left))
		for at, i := range left {
			some[at] = sets[i]
		}
		answers := c.store.Settle(ctx, some)
		for at, i := range left {
			var err error
			if answers != nil {
				err = answers[at]
			}
			errs[i] = telling(ctx, errs[i], err)
		}
		left = slices.DeleteFunc(left, func(i int) bool { return answered(errs[i]) })
		if len(left) == 0 || !sleep(ctx, backoff(n)) {
			break
		}
	}
	took := time.Since(started)
	for i, claim := range c.claims {
		if rejected, ok := errors.AsType[*store.RejectedError](errs[i]); ok {
			again, err = append(again, i), rejected.Err
			continue
		}
		answer := settlementAnswer{err: errs[i], took: took}
		claim.committed = &committed{effect: sets[i].Effect, answer: answer}
	}
	if len(again) == len(c.claims) {
		return nil, err
	}
	return again, nil
}

// committed is the answer to the completion of a task whose call has committed it.
type committed struct {
	effect store.Effect
	answer settlementAnswer
}
