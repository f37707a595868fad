package storetest

import (
	"errors"
	"strconv"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// leaseKey is the key of the suite's lease of a range.
const leaseKey = "payments%payments-3"

// ofRange makes a claim that of the lease of a range.
func ofRange(end int64) func(*store.ClaimRequest) {
	return func(r *store.ClaimRequest) {
		r.Key, r.Fingerprint, r.Range = leaseKey, store.Fingerprint{}, &store.Range{End: end}
	}
}

func withToken(token int64) func(*store.ClaimRequest) {
	return func(r *store.ClaimRequest) { r.Token = token }
}

// release returns a release of the lease of a range.
func release(entry store.Entry, till int64) store.Settlement {
	return store.Settlement{Op: store.OpRelease, Key: entry.Key, Token: entry.Token, Owner: entry.Owner,
		Retention: retention, Range: &store.Range{Till: till}}
}

// extension returns an extension of the lease of a range to another end.
func extension(entry store.Entry, end int64, lease time.Duration) store.Settlement {
	set := settlement(entry, store.OpExtend)
	set.Lease, set.Range = lease, &store.Range{End: end}
	return set
}

// stolen lets the lease of a range end and claims it.
func (s *suite) stolen(end int64) store.Entry {
	s.Helper()
	s.Advance(lease + s.Skew + time.Millisecond)
	s.wantState(s.claim(ofRange(end), withoutTakeOver), store.ClaimLeaseOver)
	res := s.claim(ofRange(end))
	s.wantState(res, store.Claimed)
	if !res.Stolen {
		s.Error("a lease that was not released is not reported as stolen")
	}
	return res.Entry
}

func (s *suite) wantRange(entry store.Entry, want store.Range) {
	s.Helper()
	if d := diffRange(entry.Range, &want); d != "" {
		s.Errorf("ranges differ (got, want): %s", d)
	}
}

// ranges checks the rules of the leases of ranges, beyond those of all claims.
func ranges() []test {
	return []test{
		{"a claim keeps the end of its range", func(s *suite) {
			entry := s.mustClaim(ofRange(10))
			s.wantRange(entry, store.Range{End: 10})
			s.wantEntry(s.get(leaseKey), entry)
		}},
		{"a release ends the lease, and keeps what may not be settled", func(s *suite) {
			entry := s.mustClaim(ofRange(10))
			s.Advance(time.Second)
			set := release(entry, 20)
			s.mustSettle(set)
			got := s.get(leaseKey)
			s.wantApproximately(got, store.Settled(&set, &entry, s.Now()))
			s.wantRange(got, store.Range{Till: 20})
			s.wantTime("leaseUntil", got.LeaseUntil, s.Now())
		}},
		{"a claim after a release keeps what the release wrote", func(s *suite) {
			set := release(s.mustClaim(ofRange(10)), 20)
			s.mustSettle(set)
			for i := range int64(3) { // the claim of a store that released the lease itself, and others
				s.Advance(time.Second)
				res := s.claim(ofRange(30+i), withoutTakeOver)
				s.wantState(res, store.Claimed)
				if res.Stolen {
					s.Error("a released lease is reported as stolen")
				}
				s.wantRange(res.Entry, store.Range{End: 30 + i, Till: 20})
				s.wantEntry(s.get(leaseKey), res.Entry)
				set = release(res.Entry, 20)
				s.mustSettle(set)
			}
		}},
		{"a steal keeps what its owner may have begun", func(s *suite) {
			s.mustSettle(release(s.mustClaim(ofRange(10)), 0))
			s.mustClaim(ofRange(20))
			for _, want := range []store.Range{{End: 15, Till: 20}, {End: 40, Till: 20},
				{End: 41, Till: 40}} {
				entry := s.stolen(want.End)
				s.wantRange(entry, want)
				s.wantEntry(s.get(leaseKey), entry)
			}
		}},
		{"the token is that of the time, or greater than the token and the end of the lease before",
			func(s *suite) {
				first := s.mustClaim(ofRange(10))
				s.mustSettle(release(first, 0))
				second := s.mustClaim(ofRange(20))
				s.wantTime("token at the same time, as a time,", time.UnixMilli(second.Token),
					time.UnixMilli(first.Token+1))
				if released := s.get(leaseKey); second.Token <= first.Token {
					s.Errorf("token %d after %d, lease until %v", second.Token, first.Token,
						released.LeaseUntil)
				}
				s.mustSettle(release(second, 0))
				s.Advance(time.Minute)
				third := s.mustClaim(ofRange(30))
				s.wantTime("token, as a time,", time.UnixMilli(third.Token), s.Now())
				if stolen := s.stolen(40); stolen.Token <= third.LeaseUntil.UnixMilli() {
					s.Errorf("token %d after a lease until %d", stolen.Token, third.LeaseUntil.UnixMilli())
				} else {
					s.wantTime("token of a steal, as a time,", time.UnixMilli(stolen.Token), s.Now())
				}
			}},
		{"after its retention it is still a lease", func(s *suite) {
			s.mustSettle(release(s.mustClaim(ofRange(10)), 20))
			s.Advance(2 * retention)
			entry := s.mustClaim(ofRange(30))
			s.wantRange(entry, store.Range{End: 30, Till: 20})
			s.mustSettle(release(entry, 20))
			s.Advance(2 * retention)
			s.Sweep(s.T)
			next := s.mustClaim(ofRange(40))
			s.wantRange(next, store.Range{End: 40})
			if next.Token <= entry.Token {
				s.Errorf("token %d after %d", next.Token, entry.Token)
			}
		}},
		{"a claim whose reply was lost", func(s *suite) {
			s.lostClaimOfRange(10, store.Range{End: 10})
			s.mustSettle(release(s.get(leaseKey), 20))
			s.lostClaimOfRange(30, store.Range{End: 30, Till: 20})
		}},
		{"a release whose reply was lost", func(s *suite) {
			for end := int64(10); end < 30; end += 10 {
				s.lostSettlement(release(s.mustClaim(ofRange(end)), 0))
				s.Advance(time.Second)
			}
			s.wantRange(s.mustClaim(ofRange(40)), store.Range{End: 40})
		}},
		{"a release that is sent again later changes nothing", func(s *suite) {
			set := release(s.mustClaim(ofRange(10)), 20)
			s.mustSettle(set)
			before := s.Raw(s.T, leaseKey)
			s.Advance(time.Second)
			s.mustSettle(set)
			s.wantUnchanged(leaseKey, before)
			entry := s.mustClaim(ofRange(30))
			s.wantRange(entry, store.Range{End: 30, Till: 20})
			s.wantFenced(set)
		}},
		{"a release with a delay", func(s *suite) {
			set := release(s.mustClaim(ofRange(10)), 0)
			set.Delay = time.Minute
			s.mustSettle(set)
			res := s.claim(ofRange(20))
			s.wantState(res, store.ClaimInFlight)
			s.wantEntry(res.Entry, s.get(leaseKey))
			s.Advance(time.Minute + s.Tolerance)
			s.mustClaim(ofRange(20))
		}},
		{"an extension after the release changes nothing", func(s *suite) {
			entry := s.mustClaim(ofRange(10))
			s.do(entry, store.OpExtend)
			s.wantRange(s.get(leaseKey), store.Range{End: 10})
			s.mustSettle(release(entry, 0))
			s.wantFenced(settlement(entry, store.OpExtend))
			s.wantState(s.claim(ofRange(20), withoutTakeOver), store.Claimed)
		}},
		{"an extension writes the range", func(s *suite) {
			entry := s.mustClaim(ofRange(10))
			// at the time of the claim: the end of the lease stays as it is
			s.mustSettle(extension(entry, 30, lease))
			s.wantRange(s.get(leaseKey), store.Range{End: 30})
			entry = s.stolen(40)
			s.wantRange(entry, store.Range{End: 40, Till: 30})
			s.Advance(time.Second)
			set := extension(entry, 50, lease)
			set.Range.Till = 20
			s.mustSettle(set)
			s.wantTime("leaseUntil", s.get(leaseKey).LeaseUntil, s.Now().Add(lease))
			s.Advance(time.Second)
			plain := settlement(entry, store.OpExtend)
			plain.Lease = lease
			s.mustSettle(plain)
			s.wantRange(s.get(leaseKey), *set.Range)
			s.wantTime("leaseUntil", s.get(leaseKey).LeaseUntil, s.Now().Add(lease))
			set.Range.End = 99
			s.wantRange(s.get(leaseKey), store.Range{End: 50, Till: 20})
			s.wantRange(s.stolen(60), store.Range{End: 60, Till: 50})
			s.wantFenced(extension(entry, 70, lease))
		}},
		{"an extension that was overtaken writes no range", func(s *suite) {
			entry := s.mustClaim(ofRange(10))
			s.mustSettle(extension(entry, 30, 2*lease))
			before := s.Raw(s.T, leaseKey)
			s.mustSettle(extension(entry, 20, lease))
			s.mustSettle(extension(entry, 30, lease))
			s.wantFenced(extension(entry, 40, lease)) // its end is not there
			s.wantUnchanged(leaseKey, before)
		}},
		{"an extension with a range whose reply was lost", func(s *suite) {
			s.lostSettlement(extension(s.mustClaim(ofRange(10)), 30, lease))
			s.wantRange(s.get(leaseKey), store.Range{End: 30})
		}},
		{"a late owner does not release it", func(s *suite) {
			late := s.mustClaim(ofRange(10))
			s.stolen(20)
			s.wantFenced(release(late, 0))
		}},
		{"64 concurrent claims of a released lease", func(s *suite) {
			s.mustSettle(release(s.mustClaim(ofRange(10)), 0))
			s.race(ofRange(20))
		}},
		{"a claim of a lease that was deleted after its release", func(s *suite) {
			entry := s.mustClaim(ofRange(10))
			s.mustSettle(release(entry, 20))
			if err := s.admin().Delete(s.ctx(), leaseKey, entry.Token); err != nil {
				s.Fatal(err)
			}
			s.Advance(time.Millisecond)
			s.wantRange(s.mustClaim(ofRange(30)), store.Range{End: 30})
		}},
		{"between look and take, another claims it", func(s *suite) {
			s.mustSettle(release(s.mustClaim(ofRange(10)), 0))
			meanwhile := func() { s.mustClaim(ofRange(20)) }
			if s.Interpose == nil {
				meanwhile()
			} else {
				s.Interpose(meanwhile)
			}
			res := s.claim(ofRange(30))
			s.wantState(res, store.ClaimInFlight)
			s.wantEntry(res.Entry, s.get(leaseKey))
		}},
		{"leases and keys in one call", func(s *suite) { s.leasesAndKeys() }},
		{"a caller may change what it got and what it gave", func(s *suite) {
			entry := s.mustClaim(ofRange(10))
			set := release(entry, 20)
			entry.Range.End = 99
			s.get(leaseKey).Range.End = 99
			s.wantRange(s.get(leaseKey), store.Range{End: 10})
			s.mustSettle(set)
			set.Range.Till = 99
			entry = s.mustClaim(ofRange(30))
			s.wantRange(entry, store.Range{End: 30, Till: 20})
			set = release(entry, 20)
			set.Failure = &store.Failure{Code: store.CodeError, Message: "of the release"}
			s.mustSettle(set)
			set.Failure.Message = "changed"
			for end := range int64(2) {
				entry = s.mustClaim(ofRange(40 + end))
				if entry.Failure == nil || entry.Failure.Message != "of the release" {
					s.Errorf("failure %+v; want that of the release", entry.Failure)
				}
				s.wantEntry(s.get(leaseKey), entry)
				entry.Failure.Message = "changed"
				s.mustSettle(release(entry, 20))
			}
		}},
		{"List shows it only if it is asked for", func(s *suite) {
			s.mustClaim(ofRange(10))
			s.mustClaim()
			for want, q := range map[int]store.ListQuery{1: {}, 2: {Leases: true}} {
				n := 0
				for entry, err := range s.admin().List(s.ctx(), q) {
					if err != nil {
						s.Fatal(err)
					}
					s.wantEntry(entry, s.get(entry.Key))
					n++
				}
				if n != want {
					s.Errorf("%d entries for %+v; want %d", n, q, want)
				}
			}
		}},
	}
}

// lostClaimOfRange claims the lease, loses the reply, and checks that the retry gets its own claim.
func (s *suite) lostClaimOfRange(end int64, want store.Range) {
	s.Helper()
	s.LoseReply()
	res := s.claim(ofRange(end))
	s.wantState(res, store.Claimed)
	s.wantRange(res.Entry, want)
	s.wantEntry(res.Entry, s.get(leaseKey))
}

func (s *suite) leasesAndKeys() {
	const n = 30
	claim := func(round int64) []store.ClaimResult {
		var reqs []store.ClaimRequest
		for i := range n {
			reqs = append(reqs, s.request(ofRange(10*round), withKey("payments%payments-"+strconv.Itoa(i))),
				s.request(withKey("payments#"+strconv.Itoa(i))))
		}
		return s.Store.Claim(s.ctx(), reqs)
	}
	for round := range int64(4) { // a store may handle a batch by what it found in the one before
		s.Advance(time.Second)
		var ss []store.Settlement
		for i, res := range claim(round + 1) {
			if i%2 == 1 && round > 0 {
				s.wantState(res, store.ClaimCompleted)
				continue
			}
			s.wantState(res, store.Claimed)
			if i%2 == 1 {
				ss = append(ss, settlement(res.Entry, store.OpComplete))
				continue
			}
			if got := res.Entry.Range; got == nil || got.End != 10*(round+1) || got.Till != round {
				s.Errorf("round %d: %s has the range %+v", round, res.Entry.Key, got)
			}
			ss = append(ss, release(res.Entry, round+1))
		}
		if errs := s.Store.Settle(s.ctx(), ss); errs != nil {
			s.Fatal(errors.Join(errs...))
		}
	}
}
