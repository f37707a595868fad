package store

import (
	"context"
	"iter"
	"strings"
	"time"
)

// Store keeps the entries of keys by conditional writes, under the ten rules in rules.go.
//
// Methods take batches. The elements of a batch are independent of each other, and a batch contains a key at
// most once. A store must not retain the slices it is given, and must be safe for concurrent use.
type Store interface {
	// Claim tries to take each key for its owner and returns one result for each request, in order. A
	// result's Err is nil, ErrFingerprintMismatch or ErrForeignEntry (wrapped; the entry is unchanged),
	// ErrMisconfigured (wrapped), or any other error. Any other error means that the store could not be asked
	// or did not answer, and that the key may or may not have been claimed. The caller may then send the same
	// request, with the same owner, again. A key that others write at the same time is ClaimInFlight, not an
	// error.
	Claim(ctx context.Context, reqs []ClaimRequest) []ClaimResult

	// Settle completes, fails, releases or extends claims and returns one error for each, in order. A nil
	// slice means that all succeeded. An error is a *FencedError (errors.Is ErrFenced: the owner no longer
	// holds the key), ErrForeignEntry (wrapped), a Transactor's *RejectedError, ErrContended (wrapped), or any
	// other error. After all but the last the entry is unchanged. After any other error the outcome is
	// unknown. After it, and after ErrContended, the caller may send the same settlement again; it takes
	// effect once.
	Settle(ctx context.Context, ss []Settlement) []error
}

// Batcher is implemented by stores that send many elements in one request. The engine prefetches claims and
// groups completions for such a store.
type Batcher interface {
	// BatchSize is how many elements one request takes; 1 if each has its own.
	BatchSize() int
}

// Admin is implemented by stores whose entries operators can read and delete.
type Admin interface {
	// Get returns the entry of a stored key (see Key), or ErrNotFound (wrapped).
	Get(ctx context.Context, key string) (Entry, error)

	// List yields the entries that match q, in no order, until the caller stops or the context ends. The last
	// pair may carry an error. List reads the whole table unless the caller stops; each store documents the
	// cost.
	List(ctx context.Context, q ListQuery) iter.Seq2[Entry, error]

	// Delete removes an entry if it still has the given fencing token. Otherwise it returns ErrNotFound, or a
	// *FencedError (errors.Is ErrFenced) with the current entry.
	//
	// Deleting a STARTED entry admits a second owner beside the first. Deleting a COMPLETED one lets its
	// message run again.
	Delete(ctx context.Context, key string, token int64) error
}

// ListQuery selects entries. The zero value selects all.
type ListQuery struct {
	Status  Status    // entries in this status, if not empty
	Before  time.Time // entries last updated before this time, if not zero
	KeyHas  string    // entries whose key contains this text, if not empty
	Overdue bool      // STARTED entries whose lease or retry time has passed
}

// ClaimRequest asks for a key.
type ClaimRequest struct {
	Key         string
	Fingerprint Fingerprint
	// Owner is unique for each claim attempt, not empty, and the same when a request is sent again.
	Owner        string
	Source       string        // the place of the message: topic-partition@offset
	Lease        time.Duration // how long the claim holds the key unless extended
	Retention    time.Duration // how long the entry is kept after the lease
	RedriveToken int64         // the token that a redriven dead letter carries, or 0 (rule 10)
	// TakeOver allows the claim to take a STARTED key, not released, whose lease has ended: its owner died,
	// or does not know yet that it lost the key. Without TakeOver such a key is reported as ClaimLeaseOver.
	TakeOver bool
}

// The bounds of what an engine asks of a store.
const (
	MinLease = 100 * time.Millisecond
	MaxLease = time.Hour
	// MaxResult is in bytes. It leaves room in a DynamoDB item (400 KB) for the other attributes.
	MaxResult = 350 << 10
	// MaxCommitWindow is the maximum batch size of an event source mapping.
	MaxCommitWindow = 10_000
)

// ClaimState is the result of a claim.
type ClaimState uint8

// The results of a claim.
const (
	// ClaimUnknown: see ClaimResult.Err.
	ClaimUnknown ClaimState = iota
	// Claimed: the caller owns the key.
	Claimed
	// ClaimInFlight: another owner holds the key, or it is released and its retry time has not come.
	ClaimInFlight
	// ClaimLeaseOver: the lease has ended, and TakeOver was not set.
	ClaimLeaseOver
	// ClaimCompleted: Entry holds the stored result.
	ClaimCompleted
	// ClaimFailed: Entry holds the failure.
	ClaimFailed
)

// ClaimResult is the answer to a ClaimRequest.
type ClaimResult struct {
	State ClaimState
	// Entry is the entry after the claim: the new one if Claimed (with the last failure, if there was one),
	// otherwise the existing one. It is also set with ErrFingerprintMismatch.
	Entry Entry
	// Stolen reports that the claim took the key from an owner whose lease had ended.
	Stolen bool
	// ClaimableIn is, for ClaimInFlight, the time by the store's clock until the lease, or the delay of a
	// release, ends.
	ClaimableIn time.Duration
	Err         error
}

// SettleOp is a transition that only the owner of a claim may make.
type SettleOp uint8

// The settlements.
const (
	OpComplete SettleOp = iota + 1
	OpFail
	OpRelease
	OpExtend
)

// String returns the name of the operation in errors and metrics.
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

// Settlement ends or extends a claim. Key, Token and Owner are those of the claimed Entry.
type Settlement struct {
	Op    SettleOp
	Key   string
	Token int64
	Owner string

	// Retention is how long the entry is kept after this settlement (OpExtend: after the new lease).
	Retention time.Duration

	// Effect commits together with an OpComplete, or neither commits. It comes from NewEffect of the same
	// store. An effect that can't be committed is a *RejectedError.
	Effect Effect

	Result []byte // OpComplete
	// OpComplete: the size in bytes of a result that is not stored, or ResultUnencodable
	ResultOmitted int
	// OpFail, OpRelease: the error, without At, which the store sets; nil keeps the previous one
	Failure *Failure

	Lease  time.Duration // OpExtend: the new lease, from now
	Delay  time.Duration // OpRelease: the time for which the key can't be claimed
	Refund bool          // OpRelease: does not count the attempt (rule 8)
}

// Matches reports whether q selects the entry at the given time.
func (q ListQuery) Matches(entry *Entry, now time.Time) bool {
	switch {
	case q.Status != "" && entry.Status != q.Status:
	case !q.Before.IsZero() && !entry.UpdatedAt.Before(q.Before):
	case !strings.Contains(entry.Key, q.KeyHas):
	case q.Overdue && (entry.Status != StatusStarted || ClaimableIn(entry, now, 0) > 0):
	default:
		return true
	}
	return false
}
