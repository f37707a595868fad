package storetest

import (
	"errors"
	"strconv"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

func (s *suite) look(req store.ClaimRequest) store.ClaimResult {
	s.Helper()
	results := s.Ranger.Look(s.ctx(), []store.ClaimRequest{req})
	if len(results) != 1 {
		s.Fatalf("a look at 1 key gave %d results", len(results))
	}
	return results[0]
}

// keyStates prepare the key in each state in which a claim may find it.
func keyStates() map[string]func(s *suite) {
	return map[string]func(s *suite){
		"absent": func(*suite) {},
		"held":   func(s *suite) { s.mustClaim() },
		"lease over": func(s *suite) {
			s.mustClaim()
			s.Advance(lease + s.Skew + time.Millisecond)
		},
		"released": func(s *suite) { s.do(s.mustClaim(), store.OpRelease) },
		"released with a delay": func(s *suite) {
			set := settlement(s.mustClaim(), store.OpRelease)
			set.Delay = time.Minute
			s.mustSettle(set)
		},
		"COMPLETED": func(s *suite) { s.do(s.mustClaim(), store.OpComplete) },
		"FAILED":    func(s *suite) { s.do(s.mustClaim(), store.OpFail) },
		"past its retention": func(s *suite) {
			s.do(s.mustClaim(), store.OpComplete)
			s.Advance(retention + s.Skew + time.Second)
		},
	}
}

func looks() []test {
	var tests []test
	for name, prepare := range keyStates() {
		tests = append(tests, test{name + ": a look writes nothing, and says what a claim says",
			func(s *suite) {
				prepare(s)
				s.looksLikeClaims()
			}})
	}
	return append(tests,
		test{"an own claim whose reply was lost", func(s *suite) {
			req := s.request()
			s.wantState(s.claimAs(req), store.Claimed)
			res := s.look(req)
			s.wantState(res, store.Claimed)
			s.wantEntry(res.Entry, s.get(key))
		}},
		test{"300 keys at once", func(s *suite) { s.lookAtMany() }},
		test{"no key", func(s *suite) {
			if got := s.Ranger.Look(s.ctx(), nil); len(got) != 0 {
				s.Errorf("%d results of no keys", len(got))
			}
		}},
		test{"a context that has ended is an error", func(s *suite) {
			ctx, cancel := contextEnded(s)
			defer cancel()
			if res := s.Ranger.Look(ctx, []store.ClaimRequest{s.request()})[0]; !errors.Is(res.Err,
				ctx.Err()) || res.State != store.ClaimUnknown {
				s.Errorf("state %d, error %v; want %v", res.State, res.Err, ctx.Err())
			}
		}},
	)
}

// looksLikeClaims compares looks at the key with claims by the same requests. The last ones take the key.
func (s *suite) looksLikeClaims() {
	s.Helper()
	var token int64
	if entry, err := s.admin().Get(s.ctx(), key); err == nil {
		token = entry.Token
	}
	for _, req := range []store.ClaimRequest{
		s.request(withValue("another"), withRedrive(token)), s.request(withRedrive(token+1), withoutTakeOver),
		s.request(withoutTakeOver),
		s.request(), s.request(withRedrive(token)),
	} {
		before := s.Raw(s.T, key)
		looked := s.look(req)
		s.wantUnchanged(key, before)
		if before != nil {
			s.wantEntry(looked.Entry, s.get(key))
		}
		claimed := s.claimAs(req)
		mismatch := errors.Is(claimed.Err, store.ErrFingerprintMismatch)
		switch {
		case mismatch || claimed.State != store.Claimed:
			if looked.State != claimed.State ||
				errors.Is(looked.Err, store.ErrFingerprintMismatch) != mismatch ||
				(looked.ClaimableIn-claimed.ClaimableIn).Abs() > s.Tolerance {
				s.Errorf("look %+v;\nclaim %+v", looked, claimed)
			}
			s.wantEntry(looked.Entry, claimed.Entry)
		case looked.State != store.ClaimUnknown || looked.Err != nil:
			s.Errorf("state %d, error %v; want none for a key that a claim takes", looked.State, looked.Err)
		case before == nil:
			s.wantTime("token, as a time,", time.UnixMilli(looked.Entry.Token), s.Now())
			looked.Entry.Token = 0
			s.wantEntry(looked.Entry, store.Entry{})
			return
		default:
			return
		}
	}
}

// lookAtMany looks at 300 keys: every third is absent, COMPLETED or held.
func (s *suite) lookAtMany() {
	const n = 300
	var reqs, claims []store.ClaimRequest
	for i := range n {
		reqs = append(reqs, s.request(withKey("k"+strconv.Itoa(i))))
		if i%3 > 0 {
			claims = append(claims, s.request(withKey("k"+strconv.Itoa(i))))
		}
	}
	var ss []store.Settlement
	for i, res := range s.Store.Claim(s.ctx(), claims) {
		s.wantState(res, store.Claimed)
		if i%2 == 0 {
			ss = append(ss, settlement(res.Entry, store.OpComplete))
		}
	}
	if errs := s.Store.Settle(s.ctx(), ss); errs != nil {
		s.Fatal(errors.Join(errs...))
	}
	for i, res := range s.Ranger.Look(s.ctx(), reqs) {
		want := [...]store.ClaimState{store.ClaimUnknown, store.ClaimCompleted, store.ClaimInFlight}[i%3]
		wantKey := ""
		if i%3 > 0 {
			wantKey = reqs[i].Key
		}
		if res.State != want || res.Err != nil || res.Entry.Key != wantKey {
			s.Errorf("%s: state %d, error %v, entry of %q; want state %d", reqs[i].Key, res.State, res.Err,
				res.Entry.Key, want)
		}
	}
}
