package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

func onlyTheOwner() []test {
	late := func(name string, meanwhile func(s *suite, entry store.Entry)) test {
		return test{"a late owner can do nothing after " + name, func(s *suite) {
			entry := s.mustClaim()
			meanwhile(s, entry)
			for _, op := range allOps() {
				s.wantFenced(settlement(entry, op))
			}
		}}
	}
	steal := func(s *suite) store.Entry {
		s.Advance(lease + s.Skew + time.Millisecond)
		return s.mustClaim()
	}
	return []test{
		late("a steal", func(s *suite, _ store.Entry) { steal(s) }),
		late("a steal and the thief's completion",
			func(s *suite, _ store.Entry) { s.do(steal(s), store.OpComplete) }),
		late("a steal and the thief's failure",
			func(s *suite, _ store.Entry) { s.do(steal(s), store.OpFail) }),
		late("a steal and the thief's release",
			func(s *suite, _ store.Entry) { s.do(steal(s), store.OpRelease) }),
		late("its key was deleted", func(s *suite, entry store.Entry) {
			if err := s.admin().Delete(s.ctx(), key, entry.Token); err != nil {
				s.Fatal(err)
			}
		}),
		late("its key was deleted and claimed anew", func(s *suite, entry store.Entry) {
			if err := s.admin().Delete(s.ctx(), key, entry.Token); err != nil {
				s.Fatal(err)
			}
			s.Advance(time.Millisecond)
			s.mustClaim()
		}),
		{"the right token of another owner is refused", func(s *suite) {
			entry := s.mustClaim()
			entry.Owner = "another owner"
			for _, op := range allOps() {
				s.wantFenced(settlement(entry, op))
			}
		}},
		{"the right owner with another token is refused", func(s *suite) {
			entry := s.mustClaim()
			for _, token := range []int64{entry.Token - 1, entry.Token + 1} {
				entry.Token = token
				for _, op := range allOps() {
					s.wantFenced(settlement(entry, op))
				}
			}
		}},
		{"a settlement like the one before, but by another owner or with another token, is refused",
			func(s *suite) {
				for _, op := range allOps() {
					entry := s.mustClaim(withKey(op.String()))
					s.do(entry, op)
					other := entry
					other.Owner = "another owner"
					s.wantFenced(settlement(other, op))
					other = entry
					other.Token++
					s.wantFenced(settlement(other, op))
				}
			}},
		{"an owner that has released can't do anything else", func(s *suite) {
			entry := s.mustClaim()
			s.do(entry, store.OpRelease)
			for _, op := range []store.SettleOp{store.OpComplete, store.OpFail, store.OpExtend} {
				s.wantFenced(settlement(entry, op))
			}
		}},
		{"an owner that has completed can't do anything else",
			func(s *suite) { s.onlyOnce(store.OpComplete) }},
		{"an owner that has failed can't do anything else", func(s *suite) { s.onlyOnce(store.OpFail) }},
		{"a lease that is over but not taken still settles", func(s *suite) {
			for _, op := range allOps() {
				entry := s.mustClaim(withKey(op.String()))
				s.Advance(10 * lease)
				set := settlement(entry, op)
				s.mustSettle(set)
				s.wantApproximately(s.get(entry.Key), store.Settled(&set, &entry, s.Now()))
			}
		}},
		{"a batch settles key by key, in order", func(s *suite) { s.settleBatch() }},
	}
}

func (s *suite) onlyOnce(first store.SettleOp) {
	s.Helper()
	entry := s.mustClaim()
	s.do(entry, first)
	for _, op := range allOps() {
		if op != first {
			s.wantFenced(settlement(entry, op))
		}
	}
}

func (s *suite) settleBatch() {
	lost := s.mustClaim(withKey("lost"))
	s.Advance(lease + s.Skew + time.Millisecond)
	s.mustClaim(withKey("lost"))
	var ss []store.Settlement
	for _, op := range allOps() {
		ss = append(ss, settlement(s.mustClaim(withKey(op.String())), op))
	}
	ss = slices.Insert(ss, 2, settlement(lost, store.OpComplete))
	errs := s.Store.Settle(s.ctx(), ss)
	if len(errs) != len(ss) {
		s.Fatalf("%d errors for %d settlements, one of which is fenced", len(errs), len(ss))
	}
	for i, err := range errs {
		if fenced := i == 2; (err != nil) != fenced {
			s.Errorf("%s of %q: %v", ss[i].Op, ss[i].Key, err)
		}
	}
	for k, want := range map[string]store.Status{
		"complete": store.StatusCompleted, "fail": store.StatusFailed, "release": store.StatusStarted,
		"extend": store.StatusStarted,
	} {
		if got := s.get(k); got.Status != want || got.Released() != (k == "release") {
			s.Errorf("%s: %s, released %t", k, got.Status, got.Released())
		}
	}
}

