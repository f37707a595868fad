package store_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
)

// The rules are functions of the request, the stored entry, and the time. These tests check their properties
// for all entries. Package storetest checks that stores keep them.

var moment = time.UnixMilli(1_790_000_000_123)

const skew = time.Second

// around returns a time near the moment, often one of the edges.
func around(t *rapid.T, name string) time.Time {
	edge := rapid.SampledFrom([]time.Duration{-time.Hour, -skew, 0, skew, lease, time.Hour}).Draw(t, name)
	return moment.Add(edge + time.Duration(rapid.IntRange(-2, 2).Draw(t, name+", ms"))*time.Millisecond)
}

func anyRecord(t *rapid.T) store.Entry {
	entry := store.Entry{
		Key: testKey, Status: rapid.SampledFrom(
			[]store.Status{store.StatusStarted, store.StatusCompleted, store.StatusFailed}).Draw(t, "status"),
		Token:      rapid.Int64Range(1, 4).Draw(t, "token"),
		Owner:      rapid.SampledFrom([]string{"a", "b"}).Draw(t, "owner"),
		LeaseUntil: around(t, "lease"), Attempts: rapid.IntRange(1, 9).Draw(t, "attempts"),
		Fingerprint: anyFingerprint(t, "stored fingerprint"),
		Source:      "before", CreatedAt: moment.Add(-2 * time.Hour), UpdatedAt: moment.Add(-time.Minute),
		Expiry: around(t, "expiry").Truncate(time.Second),
	}
	switch entry.Status {
	case store.StatusStarted:
		if rapid.Bool().Draw(t, "released") {
			entry.RetryAt = around(t, "retryAt")
		}
	case store.StatusCompleted:
		entry.Result = []byte("result")
	case store.StatusFailed:
	}
	if entry.Status != store.StatusCompleted && rapid.Bool().Draw(t, "failure") {
		entry.Failure = &store.Failure{Code: store.CodeError, Message: "before", At: moment.Add(-time.Minute)}
	}
	return entry
}

func anyFingerprint(t *rapid.T, name string) store.Fingerprint {
	return rapid.SampledFrom([]store.Fingerprint{{}, {1}, {1}, {2}}).Draw(t, name)
}

func anyClaim(t *rapid.T) store.ClaimRequest {
	return store.ClaimRequest{
		Key: testKey, Fingerprint: anyFingerprint(t, "fingerprint"),
		Owner:  rapid.SampledFrom([]string{"a", "c", "d"}).Draw(t, "claimant"),
		Source: "claimant's", Lease: lease, Retention: time.Hour,
		RedriveToken: rapid.Int64Range(0, 4).Draw(t, "redrive"),
		TakeOver:     rapid.Bool().Draw(t, "take over"),
	}
}

// Judge decides as the action Decide of the model.
func TestJudgeDecidesAsTheModelDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen, req := anyRecord(t), anyClaim(t)
		verdict, res := store.Judge(&req, &seen, moment, skew)

		started := seen.Status == store.StatusStarted
		released := started && !seen.RetryAt.IsZero()
		over := !moment.Before(seen.LeaseUntil.Add(skew))
		if released {
			over = !moment.Before(seen.RetryAt)
		}
		wantVerdict, wantState := store.VerdictReport, store.ClaimUnknown
		switch {
		case started && !released && seen.Owner == req.Owner:
			wantState = store.Claimed
		case !started && !moment.Before(seen.Expiry.Add(skew)):
			wantVerdict = store.VerdictTake
		case seen.Fingerprint != req.Fingerprint && !seen.Fingerprint.IsZero() && !req.Fingerprint.IsZero():
			wantVerdict = store.VerdictMismatch
		case seen.Status == store.StatusFailed && seen.Token == req.RedriveToken:
			wantVerdict = store.VerdictTake
		case seen.Status == store.StatusCompleted:
			wantState = store.ClaimCompleted
		case seen.Status == store.StatusFailed:
			wantState = store.ClaimFailed
		case !over:
			wantState = store.ClaimInFlight
		case !released && !req.TakeOver:
			wantState = store.ClaimLeaseOver
		default:
			wantVerdict = store.VerdictTake
		}
		if verdict != wantVerdict || res.State != wantState {
			t.Fatalf("%+v\non %+v:\nverdict %d, state %d; want %d, %d", req, seen, verdict, res.State,
				wantVerdict, wantState)
		}
		if res.Entry.Token != seen.Token || res.Entry.Owner != seen.Owner {
			t.Fatalf("the answer shows %+v; want what was seen", res.Entry)
		}
		if final := !started && moment.Before(seen.Expiry.Add(skew)); store.Final(&seen, moment,
			skew) != final {
			t.Fatalf("%+v is final: %t", seen, !final)
		}
		if res.ClaimableIn < 0 {
			t.Fatalf("claimable in %v", res.ClaimableIn)
		}
		until := seen.LeaseUntil.Add(skew)
		if released {
			until = seen.RetryAt
		}
		if wantState == store.ClaimInFlight && res.ClaimableIn != until.Sub(moment) {
			t.Fatalf("claimable in %v; want %v", res.ClaimableIn, until.Sub(moment))
		}
	})
}

