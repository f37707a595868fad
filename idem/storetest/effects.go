package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// Effects is the access that the suite needs to the effects of a store.Transactor.
type Effects struct {
	store.Transactor
	// Count enlists a write that adds one to the named counter.
	Count func(t testing.TB, e store.Effect, name string)
	// Refuse enlists a condition that fails.
	Refuse func(t testing.TB, e store.Effect)
	// Read returns a counter, 0 if it does not exist.
	Read func(t testing.TB, name string) int
}

// counting returns an effect that adds one to each of the counters.
func (s *suite) counting(names ...string) store.Effect {
	s.Helper()
	e := s.Effects.NewEffect()
	for _, name := range names {
		s.Effects.Count(s.T, e, name)
	}
	if enlisted, err := e.Seal(); err != nil || !enlisted {
		s.Fatalf("sealing an effect of %d writes: %v, %v", len(names), enlisted, err)
	}
	return e
}

func (s *suite) refused() store.Effect {
	s.Helper()
	e := s.Effects.NewEffect()
	s.Effects.Count(s.T, e, "refused")
	s.Effects.Refuse(s.T, e)
	if _, err := e.Seal(); err != nil {
		s.Fatal(err)
	}
	return e
}

// completion returns a completion of an entry's key with an effect.
func completion(entry store.Entry, e store.Effect) store.Settlement {
	set := settlement(entry, store.OpComplete)
	set.Effect = e
	return set
}

func (s *suite) wantCount(name string, want int) {
	s.Helper()
	if got := s.Effects.Read(s.T, name); got != want {
		s.Errorf("the effect %q took place %d times; want %d", name, got, want)
	}
}

func effects() []test {
	return []test{
		{"commits with the completion", func(s *suite) {
			entry := s.mustClaim()
			s.wantCount("a", 0)
			s.mustSettle(completion(entry, s.counting("a", "b")))
			s.wantCount("a", 1)
			s.wantCount("b", 1)
			if got := s.get(key); got.Status != store.StatusCompleted ||
				string(got.Result) != "result of "+entry.Owner {
				s.Errorf("the key is %+v; want it COMPLETED with its result", got)
			}
		}},
		{"of a late owner does not commit", func(s *suite) {
			late := s.mustClaim()
			s.Advance(lease + s.Skew + time.Millisecond)
			thief := s.mustClaim()
			s.wantFenced(completion(late, s.counting("late")))
			s.mustSettle(completion(thief, s.counting("thief")))
			s.wantFenced(completion(late, s.counting("late")))
			s.wantCount("late", 0)
			s.wantCount("thief", 1)
		}},
		{"whose reply was lost counts once", func(s *suite) {
			entry := s.mustClaim()
			set := completion(entry, s.counting("a"))
			s.LoseReply()
			s.mustSettle(set)
			s.mustSettle(set) // a retry by the engine
			s.wantCount("a", 1)
		}},
		{"that is rejected changes nothing, and leaves the key to its owner", func(s *suite) {
			entry := s.mustClaim()
			before := s.Raw(s.T, key)
			err := s.settle(completion(entry, s.refused()))
			var rejected *store.RejectedError
			if !errors.Is(err, store.ErrRejected) || !errors.As(err, &rejected) ||
				errors.Is(err, store.ErrFenced) {
				s.Fatalf("an effect whose condition does not hold: %v; want a RejectedError", err)
			}
			s.wantUnchanged(key, before)
			s.wantCount("refused", 0)
			s.do(entry, store.OpRelease)
		}},
		{"of several keys commit in one call, except those that can't", func(s *suite) {
			var ss []store.Settlement
			late := s.mustClaim(withKey("late"))
			s.Advance(lease + s.Skew + time.Millisecond)
			s.mustClaim(withKey("late"))
			for i := range 4 {
				entry := s.mustClaim(withKey(fmt.Sprint("key-", i)))
				ss = append(ss, completion(entry, s.counting(fmt.Sprint("count-", i), "shared")))
			}
			ss = append(ss, completion(late, s.counting("late", "shared")),
				completion(s.mustClaim(withKey("rejected")), s.refused()))
			for _, op := range allOps() {
				ss = append(ss, settlement(s.mustClaim(withKey("plain-"+op.String())), op))
			}
			errs := s.Store.Settle(s.ctx(), ss)
			if len(errs) != len(ss) {
				s.Fatalf("%d settlements gave %d errors", len(ss), len(errs))
			}
			for i, err := range errs {
				if want := map[int]error{4: store.ErrFenced, 5: store.ErrRejected}[i]; !errors.Is(err, want) {
					s.Errorf("settlement %d (%s): %v; want %v", i, ss[i].Key, err, want)
				}
			}
			for i := range 4 {
				s.wantCount(fmt.Sprint("count-", i), 1)
			}
			s.wantCount("shared", 4)
			s.wantCount("late", 0)
			s.wantCount("refused", 0)
		}},
		{"of a foreign kind is rejected", func(s *suite) {
			entry := s.mustClaim()
			if err := s.settle(completion(entry, foreign{})); !errors.Is(err, store.ErrRejected) {
				s.Errorf("%v; want ErrRejected", err)
			}
		}},
	}
}

type foreign struct{}

func (foreign) Seal() (enlisted bool, err error) { return true, nil }
func (foreign) Discard()                         {}
