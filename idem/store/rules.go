package store

import "time"

// This file states the rules that stores keep, each in one place. memstore applies these functions under a lock;
// dynamostore judges by them what a failed condition returned, and writes what they say. A store that runs its own code
// at the server (Lua, SQL) is held to them by storetest.
//
// Rule 1 (one winner) is the atomicity of a store's conditional write, and needs no code here.

// FreshVersion is rule 2: a fresh claim starts the fencing token at the time in epoch milliseconds, and every take-over
// adds one. So the token grows even if TTL physically deletes the item between two claims.
func FreshToken(now time.Time) int64 { return now.UnixMilli() }

// Holds is rule 3: a settlement succeeds only for the owner of the current version that has not released it.
func Holds(s *Settlement, seen *Entry) bool {
	return seen.Status == StatusStarted && seen.Token == s.Token && seen.Owner == s.Owner && seen.RetryAt.IsZero()
}

// Final is rule 4: COMPLETED and FAILED stay until retention is over. skew is added because the clock that set the
// expiry may have been another host's (rule 7).
func Final(seen *Entry, now time.Time, skew time.Duration) bool {
	return seen.Status != StatusStarted && now.Before(seen.Expiry.Add(skew))
}

// OwnClaim is the first half of rule 5: a claim that finds itself in the key had landed before; its reply was lost. One
// without an owner never finds itself.
func OwnClaim(req *ClaimRequest, seen *Entry) bool {
	return seen.Status == StatusStarted && seen.Owner == req.Owner && req.Owner != "" && seen.RetryAt.IsZero()
}

// OwnSettlement is the other half of rule 5: a settlement that is refused has landed before if the key is in the state
// that it would have made, under its own owner and version. An extend that is refused while the key is still held found
// a longer lease there: a later extend of the same claim overtook it.
func OwnSettlement(s *Settlement, seen *Entry) bool {
	if seen.Owner != s.Owner || seen.Token != s.Token {
		return false
	}
	switch s.Op {
	case OpComplete:
		return seen.Status == StatusCompleted
	case OpFail:
		return seen.Status == StatusFailed
	case OpRelease:
		return seen.Released()
	case OpExtend:
		return Holds(s, seen)
	}
	return false
}

// Mismatch is rule 6: another fingerprint under an unexpired key is refused, in every state.
func Mismatch(req *ClaimRequest, seen *Entry) bool {
	return !seen.Fingerprint.Matches(req.Fingerprint)
}

// ClaimableIn is rule 7 for a STARTED key: how long until a contender may take it. Its lease is over when it is over on
// every clock that differs by at most skew; the delay of a release counts without skew, as it protects nothing.
func ClaimableIn(seen *Entry, now time.Time, skew time.Duration) time.Duration {
	if !seen.RetryAt.IsZero() {
		return max(0, seen.RetryAt.Sub(now))
	}
	return max(0, seen.LeaseUntil.Add(skew).Sub(now))
}

// nextAttempts is rule 8: attempts are charged with the claim, kept across steal and release, and begin anew when the
// key's life does.
func nextAttempts(seen *Entry) int {
	if seen.Status == StatusStarted {
		return seen.Attempts + 1
	}
	return 1
}

// Expiry is rule 9: until is the end of a lease or of a settlement's moment. TTL and logical expiry count in whole
// seconds; rounding up keeps "at least".
func Expiry(until time.Time, retention time.Duration) time.Time {
	t := until.Add(retention)
	if s := t.Truncate(time.Second); !s.Equal(t) {
		return s.Add(time.Second)
	}
	return t
}

// Redriven is rule 10: a dead letter carries the version of the failure that it stands for; the record that brings it
// back opens the key that FAILED at that very version, once. A later failure has a dead letter of its own; and a version that
// was never issued for the key opens nothing, whoever wrote it.
func Redriven(req *ClaimRequest, seen *Entry) bool {
	return seen.Status == StatusFailed && seen.Token == req.Redrive
}

// Verdict is what Judge says of a claim on a key that exists.
type Verdict uint8

// The verdicts.
const (
	VerdictReport   Verdict = iota // answer with the ClaimResult; nothing is written
	VerdictTake                    // write Take's record, on condition that the key is exactly as seen
	VerdictMismatch                // ErrFingerprintMismatch
)