func TestClaimCreatesOrContinuesAnEntry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen, req := anyRecord(t), anyClaim(t)
		before := seen
		next := store.Take(&req, &seen, moment)
		want := store.Entry{
			Key: testKey, Status: store.StatusStarted, Token: seen.Token + 1, Owner: req.Owner,
			LeaseUntil: moment.Add(lease),
			Attempts:   seen.Attempts + 1, Fingerprint: req.Fingerprint, Failure: seen.Failure,
			Source:    req.Source,
			CreatedAt: seen.CreatedAt, UpdatedAt: moment, Expiry: next.Expiry,
		}
		if seen.Status != store.StatusStarted {
			want.Attempts, want.Failure, want.CreatedAt = 1, nil, moment
		} else if req.Fingerprint.IsZero() {
			want.Fingerprint = seen.Fingerprint
		}
		if d := storetest.Diff(next, want); d != "" {
			t.Fatalf("taken %+v: %s", seen, d)
		}
		wantExpiry(t, next, next.LeaseUntil)
		if d := storetest.Diff(seen, before); d != "" {
			t.Fatalf("Take changed what was seen: %s", d)
		}
		if store.Stolen(&seen) != (seen.Status == store.StatusStarted && seen.RetryAt.IsZero()) {
			t.Fatalf("stolen %t from %+v", store.Stolen(&seen), seen)
		}

		fresh := store.Fresh(&req, moment)
		want.Token, want.Attempts, want.Failure, want.CreatedAt, want.Expiry = moment.UnixMilli(), 1, nil,
			moment, next.Expiry
		want.Fingerprint = req.Fingerprint
		if d := storetest.Diff(fresh, want); d != "" {
			t.Fatalf("fresh: %s", d)
		}
	})
}

func TestSettlementHoldsOnceAndIsRecognised(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen := anyRecord(t)
		set := store.Settlement{
			Op: rapid.SampledFrom([]store.SettleOp{store.OpComplete, store.OpFail, store.OpRelease,
				store.OpExtend}).Draw(t, "op"),
			Key: testKey, Token: rapid.Int64Range(1, 4).Draw(t, "its token"),
			Owner:     rapid.SampledFrom([]string{"a", "b"}).Draw(t, "its owner"),
			Retention: time.Hour, Result: []byte("mine"), Lease: lease,
			Delay:  time.Duration(rapid.IntRange(0, 2).Draw(t, "delay")) * time.Hour,
			Refund: rapid.Bool().Draw(t, "refund"),
		}
		if rapid.Bool().Draw(t, "with a failure") {
			set.Failure = &store.Failure{Code: store.CodePanic, Message: "mine"}
		}
		if rapid.Bool().Draw(t, "mine") { // few random settlements are
			set.Token, set.Owner = seen.Token, seen.Owner
		}
		mine := seen.Token == set.Token && seen.Owner == set.Owner
		holds := mine && seen.Status == store.StatusStarted && seen.RetryAt.IsZero()
		if store.Holds(&set, &seen) != holds {
			t.Fatalf("%+v holds %+v: %t", set, seen, !holds)
		}
		if !holds {
			landed := map[store.SettleOp]bool{
				store.OpComplete: seen.Status == store.StatusCompleted,
				store.OpFail:     seen.Status == store.StatusFailed,
				store.OpRelease:  seen.Status == store.StatusStarted,
			}[set.Op]
			if store.OwnSettlement(&set, &seen) != (mine && landed) {
				t.Fatalf("%+v finds itself in %+v: %t", set, seen, !mine || !landed)
			}
			return
		}
		next := store.Settled(&set, &seen, moment)
		wantSettled(t, &set, &seen, next)
		if next.Token != seen.Token || next.Owner != seen.Owner || next.Fingerprint != seen.Fingerprint {
			t.Fatalf("%+v made %+v of %+v", set, next, seen)
		}
		if !store.OwnSettlement(&set, &next) {
			t.Fatalf("%+v does not find itself in %+v", set, next)
		}
		if store.Holds(&set, &next) != (set.Op == store.OpExtend) {
			t.Fatalf("%+v can be made again on %+v", set, next)
		}
		req := anyClaim(t)
		if taken := store.Take(&req, &next, moment); store.Holds(&set, &taken) ||
			store.OwnSettlement(&set, &taken) {
			t.Fatalf("%+v holds %+v, which was taken", set, taken)
		}
	})
}

