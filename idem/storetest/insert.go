package storetest

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// insertion returns a settlement that also claims its key, under a lease whose token is a little higher than
// the time.
func (s *suite) insertion(op store.SettleOp, options ...func(*store.ClaimRequest)) store.Settlement {
	req := s.request(options...)
	set := settlement(store.Entry{Key: req.Key, Token: store.FreshToken(s.Now()) + 5, Owner: req.Owner}, op)
	req.Token, set.Claim = set.Token, &req
	return set
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

func insertingOps() []store.SettleOp {
	return []store.SettleOp{store.OpComplete, store.OpFail, store.OpRelease}
}

func contextEnded(s *suite) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(s.ctx())
	cancel()
	return ctx, cancel
}

// insertions checks the settlements that claim their key and have no effect.
func insertions() []test {
	var tests []test
	for _, op := range insertingOps() {
		tests = append(tests, insertionsOf(op)...)
	}
	return append(tests,
		test{"a release counts its attempt", func(s *suite) {
			set := s.insertion(store.OpRelease)
			s.mustSettle(set)
			entry := s.mustClaim()
			if entry.Attempts != 2 || entry.Token != set.Token+1 || entry.Failure == nil {
				s.Errorf("%d attempts, token %d, failure %v; want 2, %d, and that of the release",
					entry.Attempts, entry.Token, entry.Failure, set.Token+1)
			}
		}},
		test{"a release with a refund counts no attempt", func(s *suite) {
			set := s.insertion(store.OpRelease)
			set.Refund = true
			s.LoseReply()
			s.mustSettle(set)
			if entry := s.mustClaim(); entry.Attempts != 1 {
				s.Errorf("%d attempts; want 1", entry.Attempts)
			}
		}},
		test{"a release with a delay", func(s *suite) {
			set := s.insertion(store.OpRelease)
			set.Delay = time.Minute
			s.mustSettle(set)
			s.wantState(s.claim(), store.ClaimInFlight)
			s.Advance(time.Minute + s.Tolerance)
			s.mustClaim()
		}},
		test{"one that is sent again after another owner's claim is refused", func(s *suite) {
			set := s.insertion(store.OpRelease)
			s.mustSettle(set)
			s.mustClaim()
			if res := s.wantRefused(set); res.State != store.ClaimInFlight {
				s.Errorf("state %d; want in flight", res.State)
			}
		}},
		test{"a claim with a token has it, if the key is absent", func(s *suite) {
			token := store.FreshToken(s.Now()) + 1000
			if entry := s.mustClaim(withToken(token)); entry.Token != token {
				s.Errorf("token %d; want %d", entry.Token, token)
			}
			s.Advance(lease + s.Skew + time.Millisecond)
			if entry := s.mustClaim(withToken(token + 1000)); entry.Token != token+1 {
				s.Errorf("token %d; want %d", entry.Token, token+1)
			}
		}},
		test{"a claim with a token of the past has that of the time", func(s *suite) {
			entry := s.mustClaim(withToken(store.FreshToken(s.Now()) - 1_000_000))
			s.wantTime("token, as a time,", time.UnixMilli(entry.Token), s.Now())
		}},
		test{"has one winner", func(s *suite) {
			errs := make([]error, contenders)
			var ss []store.Settlement
			for range contenders {
				ss = append(ss, s.insertion(store.OpComplete))
			}
			atOnce(contenders, func(i int) { errs[i] = s.settle(ss[i]) })
			won := 0
			for i, err := range errs {
				if err == nil {
					won++
				} else if !errors.Is(err, store.ErrClaimRefused) {
					s.Errorf("contender %d: %v", i, err)
				}
			}
			if won != 1 {
				s.Errorf("%d of %d won", won, contenders)
			}
		}},
		test{"300 at once, some of which are refused or sent again", func(s *suite) { s.insertMany() }},
		test{"mixed with settlements of claims, and with effects", func(s *suite) { s.mixedSettlements() }},
	)
}

