package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

func leases() []test {
	tests := []test{
		{"a live one can't be taken, up to its end and the skew", func(s *suite) {
			s.mustClaim()
			for _, d := range []time.Duration{0, lease / 2,
				lease/2 + s.Skew - time.Millisecond - s.Tolerance} {
				s.Advance(d)
				s.wantState(s.claim(), store.ClaimInFlight)
			}
			s.Advance(time.Millisecond + s.Tolerance)
			s.mustClaim()
		}},
		{"the answer contains the time until its end", func(s *suite) {
			s.mustClaim()
			s.Advance(10 * time.Second)
			res := s.claim()
			s.wantState(res, store.ClaimInFlight)
			if want := lease + s.Skew - 10*time.Second; (res.ClaimableIn - want).Abs() > s.Tolerance {
				s.Errorf("claimable in %v; want %v", res.ClaimableIn, want)
			}
		}},
		{"one that is over is reported, not taken, without TakeOver", func(s *suite) {
			entry := s.mustClaim()
			s.Advance(lease + s.Skew + time.Millisecond)
			before := s.Raw(s.T, key)
			res := s.claim(withoutTakeOver)
			s.wantState(res, store.ClaimLeaseOver)
			s.wantUnchanged(key, before)
			s.wantEntry(res.Entry, entry)
			res = s.claim()
			s.wantState(res, store.Claimed)
			if !res.Stolen {
				s.Error("a taken lease is not reported as stolen")
			}
		}},
		{"the delay of a release counts without skew, and needs no TakeOver", func(s *suite) {
			set := settlement(s.mustClaim(), store.OpRelease)
			set.Delay = 10 * time.Second
			s.mustSettle(set)
			s.Advance(10*time.Second - time.Millisecond - s.Tolerance)
			res := s.claim(withoutTakeOver)
			s.wantState(res, store.ClaimInFlight)
			if res.ClaimableIn <= 0 || res.ClaimableIn > time.Millisecond+2*s.Tolerance {
				s.Errorf("claimable in %v; want 1ms", res.ClaimableIn)
			}
			s.Advance(time.Millisecond + s.Tolerance)
			res = s.claim(withoutTakeOver)
			s.wantState(res, store.Claimed)
			if res.Stolen {
				s.Error("a released key is reported as stolen")
			}
		}},
		{"an extended one lives on", func(s *suite) {
			entry := s.mustClaim()
			s.Advance(lease - time.Second)
			s.do(entry, store.OpExtend)
			s.Advance(lease)
			s.wantState(s.claim(), store.ClaimInFlight)
			s.Advance(lease + s.Skew)
			s.mustClaim()
		}},
		{"a delayed extension shortens nothing", func(s *suite) {
			entry := s.mustClaim()
			s.do(entry, store.OpExtend)
			long := s.get(key)
			late := settlement(entry, store.OpExtend)
			late.Lease = time.Second
			s.mustSettle(late)
			if got := s.get(key); got.LeaseUntil.Before(long.LeaseUntil) || got.Expiry.Before(long.Expiry) {
				s.Errorf("lease until %v, expiry %v; want at least %v, %v", got.LeaseUntil, got.Expiry,
					long.LeaseUntil, long.Expiry)
			}
		}},
	}
	return append(tests, interposed()...)
}

// interposed changes a key between a contender's read of the key, whose lease is over, and its write. The
// write must fail if the key has changed in any way. A store that reads and writes atomically passes, because
// the change happens just before.
func interposed() []test {
	gap := func(name string, want store.ClaimState, happens func(s *suite, holder store.Entry)) test {
		return test{"between look and steal: " + name, func(s *suite) {
			holder := s.mustClaim()
			s.Advance(lease + s.Skew + time.Millisecond)
			meanwhile := func() { happens(s, holder) }
			if s.Interpose == nil {
				meanwhile()
			} else {
				s.Interpose(meanwhile)
			}
			res := s.claim()
			s.wantState(res, want)
			s.wantEntry(res.Entry, s.get(key))
		}}
	}
	return []test{
		gap("the owner extends", store.ClaimInFlight,
			func(s *suite, r store.Entry) { s.do(r, store.OpExtend) }),
		gap("the owner completes", store.ClaimCompleted,
			func(s *suite, r store.Entry) { s.do(r, store.OpComplete) }),
		gap("the owner fails", store.ClaimFailed, func(s *suite, r store.Entry) { s.do(r, store.OpFail) }),
		gap("the owner releases with a delay", store.ClaimInFlight, func(s *suite, r store.Entry) {
			set := settlement(r, store.OpRelease)
			set.Delay = time.Hour
			s.mustSettle(set)
		}),
		gap("the owner releases", store.Claimed, func(s *suite, r store.Entry) { s.do(r, store.OpRelease) }),
		gap("another steals", store.ClaimInFlight, func(s *suite, _ store.Entry) { s.mustClaim() }),
		gap("the key is deleted", store.Claimed, func(s *suite, r store.Entry) {
			if err := s.admin().Delete(s.ctx(), key, r.Token); err != nil {
				s.Fatal(err)
			}
		}),
	}
}