func wantSettled(t *rapid.T, set *store.Settlement, seen *store.Entry, next store.Entry) {
	want := *seen
	want.UpdatedAt, want.Expiry = moment, next.Expiry
	failure := seen.Failure
	if set.Failure != nil {
		failure = &store.Failure{Code: set.Failure.Code, Message: set.Failure.Message, At: moment}
	}
	switch set.Op {
	case store.OpComplete:
		want.Status, want.Result, want.Failure = store.StatusCompleted, set.Result, nil
		wantExpiry(t, next, moment)
	case store.OpFail:
		want.Status, want.Failure = store.StatusFailed, failure
		wantExpiry(t, next, moment)
	case store.OpRelease:
		want.RetryAt, want.Failure = moment.Add(set.Delay), failure
		if set.Refund {
			want.Attempts--
		}
		wantExpiry(t, next, next.RetryAt)
	case store.OpExtend:
		if seen.LeaseUntil.After(moment.Add(lease)) {
			want = *seen
		} else {
			want.LeaseUntil = moment.Add(lease)
			wantExpiry(t, next, next.LeaseUntil)
		}
	}
	if d := storetest.Diff(next, want); d != "" {
		t.Fatalf("%+v on %+v: %s", *set, *seen, d)
	}
}

// wantExpiry checks rule 9: at least the retention after until, in whole seconds, and less than one more.
func wantExpiry(t *rapid.T, entry store.Entry, until time.Time) {
	if over := entry.Expiry.Sub(until.Add(time.Hour)); over < 0 || over >= time.Second ||
		entry.Expiry.Nanosecond() != 0 {
		t.Fatalf("expiry %v of %v and an hour", entry.Expiry, until)
	}
}

// A clock has nanoseconds. A lease protects its key to the last one.
func TestLeaseEndsToTheNanosecond(t *testing.T) {
	seen := store.Entry{Status: store.StatusStarted, Owner: "a", LeaseUntil: moment}
	req := store.ClaimRequest{Owner: "b"}
	for before, want := range map[time.Duration]store.ClaimState{1: store.ClaimInFlight,
		0: store.ClaimLeaseOver} {
		_, res := store.Judge(&req, &seen, moment.Add(skew-before), skew)
		if res.State != want || res.ClaimableIn != before {
			t.Errorf("%v before the end of a lease: state %d, claimable in %v; want %d", before, res.State,
				res.ClaimableIn, want)
		}
	}
}

// Stores keep milliseconds. An entry that is returned has the times of the one that is stored.
func TestEntriesHaveWholeMilliseconds(t *testing.T) {
	const part = 456_789 * time.Nanosecond
	now, failure := moment.Add(part), &store.Failure{Code: store.CodeError}
	req := store.ClaimRequest{Owner: "a", Lease: lease + part, Retention: time.Hour}
	want := func(what string, got, want time.Time) {
		t.Helper()
		if !got.Equal(want) {
			t.Errorf("%s is %v; want %v", what, got, want)
		}
	}
	fresh := store.Fresh(&req, now)
	over := store.Entry{Status: store.StatusCompleted}
	for what, entry := range map[string]store.Entry{"fresh": fresh, "taken": store.Take(&req, &over, now)} {
		want(what+": the lease", entry.LeaseUntil, moment.Add(lease))
		want(what+": the creation", entry.CreatedAt, moment)
		want(what+": the update", entry.UpdatedAt, moment)
	}
	settled := func(s store.Settlement) store.Entry {
		s.Failure, s.Retention = failure, time.Hour
		return store.Settled(&s, &fresh, now)
	}
	released := settled(store.Settlement{Op: store.OpRelease, Delay: time.Minute + part})
	want("the delay of a release", released.RetryAt, moment.Add(time.Minute))
	want("the update of a release", released.UpdatedAt, moment)
	want("an extended lease", settled(store.Settlement{Op: store.OpExtend, Lease: 2*lease + part}).LeaseUntil,
		moment.Add(2*lease))
	want("a failure", store.FailureAt(failure, nil, now).At, moment)
}

// The lease of a settlement is cut to milliseconds before it is compared with one that is stored.
func TestExtensionIsOutdatedToTheMillisecond(t *testing.T) {
	const part = 600 * time.Microsecond
	set := store.Settlement{Op: store.OpExtend, Lease: lease + part}
	for later, want := range map[time.Duration]bool{0: false, time.Millisecond: true} {
		seen := store.Entry{Status: store.StatusStarted, LeaseUntil: moment.Add(lease + later)}
		if store.Outdated(&set, &seen, moment.Add(part)) != want {
			t.Errorf("a lease that ends %v later than that of an extension: outdated: %t", later, !want)
		}
	}
}

func TestUnknownSettlementIsNotRecognised(t *testing.T) {
	seen := store.Entry{Status: store.StatusCompleted, Token: 1, Owner: "a"}
	if set := (store.Settlement{Op: store.OpExtend + 100, Token: 1, Owner: "a"}); store.OwnSettlement(&set,
		&seen) {
		t.Errorf("%+v finds itself in %+v", set, seen)
	}
}

// A key is not claimed more than once a millisecond over the length of a retention.
func TestFreshTokenIsGreaterThanEarlierTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		takes := rapid.IntRange(0, 1000).Draw(t, "takes")
		req := anyClaim(t)
		entry := store.Fresh(&req, moment)
		for range takes {
			entry = store.Take(&req, &entry, moment)
		}
		if again := store.Fresh(&req, entry.Expiry); again.Token <= entry.Token {
			t.Fatalf("token %d after %d", again.Token, entry.Token)
		}
	})
}
