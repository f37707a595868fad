package store

import (
	"context"
	"iter"
	"strings"
	"time"
)

// Store keeps the state of keys by conditional writes, under the ten rules in rules.go.
//
// Methods take batches; elements are independent of each other, and a key stands at most once in a batch. A store must
// not retain the slices it is given, and must be safe for concurrent use.
type Store interface {
	// Claim tries to take each key for its owner and returns one result for each request, in order. A result's Err is
	// nil, ErrFingerprintMismatch or ErrForeignRecord (wrapped; the key is untouched), or any other error, which means that the
	// store could not be asked or did not answer, and that the key may or may not have been claimed: the same request, with
	// the same owner, may be sent again. A key that others write at the same time is ClaimInFlight, not an error.
	Claim(ctx context.Context, reqs []ClaimRequest) []ClaimResult

	// Settle completes, fails, releases or extends claims and returns one error for each, in order; a nil slice means that
	// all succeeded. An error is a *FencedError (errors.Is ErrFenced: the owner no longer holds the key, nothing was
	// changed), ErrForeignRecord (wrapped; nothing was changed), those of a Transactor (*RejectedError, *ClaimRefusedError),
	// ErrContended (wrapped), or any other error, which means that the outcome is unknown: after these two the same settlement
	// may be sent again, and counts once.
	Settle(ctx context.Context, ss []Settlement) []error
}

// Batcher is implemented by stores for which many elements cost less in one call than in calls of their own. For such a
// store claims are worth gathering ahead of their turn, and completions behind it (see Session.RunAsync).
type Batcher interface {
	// BatchSize is how many elements one request takes; 1 if each has its own.
	BatchSize() int
}

// Admin is implemented by stores that people can look into.
type Admin interface {
	// Get returns the record of a key, or ErrNotFound (wrapped). The key is the stored one (see StoreKey).
	Get(ctx context.Context, key string) (Entry, error)

	// List yields the records that q asks for, in no order, until the caller stops or the context ends; a last pair may
	// carry an error. It reads the whole table unless the caller stops: each store says what that costs.
	List(ctx context.Context, q ListQuery) iter.Seq2[Entry, error]

	// Delete removes a key if it still has the version given, so that nobody deletes what they have not seen. It returns
	// ErrNotFound or a *FencedError (errors.Is ErrFenced) with the record as it is now.
	//
	// Deleting a STARTED key lets a second owner in beside the first; deleting a COMPLETED one lets its message run again.
	Delete(ctx context.Context, key string, version int64) error
}

// ListQuery says what to list. The zero value lists everything.
type ListQuery struct {
	Status  Status    // only this status, if not empty
	Before  time.Time // only records last updated before, if not zero
	KeyHas  string    // only keys that contain this, if not empty
	Overdue bool      // only STARTED ones whose lease or retryAt has passed
}

// ClaimRequest asks for a key.
type ClaimRequest struct {
	Key         string
	Fingerprint Fingerprint
	Owner       string        // unique for each claim attempt, not empty; the same when a request is sent again
	Source      string        // where the message comes from: topic-partition@offset
	Lease       time.Duration // how long the key is held unless extended
	Retention   time.Duration // how long the key is remembered after the lease
	Redrive     int64         // the version that a redriven dead letter carries, or 0 (rule 10)
	// TakeOver allows a key to be taken that is STARTED, not released, with its lease over: its owner died, or lives on
	// unaware. Without it such a key is reported as ClaimLeaseOver.
	TakeOver bool
}

// ClaimState says what came of a claim.
type ClaimState uint8

// What comes of a claim.
const (
	ClaimUnknown   ClaimState = iota // ClaimResult.Err says why
	Claimed                          // the caller owns the key
	ClaimInFlight                    // somebody else holds it, or it is released and its time has not come
	ClaimLeaseOver                   // its lease is over, and TakeOver was not set
	ClaimCompleted                   // COMPLETED: Record holds the stored result
	ClaimFailed                      // FAILED: Record holds the failure
)

// ClaimResult is the answer to a ClaimRequest.
type ClaimResult struct {
	State ClaimState
	// Record is the key's state after the claim: the new one if Claimed (with the last failure, if the key had one),
	// otherwise the one that stood in the way. It is also set with ErrFingerprintMismatch.
	Entry Entry
	// Stolen says that the claim took the key from an owner whose lease was over.
	Stolen bool
	// ClaimableIn is, for ClaimInFlight, how long it takes by the store's clock until the lease or the delay of a release
	// is over.
	ClaimableIn time.Duration
	Err         error
}

// SettleOp is a transition that only the owner of a claim can make.
type SettleOp uint8

// The settlements.
const (
	OpComplete SettleOp = iota + 1
	OpFail
	OpRelease
	OpExtend
)

// String returns the operation's name as it stands in errors and metrics.
func (op SettleOp) String() string {
	switch op {
	case OpComplete:
		return "complete"
	case OpFail:
		return "fail"
	case OpRelease:
		return "release"
	case OpExtend:
		return "extend"
	}
	return "unknown"
}

// Settlement ends or extends a claim. Key, Version and Owner are those of the claimed Record.
type Settlement struct {
	Op    SettleOp
	Key   string
	Token int64
	Owner string

	Retention time.Duration // remembered for so long after this settlement (OpExtend: after the new lease)

	// Claim is set for an OpComplete that claims its key too, which must be absent (Config.ClaimOnCommit): its owner and
	// version are the settlement's. Only a Transactor has to take it. A key that is there is a *ClaimRefusedError.
	Claim *ClaimRequest
	// Effect is committed with an OpComplete, or neither is. It comes from the store's own NewEffect. Where the effect is what
	// can't be committed, that is a *RejectedError.
	Effect Effect

	Result        []byte   // OpComplete
	ResultOmitted int      // OpComplete: the size of a result that is not stored, or ResultUnencodable
	Failure       *Failure // OpFail, OpRelease: the error, with At left to the store; nil keeps the one before

	Lease  time.Duration // OpExtend: the new lease, from now
	Delay  time.Duration // OpRelease: not to be claimed before
	Refund bool          // OpRelease: gives the attempt back (rule 8)
}

// Matches reports whether rec is one of those that q asks for, at the time given.
func (q ListQuery) Matches(rec *Entry, now time.Time) bool {
	switch {
	case q.Status != "" && rec.Status != q.Status:
	case !q.Before.IsZero() && !rec.UpdatedAt.Before(q.Before):
	case !strings.Contains(rec.Key, q.KeyHas):
	case q.Overdue && (rec.Status != StatusStarted || ClaimableIn(rec, now, 0) > 0):
	default:
		return true
	}
	return false
}