func finalStates() []test {
	final := func(op store.SettleOp, state store.ClaimState) test {
		return test{op.String(), func(s *suite) {
			entry := s.mustClaim()
			s.do(entry, op)
			before := s.Raw(s.T, key)
			for _, d := range []time.Duration{0, lease + s.Skew + time.Second,
				retention - lease - s.Skew - 2*time.Second} {
				s.Advance(d)
				res := s.claim()
				s.wantState(res, state)
				s.wantEntry(res.Entry, s.get(key))
			}
			s.Advance(s.get(key).Expiry.Add(s.Skew - time.Millisecond - s.Tolerance).Sub(s.Now()))
			s.wantState(s.claim(), state)
			s.wantUnchanged(key, before)
			s.Advance(time.Millisecond + s.Tolerance)
			s.mustClaim()
		}}
	}
	return []test{
		final(store.OpComplete, store.ClaimCompleted),
		final(store.OpFail, store.ClaimFailed),
		{"a duplicate gets the stored result", func(s *suite) {
			entry := s.mustClaim()
			set := settlement(entry, store.OpComplete)
			set.Result = []byte{0, 1, 2, 0xFF, '"', '\n'}
			s.mustSettle(set)
			res := s.claim()
			s.wantState(res, store.ClaimCompleted)
			if got, err := res.Entry.StoredResult(); err != nil || string(got) != string(set.Result) {
				s.Errorf("result %q, error %v; want %q", got, err, set.Result)
			}
		}},
		{"a duplicate gets the stored failure", func(s *suite) {
			s.do(s.mustClaim(), store.OpFail)
			res := s.claim()
			s.wantState(res, store.ClaimFailed)
			f := res.Entry.Failure
			if f == nil || f.Code != store.CodeError || f.Message != "failure of owner-1" {
				s.Fatalf("failure %v", f)
			}
			s.wantTime("the failure's time", f.At, s.Now())
		}},
		{"completion deletes the previous failure", func(s *suite) {
			s.do(s.mustClaim(), store.OpRelease)
			entry := s.mustClaim()
			if entry.Failure == nil {
				s.Error("the claim does not show the last failure")
			}
			s.do(entry, store.OpComplete)
			if f := s.get(key).Failure; f != nil {
				s.Errorf("failure %v", f)
			}
		}},
	}
}