// Judge decides a claim on the key as seen, in the order that the model was checked with: one's own claim first, expiry
// before the fingerprint, the fingerprint before everything else. ClaimResult is complete but for VerdictTake.
func Judge(req *ClaimRequest, seen *Entry, now time.Time, skew time.Duration) (Verdict, ClaimResult) {
	res := ClaimResult{Entry: *seen}
	switch {
	case OwnClaim(req, seen):
		res.State = Claimed
	case seen.Status != StatusStarted && !Final(seen, now, skew):
		return VerdictTake, res
	case Mismatch(req, seen):
		return VerdictMismatch, res
	case Redriven(req, seen):
		return VerdictTake, res
	case seen.Status == StatusCompleted:
		res.State = ClaimCompleted
	case seen.Status == StatusFailed:
		res.State = ClaimFailed
	default:
		return judgeStarted(req, seen, now, skew, res)
	}
	return VerdictReport, res
}

func judgeStarted(req *ClaimRequest, seen *Entry, now time.Time, skew time.Duration, res ClaimResult) (Verdict, ClaimResult) {
	res.ClaimableIn = ClaimableIn(seen, now, skew)
	switch {
	case res.ClaimableIn > 0:
		res.State = ClaimInFlight
	case !seen.Released() && !req.TakeOver:
		res.State = ClaimLeaseOver
	default:
		return VerdictTake, res
	}
	return VerdictReport, res
}

// Fresh returns the record that a claim on an absent key writes.
func Fresh(req *ClaimRequest, now time.Time) Entry {
	now = now.Truncate(time.Millisecond)
	rec := Entry{Key: req.Key, Token: FreshToken(now), Attempts: 1, CreatedAt: now}
	hold(&rec, req, now)
	return rec
}

// Take returns the record that a claim writes over the one seen: a steal, a re-claim after a release or after the end of
// retention, or a redrive. A key whose life begins anew forgets result and failure.
func Take(req *ClaimRequest, seen *Entry, now time.Time) Entry {
	now = now.Truncate(time.Millisecond)
	rec := *seen
	rec.Token, rec.Attempts = seen.Token+1, nextAttempts(seen)
	if seen.Status != StatusStarted {
		rec.CreatedAt, rec.Result, rec.ResultOmitted, rec.Failure = now, nil, 0, nil
	}
	rec.RetryAt = time.Time{}
	hold(&rec, req, now)
	if seen.Status == StatusStarted && req.Fingerprint.IsZero() {
		rec.Fingerprint = seen.Fingerprint // what the key stands for is still known
	}
	return rec
}

// Stolen reports whether a take-over of the key as seen takes it from an owner that did not let go.
func Stolen(seen *Entry) bool { return seen.Status == StatusStarted && !seen.Released() }

func hold(rec *Entry, req *ClaimRequest, now time.Time) {
	rec.Status, rec.Owner, rec.Fingerprint, rec.Source = StatusStarted, req.Owner, req.Fingerprint, req.Source
	rec.LeaseUntil, rec.UpdatedAt = now.Add(req.Lease.Truncate(time.Millisecond)), now
	rec.Expiry = Expiry(rec.LeaseUntil, req.Retention)
}

// Settled returns the record that a settlement writes over the one seen, which must be held (Holds).
func Settled(s *Settlement, seen *Entry, now time.Time) Entry {
	now = now.Truncate(time.Millisecond)
	rec := *seen
	rec.UpdatedAt = now
	switch s.Op {
	case OpComplete:
		rec.Status, rec.Result, rec.ResultOmitted, rec.Failure = StatusCompleted, s.Result, s.ResultOmitted, nil
		rec.Expiry = Expiry(now, s.Retention)
	case OpFail:
		rec.Status, rec.Failure = StatusFailed, FailureAt(s.Failure, seen.Failure, now)
		rec.Expiry = Expiry(now, s.Retention)
	case OpRelease:
		rec.RetryAt, rec.Failure = now.Add(s.Delay.Truncate(time.Millisecond)), FailureAt(s.Failure, seen.Failure, now)
		rec.Expiry = Expiry(rec.RetryAt, s.Retention)
		if s.Refund {
			rec.Attempts--
		}
	case OpExtend:
		until := now.Add(s.Lease.Truncate(time.Millisecond))
		if until.Before(seen.LeaseUntil) { // a delayed extend shortens nothing
			return *seen
		}
		rec.LeaseUntil, rec.Expiry = until, Expiry(until, s.Retention)
	}
	return rec
}

// FreshlySettled returns the record that a completion writes which claims its absent key too (Settlement.Claim).
func FreshlySettled(s *Settlement, now time.Time) Entry {
	rec := Fresh(s.Claim, time.UnixMilli(s.Token))
	return Settled(s, &rec, now)
}

// FailureAt returns f dated now, or the one before if f is nil.
func FailureAt(f, before *Failure, now time.Time) *Failure {
	if f == nil {
		return before
	}
	return &Failure{Code: f.Code, Message: f.Message, At: now.Truncate(time.Millisecond)}
}
