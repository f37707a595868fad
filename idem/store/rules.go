package store

import "time"

// This file states the rules 1 to 10 of docs/design.md, which stores keep, one function each. memstore calls
// these functions under a lock. dynamostore applies them to the item that a failed condition returned, and
// writes the entry that they return. redisstore and pgstore state the rules in Lua and SQL; package storetest
// checks that they agree.
//
// Rule 1 (one winner) is the atomicity of a store's conditional write, and needs no code here.
//
// Some rules need code in other places, because they concern more than one entry or more than one request:
//   - Rule 3: an owner that was fenced by a completion of the same request reports that result
//     (execution.fenced, idem/settle.go).
//   - Rule 5: a caller that sends a claim again keeps its owner (Engine.request, idem/claim.go).
//   - Rule 7: a claim of a lease that has ended is sent first without TakeOver and then, with no other
//     handler running, with it (idem/internal/machine/calls.go), so that a record that kills its process is the only
//     one whose attempt is counted. The write is conditional on everything that was read (dynamostore:
//     takeChange).
//   - Rule 8: the limit of attempts (Engine.attemptLimit, idem/execution.go), and the attempts that are not
//     counted (execution.refund, idem/settle.go, and session.Release).
//   - Rule 10: a record with a token that its key never had gets a dead letter with the right one (unfit,
//     kafka/redrive.go).

// FreshToken is rule 2: a fresh claim starts the fencing token at the time in epoch milliseconds, and every
// take-over adds one. The token therefore grows even if TTL deletes the item between two claims.
func FreshToken(now time.Time) int64 { return now.UnixMilli() }

// Holds is rule 3: a settlement succeeds only for the owner of the current token that has not released the
// key.
func Holds(s *Settlement, seen *Entry) bool {
	return seen.Held() && seen.Token == s.Token && seen.Owner == s.Owner
}

// Final is rule 4: COMPLETED and FAILED stay until retention ends. skew is added because another host's clock
// may have set the expiry (rule 7).
func Final(seen *Entry, now time.Time, skew time.Duration) bool {
	return seen.Status != StatusStarted && now.Before(seen.Expiry.Add(skew))
}

// OwnClaim is rule 5 for claims: a claim that finds its own owner in the entry was applied before, and its
// reply was lost. A claim without an owner never matches.
func OwnClaim(req *ClaimRequest, seen *Entry) bool {
	return seen.Held() && seen.Owner == req.Owner && req.Owner != ""
}

// OwnSettlement is rule 5 for settlements: if a settlement is refused, but the entry already has its owner,
// its token and the status that it writes, then it was applied before, and its reply was lost. An extend that
// is refused while the claim is still held found a longer lease, because a later extend of the same claim
// arrived first.
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

// Outdated reports whether an extension of a held claim was overtaken by a later one of the same claim. It
// changes nothing.
func Outdated(s *Settlement, seen *Entry, now time.Time) bool {
	return s.Op == OpExtend && now.Add(s.Lease.Truncate(time.Millisecond)).Before(seen.LeaseUntil)
}

// Mismatch is rule 6: another fingerprint under an unexpired key is refused, in every status.
func Mismatch(req *ClaimRequest, seen *Entry) bool {
	return !seen.Fingerprint.Matches(req.Fingerprint)
}

// ClaimableIn is rule 7 for a STARTED key: the time until another owner may take it. A lease has ended when
// it has ended on every clock that differs by at most skew. The delay of a release is measured without skew,
// because it protects nothing.
func ClaimableIn(seen *Entry, now time.Time, skew time.Duration) time.Duration {
	if !seen.RetryAt.IsZero() {
		return max(0, seen.RetryAt.Sub(now))
	}
	return max(0, seen.LeaseUntil.Add(skew).Sub(now))
}

// nextAttempts is rule 8: attempts are counted with the claim and kept across steal and release. When the key
// is claimed again after its retention, or by a redrive, the count starts at 1.
func nextAttempts(seen *Entry) int {
	if seen.Status == StatusStarted {
		return seen.Attempts + 1
	}
	return 1
}

// Expiry is rule 9: an entry is kept for at least retention after until, which is the end of a lease or the
// time of a settlement. TTL and logical expiry have whole seconds, so the time is rounded up.
func Expiry(until time.Time, retention time.Duration) time.Time {
	t := until.Add(retention)
	if s := t.Truncate(time.Second); !s.Equal(t) {
		return s.Add(time.Second)
	}
	return t
}

