package idem_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/storetest"
)

// The rules are functions of what was asked, what was seen, and the time. Their properties are checked here over what can
// be seen at all; that stores keep them is for package storetest.

var moment = time.UnixMilli(1_790_000_000_123)

const skew = time.Second

// around is a time near the moment, often at one of the edges.
func around(t *rapid.T, name string) time.Time {
	edge := rapid.SampledFrom([]time.Duration{-time.Hour, -skew, 0, skew, lease, time.Hour}).Draw(t, name)
	return moment.Add(edge + time.Duration(rapid.IntRange(-2, 2).Draw(t, name+", ms"))*time.Millisecond)
}

func anyRecord(t *rapid.T) idem.Record {
	rec := idem.Record{
		Key: testKey, Status: rapid.SampledFrom([]idem.Status{idem.StatusStarted, idem.StatusCompleted, idem.StatusFailed}).Draw(t, "status"),
		Version: rapid.Int64Range(1, 4).Draw(t, "version"), Owner: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "owner"),
		LeaseUntil: around(t, "lease"), Attempts: rapid.IntRange(1, 9).Draw(t, "attempts"), Fingerprint: anyFingerprint(t, "stored fingerprint"),
		Source: "before", CreatedAt: moment.Add(-2 * time.Hour), UpdatedAt: moment.Add(-time.Minute), Expiry: around(t, "expiry").Truncate(time.Second),
	}
	switch rec.Status {
	case idem.StatusStarted:
		if rapid.Bool().Draw(t, "released") {
			rec.RetryAt = around(t, "retryAt")
		}
	case idem.StatusCompleted:
		rec.Result = []byte("result")
	case idem.StatusFailed:
	}
	if rec.Status != idem.StatusCompleted && rapid.Bool().Draw(t, "failure") {
		rec.Failure = &idem.Failure{Code: idem.CodeError, Message: "before", At: moment.Add(-time.Minute)}
	}
	return rec
}

func anyFingerprint(t *rapid.T, name string) idem.Fingerprint {
	return rapid.SampledFrom([]idem.Fingerprint{{}, {1}, {1}, {2}}).Draw(t, name)
}

func anyClaim(t *rapid.T) idem.ClaimRequest {
	return idem.ClaimRequest{
		Key: testKey, Fingerprint: anyFingerprint(t, "fingerprint"), Owner: rapid.SampledFrom([]string{"a", "c", "d"}).Draw(t, "claimant"),
		Source: "claimant's", Lease: lease, Retention: time.Hour, Redrive: rapid.Int64Range(0, 4).Draw(t, "redrive"),
		TakeOver: rapid.Bool().Draw(t, "take over"),
	}
}

// What Judge says is what the action Decide of the model does.
func TestJudgeDecidesAsTheModelDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen, req := anyRecord(t), anyClaim(t)
		verdict, res := idem.Judge(&req, &seen, moment, skew)

		started := seen.Status == idem.StatusStarted
		released := started && !seen.RetryAt.IsZero()
		over := !moment.Before(seen.LeaseUntil.Add(skew))
		if released {
			over = !moment.Before(seen.RetryAt)
		}
		wantVerdict, wantState := idem.VerdictReport, idem.ClaimUnknown
		switch {
		case started && !released && seen.Owner == req.Owner:
			wantState = idem.Claimed
		case !started && !moment.Before(seen.Expiry.Add(skew)):
			wantVerdict = idem.VerdictTake
		case seen.Fingerprint != req.Fingerprint && !seen.Fingerprint.IsZero() && !req.Fingerprint.IsZero():
			wantVerdict = idem.VerdictMismatch
		case seen.Status == idem.StatusFailed && seen.Version == req.Redrive:
			wantVerdict = idem.VerdictTake
		case seen.Status == idem.StatusCompleted:
			wantState = idem.ClaimCompleted
		case seen.Status == idem.StatusFailed:
			wantState = idem.ClaimFailed
		case !over:
			wantState = idem.ClaimInFlight
		case !released && !req.TakeOver:
			wantState = idem.ClaimLeaseOver
		default:
			wantVerdict = idem.VerdictTake
		}
		if verdict != wantVerdict || res.State != wantState {
			t.Fatalf("%+v\non %+v:\nverdict %d, state %d; want %d, %d", req, seen, verdict, res.State, wantVerdict, wantState)
		}
		if res.Record.Version != seen.Version || res.Record.Owner != seen.Owner {
			t.Fatalf("the answer shows %+v; want what was seen", res.Record)
		}
		until := seen.LeaseUntil.Add(skew)
		if released {
			until = seen.RetryAt
		}
		if wantState == idem.ClaimInFlight && res.ClaimableIn != until.Sub(moment) {
			t.Fatalf("claimable in %v; want %v", res.ClaimableIn, until.Sub(moment))
		}
	})
}

func TestAClaimBeginsOrContinuesAKeysLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen, req := anyRecord(t), anyClaim(t)
		before := seen
		next := idem.Take(&req, &seen, moment)
		want := idem.Record{
			Key: testKey, Status: idem.StatusStarted, Version: seen.Version + 1, Owner: req.Owner, LeaseUntil: moment.Add(lease),
			Attempts: seen.Attempts + 1, Fingerprint: req.Fingerprint, Failure: seen.Failure, Source: req.Source,
			CreatedAt: seen.CreatedAt, UpdatedAt: moment, Expiry: next.Expiry,
		}
		if seen.Status != idem.StatusStarted {
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
		if idem.Stolen(&seen) != (seen.Status == idem.StatusStarted && seen.RetryAt.IsZero()) {
			t.Fatalf("stolen %t from %+v", idem.Stolen(&seen), seen)
		}

		fresh := idem.Fresh(&req, moment)
		want.Version, want.Attempts, want.Failure, want.CreatedAt, want.Expiry = moment.UnixMilli(), 1, nil, moment, next.Expiry
		want.Fingerprint = req.Fingerprint
		if d := storetest.Diff(fresh, want); d != "" {
			t.Fatalf("fresh: %s", d)
		}
	})
}

func TestASettlementHoldsOnceAndKnowsItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen := anyRecord(t)
		set := idem.Settlement{
			Op:  rapid.SampledFrom([]idem.SettleOp{idem.OpComplete, idem.OpFail, idem.OpRelease, idem.OpExtend}).Draw(t, "op"),
			Key: testKey, Version: rapid.Int64Range(1, 4).Draw(t, "its version"), Owner: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "its owner"),
			Retention: time.Hour, Result: []byte("mine"), Lease: lease, Delay: time.Duration(rapid.IntRange(0, 2).Draw(t, "delay")) * time.Hour,
			Refund: rapid.Bool().Draw(t, "refund"),
		}
		if rapid.Bool().Draw(t, "with a failure") {
			set.Failure = &idem.Failure{Code: idem.CodePanic, Message: "mine"}
		}
		mine := seen.Version == set.Version && seen.Owner == set.Owner
		holds := mine && seen.Status == idem.StatusStarted && seen.RetryAt.IsZero()
		if idem.Holds(&set, &seen) != holds {
			t.Fatalf("%+v holds %+v: %t", set, seen, !holds)
		}
		if !holds {
			landed := map[idem.SettleOp]bool{
				idem.OpComplete: seen.Status == idem.StatusCompleted, idem.OpFail: seen.Status == idem.StatusFailed,
				idem.OpRelease: seen.Status == idem.StatusStarted,
			}[set.Op]
			if idem.OwnSettlement(&set, &seen) != (mine && landed) {
				t.Fatalf("%+v finds itself in %+v: %t", set, seen, !mine || !landed)
			}
			return
		}
		next := idem.Settled(&set, &seen, moment)
		wantSettled(t, &set, &seen, next)
		if next.Version != seen.Version || next.Owner != seen.Owner || next.Fingerprint != seen.Fingerprint {
			t.Fatalf("%+v made %+v of %+v", set, next, seen)
		}
		if !idem.OwnSettlement(&set, &next) {
			t.Fatalf("%+v does not find itself in %+v", set, next)
		}
		if idem.Holds(&set, &next) != (set.Op == idem.OpExtend) {
			t.Fatalf("%+v can be made again on %+v", set, next)
		}
		req := anyClaim(t)
		if taken := idem.Take(&req, &next, moment); idem.Holds(&set, &taken) || idem.OwnSettlement(&set, &taken) {
			t.Fatalf("%+v holds %+v, which was taken", set, taken)
		}
	})
}

func wantSettled(t *rapid.T, set *idem.Settlement, seen *idem.Record, next idem.Record) {
	want := *seen
	want.UpdatedAt, want.Expiry = moment, next.Expiry
	failure := seen.Failure
	if set.Failure != nil {
		failure = &idem.Failure{Code: set.Failure.Code, Message: set.Failure.Message, At: moment}
	}
	switch set.Op {
	case idem.OpComplete:
		want.Status, want.Result, want.Failure = idem.StatusCompleted, set.Result, nil
		wantExpiry(t, next, moment)
	case idem.OpFail:
		want.Status, want.Failure = idem.StatusFailed, failure
		wantExpiry(t, next, moment)
	case idem.OpRelease:
		want.RetryAt, want.Failure = moment.Add(set.Delay), failure
		if set.Refund {
			want.Attempts--
		}
		wantExpiry(t, next, next.RetryAt)
	case idem.OpExtend:
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
func wantExpiry(t *rapid.T, rec idem.Record, until time.Time) {
	if over := rec.Expiry.Sub(until.Add(time.Hour)); over < 0 || over >= time.Second || rec.Expiry.Nanosecond() != 0 {
		t.Fatalf("expiry %v of %v and an hour", rec.Expiry, until)
	}
}

// No token that TTL and the clock can lead to is given out twice: a fresh one is greater than those of a key that was
// deleted, as no key is taken more than once a millisecond over the length of a retention.
func TestAFreshTokenIsGreaterThanThoseBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		takes := rapid.IntRange(0, 1000).Draw(t, "takes")
		req := anyClaim(t)
		rec := idem.Fresh(&req, moment)
		for range takes {
			rec = idem.Take(&req, &rec, moment)
		}
		if again := idem.Fresh(&req, rec.Expiry); again.Version <= rec.Version {
			t.Fatalf("token %d after %d", again.Version, rec.Version)
		}
	})
}