func lostReplies() []test {
	tests := []test{
		{"a fresh claim", func(s *suite) { s.lostClaim(1) }},
		{"a claim of a released key", func(s *suite) {
			s.do(s.mustClaim(), store.OpRelease)
			s.lostClaim(2)
		}},
		{"a steal", func(s *suite) {
			s.mustClaim()
			s.Advance(lease + s.Skew + time.Millisecond)
			s.lostClaim(2)
		}},
		{"a claim of an expired key", func(s *suite) {
			s.do(s.mustClaim(), store.OpComplete)
			s.Advance(retention + s.Skew + time.Second)
			s.lostClaim(1)
		}},
		{"a claim retried after an extension keeps the extended lease", func(s *suite) {
			req := s.request()
			s.wantState(s.claimAs(req), store.Claimed)
			entry := s.get(key)
			s.do(entry, store.OpExtend)
			s.Advance(time.Second)
			res := s.claimAs(req)
			s.wantState(res, store.Claimed)
			s.wantEntry(res.Entry, s.get(key))
			s.wantTime("the lease", res.Entry.LeaseUntil, s.Now().Add(2*lease-time.Second))
		}},
		{"a claim retried after its lease's end is still its own and not charged again", func(s *suite) {
			req := s.request()
			first := s.claimAs(req).Entry
			s.Advance(lease + s.Skew + time.Millisecond)
			before := s.Raw(s.T, key)
			res := s.claimAs(req)
			s.wantState(res, store.Claimed)
			s.wantEntry(res.Entry, first)
			s.wantUnchanged(key, before)
		}},
		{"claims without an owner do not match each other", func(s *suite) {
			nameless := s.request(func(r *store.ClaimRequest) { r.Owner = "" })
			s.wantState(s.claimAs(nameless), store.Claimed)
			s.wantState(s.claimAs(nameless), store.ClaimInFlight)
			s.Advance(lease + s.Skew + time.Millisecond)
			res := s.claimAs(nameless)
			s.wantState(res, store.Claimed)
			if !res.Stolen {
				s.Error("the second owner without a name did not steal the key of the first")
			}
		}},
		{"a claim retried after its completion gets the result", func(s *suite) {
			req := s.request()
			s.do(s.claimAs(req).Entry, store.OpComplete)
			s.wantState(s.claimAs(req), store.ClaimCompleted)
		}},
		{"a claim retried after its failure gets the failure", func(s *suite) {
			req := s.request()
			s.do(s.claimAs(req).Entry, store.OpFail)
			s.wantState(s.claimAs(req), store.ClaimFailed)
		}},
		{"a claim retried after its release is a new claim", func(s *suite) {
			req := s.request()
			first := s.claimAs(req).Entry
			s.do(first, store.OpRelease)
			res := s.claimAs(req)
			s.wantState(res, store.Claimed)
			if res.Entry.Token != first.Token+1 || res.Entry.Attempts != 2 {
				s.Errorf("token %d, %d attempts; want %d and 2", res.Entry.Token, res.Entry.Attempts,
					first.Token+1)
			}
		}},
		{"a settlement retried after another owner's claim is fenced", func(s *suite) {
			entry := s.mustClaim()
			s.do(entry, store.OpRelease)
			s.mustClaim()
			s.wantFenced(settlement(entry, store.OpRelease))
		}},
	}
	for _, op := range allOps() {
		tests = append(tests, test{op.String(),
			func(s *suite) { s.lostSettlement(settlement(s.mustClaim(), op)) }})
	}
	return append(tests, test{"release with a refund", func(s *suite) {
		set := settlement(s.mustClaim(), store.OpRelease)
		set.Refund = true
		s.lostSettlement(set)
		if got := s.get(key).Attempts; got != 0 {
			s.Errorf("%d attempts; want 0: the refund counts once", got)
		}
	}})
}

// lostClaim claims the key, loses the reply, and checks that the retry gets its own claim, charged once.
func (s *suite) lostClaim(attempts int) {
	s.Helper()
	s.LoseReply()
	res := s.claim()
	s.wantState(res, store.Claimed)
	s.wantEntry(res.Entry, s.get(key))
	if res.Entry.Attempts != attempts {
		s.Errorf("%d attempts; want %d: a lost reply counts once", res.Entry.Attempts, attempts)
	}
	s.do(res.Entry, store.OpComplete)
}

// lostSettlement settles, loses the reply, and checks that the retry succeeds and that the entry is that of
// one settlement.
func (s *suite) lostSettlement(set store.Settlement) {
	s.Helper()
	before := s.get(set.Key)
	s.LoseReply()
	s.mustSettle(set)
	s.wantApproximately(s.get(set.Key), store.Settled(&set, &before, s.Now()))
}

// wantApproximately compares entries, with times within the tolerance.
func (s *suite) wantApproximately(got, want store.Entry) {
	s.Helper()
	if want.Held() {
		s.wantTime("leaseUntil", got.LeaseUntil, want.LeaseUntil)
	}
	s.wantTime("retryAt", got.RetryAt, want.RetryAt)
	s.wantTime("createdAt", got.CreatedAt, want.CreatedAt)
	s.wantTime("updatedAt", got.UpdatedAt, want.UpdatedAt)
	s.wantTime("expiryTimestamp", got.Expiry, want.Expiry)
	got.LeaseUntil, got.RetryAt, got.Expiry = want.LeaseUntil, want.RetryAt, want.Expiry
	got.CreatedAt, got.UpdatedAt = want.CreatedAt, want.UpdatedAt
	if got.Failure != nil && want.Failure != nil {
		s.wantTime("failure.at", got.Failure.At, want.Failure.At)
		got.Failure.At = want.Failure.At
	}
	s.wantEntry(got, want)
}

