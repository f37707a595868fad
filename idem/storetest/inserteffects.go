package storetest

import (
	"errors"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// insertedEffect returns a completion that claims its key and has an effect. Its token is that of the time,
// as the model of traces requires.
func (s *suite) insertedEffect(e store.Effect, options ...func(*store.ClaimRequest)) store.Settlement {
	set := s.insertion(store.OpComplete, options...)
	set.Token, set.Claim.Token, set.Effect = store.FreshToken(s.Now()), 0, e
	return set
}

// insertedEffects checks the completions that claim their key and commit an effect.
func insertedEffects() []test {
	tests := []test{
		{"completes an absent key with its effect", func(s *suite) {
			set := s.insertedEffect(s.counting("a"))
			s.mustSettle(set)
			s.wantCount("a", 1)
			got := s.get(key)
			if got.Status != store.StatusCompleted || got.Owner != set.Owner || got.Token != set.Token ||
				got.Attempts != 1 ||
				got.Fingerprint != set.Claim.Fingerprint || got.Source != source ||
				string(got.Result) != string(set.Result) {
				s.Errorf("the key is %+v", got)
			}
			s.wantTime("Expiry", got.Expiry, store.Expiry(s.Now(), retention))
			s.wantTime("CreatedAt", got.CreatedAt, time.UnixMilli(set.Token))
			s.wantTime("LeaseUntil", got.LeaseUntil, time.UnixMilli(set.Token).Add(lease))
		}},
		{"whose reply was lost counts once", func(s *suite) {
			set := s.insertedEffect(s.counting("a"))
			s.LoseReply()
			s.mustSettle(set)
			s.mustSettle(set)
			s.wantCount("a", 1)
		}},
		{"that is rejected leaves the key absent", func(s *suite) {
			if err := s.settle(s.insertedEffect(s.refused())); !errors.Is(err, store.ErrRejected) {
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
				set := s.insertedEffect(s.counting("a"))
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
			res := s.wantRefused(s.insertedEffect(s.counting("a")))
			if res.State != there.want || res.Err != nil {
				s.Errorf("state %d, %v; want state %d", res.State, res.Err, there.want)
			}
			s.wantEntry(res.Entry, before)
			s.wantCount("a", 0)
		}})
	}
	return append(tests, test{"is refused where the key stands for something else", func(s *suite) {
		s.do(s.mustClaim(), store.OpComplete)
		if res := s.wantRefused(s.insertedEffect(s.counting("a"), withValue("another"))); !errors.Is(res.Err,
			store.ErrFingerprintMismatch) {
			s.Errorf("%v; want ErrFingerprintMismatch", res.Err)
		}
		s.wantCount("a", 0)
	}})
}

// known reports whether the store has answered a settlement.
func known(err error) bool {
	return errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrRejected) ||
		errors.Is(err, store.ErrClaimRefused)
}
