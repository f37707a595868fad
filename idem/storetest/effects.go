package storetest

import (
	"errors"
	"fmt"
	"sync"
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

// completion returns a completion of rec's key with an effect.
func completion(rec store.Entry, e store.Effect) store.Settlement {
	set := settlement(rec, store.OpComplete)
	set.Effect = e
	return set
}

// unclaimed returns a completion that also claims its key.
func (s *suite) unclaimed(e store.Effect, options ...func(*store.ClaimRequest)) store.Settlement {
	req := s.request(options...)
	return store.Settlement{
		Op: store.OpComplete, Key: req.Key, Token: store.FreshToken(s.Now()), Owner: req.Owner, Retention: retention,
		Result: []byte("result of " + req.Owner), Claim: &req, Effect: e,
	}
}

func (s *suite) wantCount(name string, want int) {
	s.Helper()
	if got := s.Effects.Read(s.T, name); got != want {
		s.Errorf("the effect %q took place %d times; want %d", name, got, want)
	}
}

func (s *suite) wantRefused(set store.Settlement) store.ClaimResult {
	s.Helper()
	before := s.Raw(s.T, set.Key)
	err := s.settle(set)
	var refused *store.ClaimRefusedError
	if !errors.Is(err, store.ErrClaimRefused) || !errors.As(err, &refused) {
		s.Fatalf("completing an existing key: %v; want a ClaimRefusedError", err)
	}
	s.wantUnchanged(set.Key, before)
	return refused.Result
}

func effects() []test {
	return []test{
		{"commits with the completion", func(s *suite) {
			rec := s.mustClaim()
			s.wantCount("a", 0)
			s.mustSettle(completion(rec, s.counting("a", "b")))
			s.wantCount("a", 1)
			s.wantCount("b", 1)
			if got := s.get(key); got.Status != store.StatusCompleted || string(got.Result) != "result of "+rec.Owner {
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
			rec := s.mustClaim()
			set := completion(rec, s.counting("a"))
			s.LoseReply()
			s.mustSettle(set)
			s.mustSettle(set) // a retry by the engine
			s.wantCount("a", 1)
		}},
		{"that is rejected changes nothing, and leaves the key to its owner", func(s *suite) {
			rec := s.mustClaim()
			before := s.Raw(s.T, key)
			err := s.settle(completion(rec, s.refused()))
			var rejected *store.RejectedError
			if !errors.Is(err, store.ErrRejected) || !errors.As(err, &rejected) || errors.Is(err, store.ErrFenced) {
				s.Fatalf("an effect whose condition does not hold: %v; want a RejectedError", err)
			}
			s.wantUnchanged(key, before)
			s.wantCount("refused", 0)
			s.do(rec, store.OpRelease)
		}},
		{"of several keys commit in one call, except those that can't", func(s *suite) {
			var ss []store.Settlement
			late := s.mustClaim(withKey("late"))
			s.Advance(lease + s.Skew + time.Millisecond)
			s.mustClaim(withKey("late"))
			for i := range 4 {
				rec := s.mustClaim(withKey(fmt.Sprint("key-", i)))
				ss = append(ss, completion(rec, s.counting(fmt.Sprint("count-", i), "shared")))
			}
			ss = append(ss, completion(late, s.counting("late", "shared")), completion(s.mustClaim(withKey("rejected")), s.refused()))
			plain := s.mustClaim(withKey("plain"))
			ss = append(ss, settlement(plain, store.OpComplete), s.unclaimed(s.counting("fresh", "shared"), withKey("fresh")))
			errs := s.Store.Settle(s.ctx(), ss)
			if len(errs) != len(ss) {
				s.Fatalf("%d settlements gave %d errors", len(ss), len(errs))
			}
			for i, want := range []error{nil, nil, nil, nil, store.ErrFenced, store.ErrRejected, nil, nil} {
				if !errors.Is(errs[i], want) {
					s.Errorf("settlement %d (%s): %v; want %v", i, ss[i].Key, errs[i], want)
				}
			}
			for i := range 4 {
				s.wantCount(fmt.Sprint("count-", i), 1)
			}
			s.wantCount("shared", 5)
			s.wantCount("late", 0)
			s.wantCount("refused", 0)
			s.wantCount("fresh", 1)
		}},
		{"of a foreign kind is rejected", func(s *suite) {
			rec := s.mustClaim()
			if err := s.settle(completion(rec, foreign{})); !errors.Is(err, store.ErrRejected) {
				s.Errorf("%v; want ErrRejected", err)
			}
		}},
	}
}

type foreign struct{}

func (foreign) Seal() (enlisted bool, err error) { return true, nil }
func (foreign) Discard()                         {}

func claimsOnCommit() []test {
	tests := []test{
		{"completes an absent key with its effect", func(s *suite) {
			set := s.unclaimed(s.counting("a"))
			s.mustSettle(set)
			s.wantCount("a", 1)
			got := s.get(key)
			if got.Status != store.StatusCompleted || got.Owner != set.Owner || got.Token != set.Token || got.Attempts != 1 ||
				got.Fingerprint != set.Claim.Fingerprint || got.Source != source || string(got.Result) != string(set.Result) {
				s.Errorf("the key is %+v", got)
			}
			s.wantTime("Expiry", got.Expiry, store.Expiry(s.Now(), retention))
			s.wantTime("CreatedAt", got.CreatedAt, time.UnixMilli(set.Token))
			s.wantTime("LeaseUntil", got.LeaseUntil, time.UnixMilli(set.Token).Add(lease))
		}},
		{"completes an absent key without an effect", func(s *suite) {
			s.mustSettle(s.unclaimed(nil))
			if res := s.wantRefused(s.unclaimed(nil)); res.State != store.ClaimCompleted {
				s.Errorf("state %d; want COMPLETED", res.State)
			}
		}},
		{"whose reply was lost counts once", func(s *suite) {
			set := s.unclaimed(s.counting("a"))
			s.LoseReply()
			s.mustSettle(set)
			s.mustSettle(set)
			s.wantCount("a", 1)
		}},
		{"that is rejected leaves the key absent", func(s *suite) {
			if err := s.settle(s.unclaimed(s.refused())); !errors.Is(err, store.ErrRejected) {
				s.Errorf("%v; want ErrRejected", err)
			}
			if raw := s.Raw(s.T, key); raw != nil {
				s.Errorf("there is %s", raw)
			}
		}},
		{"has one winner", func(s *suite) {
			const contenders = 16
			var wg sync.WaitGroup
			errs := make([]error, contenders)
			for i := range contenders {
				set := s.unclaimed(s.counting("a"))
				wg.Go(func() {
					for range 100 { // concurrent transactions may conflict
						if errs[i] = s.settle(set); errs[i] == nil || known(errs[i]) {
							return
						}
					}
				})
			}
			wg.Wait()
			won := 0
			for _, err := range errs {
				if err == nil {
					won++
				}
			}
			if won != 1 {
				s.Errorf("%d of %d won: %v", won, contenders, errs)
			}
			s.wantCount("a", 1)
		}},
	}
	for _, there := range []struct {
		name string
		make func(s *suite)
		want store.ClaimState
	}{
		{"is COMPLETED", func(s *suite) { s.do(s.mustClaim(), store.OpComplete) }, store.ClaimCompleted},
		{"is FAILED", func(s *suite) { s.do(s.mustClaim(), store.OpFail) }, store.ClaimFailed},
		{"is held", func(s *suite) { s.mustClaim() }, store.ClaimInFlight},
		{"is released", func(s *suite) { s.do(s.mustClaim(), store.OpRelease) }, store.ClaimUnknown},
		{"is past its retention", func(s *suite) {
			s.do(s.mustClaim(), store.OpComplete)
			s.Advance(retention + s.Skew + time.Second)
		}, store.ClaimUnknown},
	} {
		tests = append(tests, test{"is refused where the key " + there.name, func(s *suite) {
			there.make(s)
			before := s.get(key)
			res := s.wantRefused(s.unclaimed(s.counting("a")))
			if res.State != there.want || res.Err != nil {
				s.Errorf("state %d, %v; want state %d", res.State, res.Err, there.want)
			}
			s.wantEntry(res.Entry, before)
			s.wantCount("a", 0)
		}})
	}
	return append(tests, test{"is refused where the key stands for something else", func(s *suite) {
		s.do(s.mustClaim(), store.OpComplete)
		if res := s.wantRefused(s.unclaimed(s.counting("a"), withValue("another"))); !errors.Is(res.Err, store.ErrFingerprintMismatch) {
			s.Errorf("%v; want ErrFingerprintMismatch", res.Err)
		}
		s.wantCount("a", 0)
	}})
}

// known reports whether the store has answered a settlement.
func known(err error) bool {
	return errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrRejected) || errors.Is(err, store.ErrClaimRefused)
}