// Redriven is rule 10: a dead letter carries the token of its failure. A redriven record claims the key that
// FAILED with exactly that token, once. A later failure has its own dead letter. A token that was never
// issued for the key claims nothing.
func Redriven(req *ClaimRequest, seen *Entry) bool {
	return seen.Status == StatusFailed && seen.Token == req.RedriveToken
}

// Verdict is the decision of Judge on a claim of a key that has an entry.
type Verdict uint8

// The verdicts.
const (
	// VerdictReport: return the ClaimResult and write nothing.
	VerdictReport Verdict = iota
	// VerdictTake: write the entry of Take, on condition that the stored one is exactly as seen.
	VerdictTake
	// VerdictMismatch: return ErrFingerprintMismatch.
	VerdictMismatch
)

// Judge decides a claim on the entry seen, in the order of Decide in docs/spec/idem.tla: the caller's own
// claim first, then expiry, then the fingerprint. The ClaimResult is complete, except with VerdictTake.
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

func judgeStarted(req *ClaimRequest, seen *Entry, now time.Time, skew time.Duration,
	res ClaimResult) (Verdict, ClaimResult) {
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

// Fresh returns the entry that a claim of an absent key writes.
func Fresh(req *ClaimRequest, now time.Time) Entry {
	now = now.Truncate(time.Millisecond)
	entry := Entry{Key: req.Key, Token: FreshToken(now), Attempts: 1, CreatedAt: now}
	hold(&entry, req, now)
	return entry
}

// Take returns the entry that a claim writes over the one seen: a steal, a new claim after a release or after
// the end of retention, or a redrive. A new life of the key drops result and failure.
func Take(req *ClaimRequest, seen *Entry, now time.Time) Entry {
	now = now.Truncate(time.Millisecond)
	entry := *seen
	entry.Token, entry.Attempts = seen.Token+1, nextAttempts(seen)
	if seen.Status != StatusStarted {
		entry.CreatedAt, entry.Result, entry.ResultOmitted, entry.Failure = now, nil, 0, nil
	}
	entry.RetryAt = time.Time{}
	hold(&entry, req, now)
	if seen.Status == StatusStarted && req.Fingerprint.IsZero() {
		entry.Fingerprint = seen.Fingerprint // the request is still known
	}
	return entry
}

// Stolen reports whether a claim that takes the key as seen takes it from an owner that has not released it.
func Stolen(seen *Entry) bool { return seen.Held() }

func hold(entry *Entry, req *ClaimRequest, now time.Time) {
	entry.Status, entry.Owner, entry.Fingerprint, entry.Source = StatusStarted, req.Owner, req.Fingerprint,
		req.Source
	entry.LeaseUntil, entry.UpdatedAt = now.Add(req.Lease.Truncate(time.Millisecond)), now
	entry.Expiry = Expiry(entry.LeaseUntil, req.Retention)
}

// Settled returns the entry that a settlement writes over the one seen, which must be held (see Holds).
func Settled(s *Settlement, seen *Entry, now time.Time) Entry {
	now = now.Truncate(time.Millisecond)
	entry := *seen
	entry.UpdatedAt = now
	switch s.Op {
	case OpComplete:
		entry.Status, entry.Result, entry.ResultOmitted, entry.Failure = StatusCompleted, s.Result,
			s.ResultOmitted, nil
		entry.Expiry = Expiry(now, s.Retention)
	case OpFail:
		entry.Status, entry.Failure = StatusFailed, FailureAt(s.Failure, seen.Failure, now)
		entry.Expiry = Expiry(now, s.Retention)
	case OpRelease:
		entry.RetryAt, entry.Failure = now.Add(s.Delay.Truncate(time.Millisecond)), FailureAt(s.Failure,
			seen.Failure, now)
		entry.Expiry = Expiry(entry.RetryAt, s.Retention)
		if s.Refund {
			entry.Attempts--
		}
	case OpExtend:
		if Outdated(s, seen, now) { // a delayed extend does not shorten the lease
			return *seen
		}
		entry.LeaseUntil = now.Add(s.Lease.Truncate(time.Millisecond))
		entry.Expiry = Expiry(entry.LeaseUntil, s.Retention)
	}
	return entry
}

// FailureAt returns f with the time now, or the previous failure if f is nil.
func FailureAt(f, before *Failure, now time.Time) *Failure {
	if f == nil {
		return before
	}
	return &Failure{Code: f.Code, Message: f.Message, At: now.Truncate(time.Millisecond)}
}
