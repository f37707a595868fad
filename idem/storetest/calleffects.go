package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// callEffect returns the effect of a call, which adds one to a counter.
func (s *suite) callEffect(name string) store.Effect {
	s.Helper()
	calls, ok := s.Effects.Transactor.(store.CallTransactor)
	if !ok {
		s.Fatalf("%T is no store.CallTransactor", s.Effects.Transactor)
	}
	e := calls.NewCallEffect()
	s.Effects.Count(s.T, e, name)
	return e
}

func (s *suite) seal(e store.Effect) {
	s.Helper()
	if enlisted, err := e.Seal(); err != nil || !enlisted {
		s.Fatalf("sealing the effect of a call: %v, %v", enlisted, err)
	}
}

// call claims as many keys and returns completions with one effect.
func (s *suite) call(n int, e store.Effect) []store.Settlement {
	s.Helper()
	ss := make([]store.Settlement, n)
	for i := range ss {
		ss[i] = completion(s.mustClaim(withKey(fmt.Sprint("key-", i))), e)
	}
	return ss
}

// wantNothing checks that a call of completions changed nothing. refused is the error of one of them, or -1;
// all others must be rejected.
func (s *suite) wantNothing(ss []store.Settlement, refused int) {
	s.Helper()
	before := make([][]byte, len(ss))
	for i := range ss {
		before[i] = s.Raw(s.T, ss[i].Key)
	}
	errs := s.Store.Settle(s.ctx(), ss)
	if len(errs) != len(ss) {
		s.Fatalf("%d settlements gave %d errors", len(ss), len(errs))
	}
	for i, err := range errs {
		want := store.ErrRejected
		if i == refused {
			want = store.ErrFenced
		}
		if !errors.Is(err, want) {
			s.Errorf("completion %d: %v; want %v", i, err, want)
		}
		s.wantUnchanged(ss[i].Key, before[i])
	}
}

// callEffects checks effects that commit with the completions of many keys.
func callEffects() []test {
	const keys = 120 // more than a request of a store
	return []test{
		{"commits with all completions", func(s *suite) {
			e := s.callEffect("a")
			s.seal(e)
			ss := s.call(keys, e)
			if errs := s.Store.Settle(s.ctx(), ss); errs != nil {
				s.Fatal(errs)
			}
			s.wantCount("a", 1)
			for i := range ss {
				if got := s.get(ss[i].Key); got.Status != store.StatusCompleted ||
					string(got.Result) != string(ss[i].Result) {
					s.Errorf("%s: %+v; want it COMPLETED with its result", ss[i].Key, got)
				}
			}
		}},
		{"whose reply was lost counts once", func(s *suite) {
			e := s.callEffect("a")
			s.seal(e)
			ss := s.call(keys, e)
			s.LoseReply()
			for range 2 { // then a retry by the engine
				if errs := s.Store.Settle(s.ctx(), ss); errs != nil {
					s.Fatal(errs)
				}
			}
			s.wantCount("a", 1)
		}},
		{"changes nothing if a key was taken by another owner", func(s *suite) {
			for _, late := range []int{0, 2} {
				e := s.callEffect("late")
				s.seal(e)
				taken := completion(s.mustClaim(withKey(fmt.Sprint("taken-", late))), e)
				s.Advance(lease + s.Skew + time.Millisecond)
				s.mustClaim(withKey(taken.Key))
				ss := slices.Insert(s.call(2, e), late, taken)
				s.wantNothing(ss, late)
				s.wantCount("late", 0)
				for i := range ss {
					if i != late {
						release := ss[i]
						release.Op, release.Effect = store.OpRelease, nil
						s.mustSettle(release) // the owner still holds it
					}
				}
			}
		}},
		{"that is rejected changes nothing", func(s *suite) {
			e := s.callEffect("refused")
			s.Effects.Refuse(s.T, e)
			s.seal(e)
			s.wantNothing(s.call(3, e), -1)
			s.wantCount("refused", 0)
		}},
		{"commits beside others", func(s *suite) {
			e := s.callEffect("a")
			s.seal(e)
			ss := s.call(3, e)
			ss = append(ss, completion(s.mustClaim(withKey("own")), s.counting("own")),
				settlement(s.mustClaim(withKey("plain")), store.OpRelease))
			slices.Reverse(ss)
			if errs := s.Store.Settle(s.ctx(), ss); errs != nil {
				s.Fatal(errs)
			}
			s.wantCount("a", 1)
			s.wantCount("own", 1)
		}},
	}
}
