package storetest_test

import (
	"errors"
	"testing"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
)

// committing are the replaceable rules for the effects of a variant.
type committing struct {
	// whether a condition of the effect fails
	refuses func(e *counted) bool
	// whether the effect takes place
	commits func(e *counted, held bool) bool
	// whether it takes place before its conditions are checked
	partly func(e *counted) bool
	// whether it takes place again after a lost reply
	repeats bool
	// whether each completion of a call commits for itself
	apart bool
	// the error of the completions of a call of which another was refused
	undone func() error
}

func goodCommits() committing {
	return committing{
		refuses: func(e *counted) bool { return e.refuse },
		commits: func(_ *counted, held bool) bool { return held },
		partly:  func(*counted) bool { return false },
		undone:  func() error { return &store.RejectedError{Err: errOthers} },
	}
}

// counted is the effect of a variant.
type counted struct {
	names  []string
	refuse bool
	call   bool
}

var errOthers = errors.New("variant: another completion of the call was refused")

// Seal implements store.Effect.
func (c *counted) Seal() (enlisted bool, err error) { return len(c.names) > 0, nil }
func (c *counted) Discard()                         {}

// NewEffect implements store.Transactor.
func (*variant) NewEffect() store.Effect { return new(counted) }

// NewCallEffect implements store.CallTransactor.
func (*variant) NewCallEffect() store.Effect { return &counted{call: true} }

// settleCall settles the completions of a call with an effect.
func (v *variant) settleCall(ss []store.Settlement, e *counted, errs []error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var call []int
	refused, applied := false, 0
	for i := range ss {
		if ss[i].Effect != e {
			continue
		}
		call = append(call, i)
		seen := v.recs[ss[i].Key]
		switch {
		case v.own(&ss[i], &seen):
			applied++
		case !v.holds(&ss[i], &seen):
			refused = true
			errs[i] = &store.FencedError{Key: ss[i].Key, Token: ss[i].Token, Current: v.shown(seen)}
		}
	}
	if applied == len(call) {
		return
	}
	whole := v.undone()
	if !refused {
		whole = v.commit(&ss[call[0]], true)
	}
	for _, i := range call {
		switch seen := v.recs[ss[i].Key]; {
		case errs[i] != nil:
		case !refused && whole == nil, v.apart:
			v.recs[ss[i].Key] = v.settled(&ss[i], &seen, v.clock.Now())
		default:
			errs[i] = whole
		}
	}
}

func (v *variant) effects() *storetest.Effects {
	return &storetest.Effects{
		Transactor: v,
		Count: func(t testing.TB, e store.Effect,
			name string) {
			mine(t, e).names = append(mine(t, e).names, name)
		},
		Refuse: func(t testing.TB, e store.Effect) { mine(t, e).refuse = true },
		Read: func(_ testing.TB, name string) int {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.counts[name]
		},
	}
}

func mine(t testing.TB, e store.Effect) *counted {
	t.Helper()
	c, ok := e.(*counted)
	if !ok {
		t.Fatalf("%T", e)
	}
	return c
}

// commit applies an effect or returns the reason why not. The caller holds v.mu.
func (v *variant) commit(set *store.Settlement, held bool) error {
	if set.Effect == nil {
		return nil
	}
	e, ok := set.Effect.(*counted)
	if !ok {
		return &store.RejectedError{Err: errors.New("variant: a foreign effect")}
	}
	if v.partly(e) {
		v.counts[e.names[0]]++
	}
	if held && v.refuses(e) {
		return &store.RejectedError{Err: errors.New("variant: a condition does not hold")}
	}
	if v.commits(e, held) {
		for _, name := range e.names {
			v.counts[name]++
		}
	}
	return nil
}

func effectRules() []broken {
	breaking := func(how func(c *committing)) func(r *rules) { return func(r *rules) { how(&r.committing) } }
	const effects = "Effects"
	return []broken{
		{"an effect is lost", effects, breaking(
			func(c *committing) { c.commits = func(*counted, bool) bool { return false } }), true},
		{"a late owner's effect commits", effects,
			breaking(func(c *committing) { c.commits = func(*counted, bool) bool { return true } }), true},
		{"an effect takes place again when its reply was lost", effects,
			breaking(func(c *committing) { c.repeats = true }), true},
		{"an effect's conditions are not checked", effects,
			breaking(func(c *committing) { c.refuses = func(*counted) bool { return false } }), true},
		{"an effect takes place in part", effects,
			breaking(func(c *committing) { c.partly = func(e *counted) bool { return e.refuse } }), true},
		{"completions of a call commit without the others", "CallEffects",
			breaking(func(c *committing) { c.apart = true }), true},
		{"completions of a call that was undone are reported as done", "CallEffects",
			breaking(func(c *committing) { c.undone = func() error { return nil } }), true},
	}
}