func entries() []test {
	roundTrip := func(name, key string) test {
		return test{name, func(s *suite) {
			req := s.request(withKey(key))
			now := s.Now()
			res := s.claimAs(req)
			s.wantState(res, store.Claimed)
			want := store.Fresh(&req, now)
			want.Token = res.Entry.Token
			s.wantApproximately(s.get(key), want)
			s.do(res.Entry, store.OpComplete)
			s.wantState(s.claim(withKey(key)), store.ClaimCompleted)
		}}
	}
	return []test{
		roundTrip("a plain key", key),
		roundTrip("the longest key", strings.Repeat("k", store.MaxKeyBytes)),
		roundTrip("a key in several scripts", "платёж-支払い-💶"),
		roundTrip("a key of control characters, quotes and expressions",
			"a\x00b\n'\"`:v #n; DROP TABLE x {hash}"),
		{"the times of a key", func(s *suite) {
			for _, op := range allOps() {
				claimed := s.Now()
				entry := s.mustClaim(withKey(op.String()))
				s.Advance(5 * time.Second)
				s.do(entry, op)
				got := s.get(entry.Key)
				s.wantTime("after "+op.String()+": createdAt", got.CreatedAt, claimed)
				s.wantTime("after "+op.String()+": updatedAt", got.UpdatedAt, s.Now())
			}
			s.Advance(2*lease + s.Skew + time.Millisecond)
			stolen := s.mustClaim(withKey("extend"))
			s.wantTime("after a steal: updatedAt", stolen.UpdatedAt, s.Now())
			if since := stolen.UpdatedAt.Sub(stolen.CreatedAt); since < 2*lease {
				s.Errorf("after a steal: createdAt only %v ago", since)
			}
		}},
		{"a large result", func(s *suite) {
			set := settlement(s.mustClaim(), store.OpComplete)
			set.Result = []byte(strings.Repeat("\x00\xFFr", store.MaxResult/3))
			s.mustSettle(set)
			if got := s.claim().Entry.Result; string(got) != string(set.Result) {
				s.Errorf("%d bytes came back; want the %d that were stored", len(got), len(set.Result))
			}
		}},
		{"no result, an empty result and an omitted one", func(s *suite) {
			for k, omitted := range map[string]int{"none": 0, "too large": 1 << 20,
				"unencodable": store.ResultUnencodable} {
				set := settlement(s.mustClaim(withKey(k)), store.OpComplete)
				set.Result, set.ResultOmitted = nil, omitted
				s.mustSettle(set)
				entry := s.claim(withKey(k)).Entry
				if entry.ResultOmitted != omitted || len(entry.Result) != 0 {
					s.Errorf("%s: omitted %d, result %q; want %d and none", k, entry.ResultOmitted,
						entry.Result, omitted)
				}
			}
		}},
		{"the longest failure message", func(s *suite) {
			set := settlement(s.mustClaim(), store.OpFail)
			set.Failure.Message = strings.Repeat("ж", store.MaxFailureMessage/2)
			s.mustSettle(set)
			if got := s.claim().Entry.Failure.Message; got != set.Failure.Message {
				s.Errorf("message of %d bytes; want %d", len(got), len(set.Failure.Message))
			}
		}},
		{"a caller may change what it got and what it gave", func(s *suite) {
			result := []byte("result")
			set := settlement(s.mustClaim(), store.OpComplete)
			set.Result = result
			s.mustSettle(set)
			result[0] = 'X'
			before := s.Raw(s.T, key)
			s.claim().Entry.Result[1] = 'X'
			s.get(key).Result[2] = 'X'
			s.wantUnchanged(key, before)
			if again := s.claim().Entry.Result; string(again) != "result" {
				s.Errorf("the stored result is %q now", again)
			}
		}},
		{"a caller may change the failure that it got and gave", func(s *suite) {
			set := settlement(s.mustClaim(), store.OpFail)
			s.mustSettle(set)
			before := s.Raw(s.T, key)
			set.Failure.Message = "changed"
			s.claim().Entry.Failure.Message = "changed"
			s.get(key).Failure.Message = "changed"
			s.wantUnchanged(key, before)
		}},
		{"an empty batch", func(s *suite) {
			if got := s.Store.Claim(s.ctx(), nil); len(got) != 0 {
				s.Errorf("%d results of no claims", len(got))
			}
			if got := s.Store.Settle(s.ctx(), nil); len(got) != 0 {
				s.Errorf("%d errors of no settlements", len(got))
			}
		}},
	}
}