func insertionsOf(op store.SettleOp) []test {
	name := op.String()
	tests := []test{
		{name + " of an absent key", func(s *suite) {
			set := s.insertion(op)
			s.mustSettle(set)
			s.wantApproximately(s.get(key), store.FreshlySettled(&set, s.Now()))
		}},
		{name + " whose reply was lost", func(s *suite) {
			set := s.insertion(op)
			s.LoseReply()
			s.mustSettle(set)
			before := s.Raw(s.T, key)
			s.Advance(time.Second)
			s.mustSettle(set) // a retry by the engine
			s.wantUnchanged(key, before)
		}},
		{name + " like the one before, but by another owner or with another token, is refused",
			func(s *suite) {
				set := s.insertion(op)
				s.mustSettle(set)
				other := set
				other.Owner = "another owner"
				s.wantRefused(other)
				other = set
				other.Token++
				s.wantRefused(other)
			}},
		{name + " of a key with another fingerprint is refused", func(s *suite) {
			s.mustClaim()
			if res := s.wantRefused(s.insertion(op, withValue("another"))); !errors.Is(res.Err,
				store.ErrFingerprintMismatch) {
				s.Errorf("%v; want ErrFingerprintMismatch", res.Err)
			}
		}},
		{name + " with a context that has ended is an error", func(s *suite) {
			ctx, cancel := contextEnded(s)
			defer cancel()
			errs := s.Store.Settle(ctx, []store.Settlement{s.insertion(op)})
			if len(errs) != 1 || !errors.Is(errs[0], ctx.Err()) || errors.Is(errs[0], store.ErrClaimRefused) {
				s.Errorf("%v; want %v", errs, ctx.Err())
			}
		}},
	}
	for state, prepare := range keyStates() {
		if state == "absent" {
			continue
		}
		tests = append(tests, test{name + " of an existing key is refused: " + state, func(s *suite) {
			prepare(s)
			set := s.insertion(op)
			want := s.look(*set.Claim)
			res := s.wantRefused(set)
			if res.State != want.State || res.Err != nil ||
				(res.ClaimableIn-want.ClaimableIn).Abs() > s.Tolerance {
				s.Errorf("%+v; want %+v, as for a claim", res, want)
			}
			s.wantEntry(res.Entry, s.get(key))
		}})
	}
	return tests
}

// insertMany inserts 300 entries. Of each ten, the key of one exists, and another one was inserted before by
// the same settlement.
func (s *suite) insertMany() {
	const n = 300
	var ss, before []store.Settlement
	var held []store.ClaimRequest
	for i := range n {
		ss = append(ss, s.insertion(insertingOps()[i%3], withKey("k"+strconv.Itoa(i))))
		switch i % 10 {
		case 3:
			held = append(held, s.request(withKey("k"+strconv.Itoa(i))))
		case 7:
			before = append(before, ss[i])
		}
	}
	for _, res := range s.Store.Claim(s.ctx(), held) {
		s.wantState(res, store.Claimed)
	}
	if errs := s.Store.Settle(s.ctx(), before); errs != nil {
		s.Fatal(errors.Join(errs...))
	}
	errs := s.Store.Settle(s.ctx(), ss)
	if len(errs) != n {
		s.Fatalf("%d errors for %d settlements", len(errs), n)
	}
	for i, err := range errs {
		var refused *store.ClaimRefusedError
		if want := i%10 == 3; errors.As(err, &refused) != want || !want && err != nil {
			s.Errorf("%d: %v", i, err)
		} else if want && (refused.Result.State != store.ClaimInFlight ||
			refused.Result.Entry.Key != ss[i].Key) {
			s.Errorf("%d: %+v", i, refused.Result)
		}
	}
}

// mixedSettlements settles claims, inserts entries and, in a store with effects, commits transactions in one
// call.
func (s *suite) mixedSettlements() {
	plain := func(op store.SettleOp, k string) store.Settlement {
		return settlement(s.mustClaim(withKey(k)),
			op)
	}
	late := s.mustClaim(withKey("late"))
	s.Advance(lease + s.Skew + time.Millisecond)
	s.mustClaim(withKey("late"))
	s.mustClaim(withKey("held"))
	type mixed struct {
		set  store.Settlement
		want error
	}
	all := []mixed{
		{s.insertion(store.OpComplete, withKey("a")), nil},
		{plain(store.OpComplete, "b"), nil},
		{s.insertion(store.OpFail, withKey("held")), store.ErrClaimRefused},
		{plain(store.OpExtend, "c"), nil},
		{s.insertion(store.OpRelease, withKey("d")), nil},
	}
	if s.Effects != nil {
		all = append(all,
			mixed{completion(s.mustClaim(withKey("e")), s.counting("a")), nil},
			mixed{s.insertion(store.OpFail, withKey("f")), nil},
			mixed{completion(s.mustClaim(withKey("g")), s.refused()), store.ErrRejected},
			mixed{s.insertedEffect(s.counting("a"), withKey("h")), nil})
	}
	all = append(all, mixed{settlement(late, store.OpComplete), store.ErrFenced},
		mixed{s.insertion(store.OpComplete, withKey("i")), nil})
	ss := make([]store.Settlement, len(all))
	for i := range all {
		ss[i] = all[i].set
	}
	errs := s.Store.Settle(s.ctx(), ss)
	if len(errs) != len(ss) {
		s.Fatalf("%d errors for %d settlements", len(errs), len(ss))
	}
	for i, err := range errs {
		if want := all[i].want; !errors.Is(err, want) || want == nil && err != nil {
			s.Errorf("%d, %s %q: %v; want %v", i, ss[i].Op, ss[i].Key, err, want)
		}
	}
}
