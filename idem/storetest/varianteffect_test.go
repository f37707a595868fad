package storetest_test

import (
	"errors"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/storetest"
)

// committing are the places at which the effects of a variant can be broken.
type committing struct {
	refuses func(e *counted) bool                                             // whether a condition of the effect's does not hold
	commits func(e *counted, held bool) bool                                  // whether the effect takes place
	partly  func(e *counted) bool                                             // whether it does so before its conditions are looked at
	repeats bool                                                              // it takes place again when its reply was lost
	free    func(found bool) bool                                             // the condition of a completion that claims
	refused func(s *idem.Settlement, res idem.ClaimResult) error              // the answer where it does not hold
	fresh   func(s *idem.Settlement, rec idem.Record) (rewritten idem.Record) // what such a completion writes
}

func goodCommits() committing {
	return committing{
		refuses: func(e *counted) bool { return e.refuse },
		commits: func(_ *counted, held bool) bool { return held },
		partly:  func(*counted) bool { return false },
		free:    func(found bool) bool { return !found },
		refused: func(_ *idem.Settlement, res idem.ClaimResult) error { return &idem.ClaimRefusedError{Result: res} },
		fresh:   func(_ *idem.Settlement, rec idem.Record) idem.Record { return rec },
	}
}

// counted is the effect of a variant.
type counted struct {
	names  []string
	refuse bool
}

// Seal implements idem.Effect.
func (c *counted) Seal() (enlisted bool, err error) { return len(c.names) > 0, nil }

// NewEffect implements idem.Transactor.
func (*variant) NewEffect() idem.Effect { return new(counted) }

func (v *variant) effects() *storetest.Effects {
	return &storetest.Effects{
		Transactor: v,
		Count:      func(t testing.TB, e idem.Effect, name string) { mine(t, e).names = append(mine(t, e).names, name) },
		Refuse:     func(t testing.TB, e idem.Effect) { mine(t, e).refuse = true },
		Read: func(_ testing.TB, name string) int {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.counts[name]
		},
	}
}

func mine(t testing.TB, e idem.Effect) *counted {
	t.Helper()
	c, ok := e.(*counted)
	if !ok {
		t.Fatalf("%T", e)
	}
	return c
}

// commit has an effect, or says why not. v.mu is held.
func (v *variant) commit(set *idem.Settlement, held bool) error {
	if set.Effect == nil {
		return nil
	}
	e, ok := set.Effect.(*counted)
	if !ok {
		return &idem.RejectedError{Err: errors.New("variant: a foreign effect")}
	}
	if v.partly(e) {
		v.counts[e.names[0]]++
	}
	if held && v.refuses(e) {
		return &idem.RejectedError{Err: errors.New("variant: a condition does not hold")}
	}
	if v.commits(e, held) {
		for _, name := range e.names {
			v.counts[name]++
		}
	}
	return nil
}

// completeUnclaimed settles a completion that claims its key too. v.mu is held.
func (v *variant) completeUnclaimed(set *idem.Settlement) error {
	seen, found := v.recs[set.Key]
	now := v.clock.Now()
	switch {
	case found && v.own(set, &seen):
		return v.commit(set, v.repeats)
	case !v.free(found):
		verdict, res := v.judge(set.Claim, &seen, now, v.skew)
		if verdict == idem.VerdictMismatch {
			res.Err = idem.ErrFingerprintMismatch
		}
		return errors.Join(v.refused(set, res), v.commit(set, false))
	}
	if err := v.commit(set, true); err != nil {
		return err
	}
	v.recs[set.Key] = v.committing.fresh(set, idem.FreshlySettled(set, now))
	return nil
}

func effectRules() []broken {
	breaking := func(how func(c *committing)) func(r *rules) { return func(r *rules) { how(&r.committing) } }
	const effects, onCommit = "Effects", "ClaimOnCommit"
	return []broken{
		{"an effect is forgotten", effects, breaking(func(c *committing) { c.commits = func(*counted, bool) bool { return false } }), true},
		{"a late owner's effect commits", effects, breaking(func(c *committing) { c.commits = func(*counted, bool) bool { return true } }), true},
		{"an effect takes place again when its reply was lost", effects, breaking(func(c *committing) { c.repeats = true }), true},
		{"an effect's conditions are not looked at", effects, breaking(func(c *committing) { c.refuses = func(*counted) bool { return false } }), true},
		{"an effect takes place in part", effects, breaking(func(c *committing) { c.partly = func(e *counted) bool { return e.refuse } }), true},
		{"a completion takes a key that is there", onCommit, breaking(func(c *committing) { c.free = func(bool) bool { return true } }), true},
		{"a refused completion is told as done", onCommit, breaking(func(c *committing) {
			c.refused = func(*idem.Settlement, idem.ClaimResult) error { return nil }
		}), true},
		{"a refused completion is told as fenced", onCommit, breaking(func(c *committing) {
			c.refused = func(s *idem.Settlement, res idem.ClaimResult) error {
				return &idem.FencedError{Key: s.Key, Version: s.Version, Current: res.Record}
			}
		}), true},
		{"a refused completion does not say what is there", onCommit, breaking(func(c *committing) {
			c.refused = func(*idem.Settlement, idem.ClaimResult) error { return &idem.ClaimRefusedError{} }
		}), true},
		{"a key that is claimed on commit has no fingerprint", onCommit, breaking(func(c *committing) {
			c.fresh = func(_ *idem.Settlement, rec idem.Record) idem.Record {
				rec.Fingerprint = idem.Fingerprint{}
				return rec
			}
		}), true},
		{"a key that is claimed on commit is left STARTED", onCommit, breaking(func(c *committing) {
			c.fresh = func(_ *idem.Settlement, rec idem.Record) idem.Record { rec.Status = idem.StatusStarted; return rec }
		}), true},
		{"a key that is claimed on commit forgets its owner", onCommit, breaking(func(c *committing) {
			c.fresh = func(_ *idem.Settlement, rec idem.Record) idem.Record { rec.Owner = "somebody"; return rec }
		}), true},
	}
}