func attempts() []test {
	want := func(s *suite, entry store.Entry, n int) {
		s.Helper()
		if entry.Attempts != n {
			s.Errorf("%d attempts; want %d", entry.Attempts, n)
		}
	}
	return []test{
		{"are charged with the claim, and survive steal and release", func(s *suite) {
			want(s, s.mustClaim(), 1)
			s.Advance(lease + s.Skew + time.Millisecond)
			entry := s.mustClaim()
			want(s, entry, 2)
			s.do(entry, store.OpRelease)
			want(s, s.get(key), 2)
			entry = s.mustClaim()
			want(s, entry, 3)
			s.do(entry, store.OpExtend)
			want(s, s.get(key), 3)
		}},
		{"are given back by a release with a refund", func(s *suite) {
			s.do(s.mustClaim(), store.OpRelease)
			set := settlement(s.mustClaim(), store.OpRelease)
			set.Failure, set.Refund = nil, true
			s.mustSettle(set)
			entry := s.get(key)
			want(s, entry, 1)
			if entry.Failure == nil || entry.Failure.Message != "failure of owner-1" {
				s.Errorf("failure %v; want the one before", entry.Failure)
			}
			want(s, s.mustClaim(), 2)
		}},
		{"are kept by COMPLETED and FAILED", func(s *suite) {
			for _, op := range []store.SettleOp{store.OpComplete, store.OpFail} {
				s.do(s.mustClaim(withKey(op.String())), store.OpRelease)
				s.do(s.mustClaim(withKey(op.String())), op)
				want(s, s.get(op.String()), 2)
			}
		}},
	}
}

func expiry() []test {
	tests := []test{
		{"is at least lease and retention from a claim, an extension, a release", func(s *suite) {
			entry := s.mustClaim()
			atLeast := func(what string, until time.Time) {
				s.Helper()
				got := s.get(key).Expiry
				if got.Before(until.Add(retention)) || got.After(until.Add(retention+time.Second)) ||
					got.Nanosecond() != 0 {
					s.Errorf("%s: expiry %v; want %v, rounded up to whole seconds", what, got.UTC(),
						until.Add(retention).UTC())
				}
			}
			atLeast("claim", entry.LeaseUntil)
			s.do(entry, store.OpExtend)
			atLeast("extension", s.get(key).LeaseUntil)
			s.Advance(2*lease + s.Skew + time.Millisecond)
			entry = s.mustClaim()
			atLeast("steal", entry.LeaseUntil)
			set := settlement(entry, store.OpRelease)
			set.Delay = 2 * retention
			s.mustSettle(set)
			atLeast("release", s.get(key).RetryAt)
			s.Advance(set.Delay)
			atLeast("re-claim", s.mustClaim().LeaseUntil)
		}},
		{"does not apply to STARTED: a lock past its expiry is a lease that is over", func(s *suite) {
			s.mustClaim()
			s.Advance(lease + retention + s.Skew + 2*time.Second)
			s.wantState(s.claim(withoutTakeOver), store.ClaimLeaseOver)
			entry := s.mustClaim()
			if entry.Attempts != 2 {
				s.Errorf("%d attempts; want 2: only final entries expire", entry.Attempts)
			}
		}},
		{"a re-claim after it forgets attempts, result and failure", func(s *suite) {
			for _, op := range []store.SettleOp{store.OpComplete, store.OpFail} {
				s.do(s.mustClaim(withKey(op.String())), store.OpRelease)
				s.do(s.mustClaim(withKey(op.String())), op)
				s.wantForgotten(op.String())
			}
			set := settlement(s.mustClaim(withKey("omitted")), store.OpComplete)
			set.Result, set.ResultOmitted = nil, 1<<20
			s.mustSettle(set)
			s.wantForgotten("omitted")
		}},
	}
	for name, prepare := range states() {
		tests = append(tests, test{"TTL leaves what is not expired: " + name, func(s *suite) {
			prepare(s)
			s.Advance(retention - lease - s.Skew - 2*time.Second)
			before := s.Raw(s.T, key)
			s.Sweep(s.T)
			s.wantUnchanged(key, before)
		}})
	}
	return tests
}

// wantForgotten lets the retention of a key end, and checks that the next claim has no trace of the old
// entry.
func (s *suite) wantForgotten(k string) {
	s.Helper()
	s.Advance(retention + s.Skew + time.Second)
	res := s.claim(withKey(k))
	s.wantState(res, store.Claimed)
	entry := s.get(k)
	if entry.Attempts != 1 || entry.Result != nil || entry.ResultOmitted != 0 || entry.Failure != nil ||
		res.Stolen {
		s.Errorf("%s: stolen %t, %+v", k, res.Stolen, entry)
	}
	s.wantTime("createdAt", entry.CreatedAt, s.Now())
}

func contexts() []test {
	return []test{
		{"a context that has ended is an error, never a proper answer", func(s *suite) {
			entry := s.mustClaim(withKey("held"))
			ctx, cancel := context.WithCancel(s.ctx())
			cancel()
			res := s.Store.Claim(ctx, []store.ClaimRequest{s.request()})[0]
			if res.State != store.ClaimUnknown || !errors.Is(res.Err, context.Canceled) {
				s.Errorf("claim: state %d, error %v; want context.Canceled", res.State, res.Err)
			}
			for _, op := range allOps() {
				errs := s.Store.Settle(ctx, []store.Settlement{settlement(entry, op)})
				if len(errs) != 1 || !errors.Is(errs[0], context.Canceled) ||
					errors.Is(errs[0], store.ErrFenced) {
					s.Errorf("%s: %v; want context.Canceled", op, errs)
				}
			}
		}},
	}
}
