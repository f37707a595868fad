package idem

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// Task is a message to be handled once.
type Task struct {
	Key         string
	Fingerprint store.Fingerprint // of the request; see store.FingerprintOf
	Source      string            // the place of the message: topic-partition@offset
	// RedriveToken is the token in the header of a redriven dead letter, or 0. It opens the key if the key
	// FAILED with exactly this token (rule 10). If it FAILED with a smaller one (AlreadyFailedError), the
	// token was not issued for this key, or the store has lost data.
	RedriveToken int64
	// OutcomeUnknown means that the redriven dead letter is one of an unknown outcome, or does not tell. With
	// Config.AtMostOnce the handler is called only if the entry of the key tells that an operator has settled
	// the outcome. Otherwise, as after the retention, the task gets another dead letter.
	OutcomeUnknown bool
	Handler        Handler
	// Rejected means that Handler only returns an error that was known before. An outage of what handlers
	// need does not hold the task back, and its error is no sign of one.
	Rejected bool
	// DeadLetters receives the task when it has failed for good; only then the key becomes FAILED. Without
	// DeadLetters the task is released after every error and handled again with the next delivery.
	DeadLetters DeadLetterSink
}

// Handler performs the effect of a task.
type Handler interface {
	// Handle is called by one owner at a time, within the limits of leases. Its context ends at the deadline
	// less the margin, or with the cause ErrLeaseLost when the claim is lost. AttemptFrom returns the fencing
	// token from it. The returned bytes are stored as the result. An error may be marked by Permanent,
	// RetryAfter or Unavailable.
	Handle(ctx context.Context) ([]byte, error)
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context) ([]byte, error)

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context) ([]byte, error) { return f(ctx) }

// DeadLetterSink receives tasks that have failed for good.
type DeadLetterSink interface {
	// Send sends the dead letter of a task. It may be called more than once for the same task. Attempt.Token
	// distinguishes failures; it is 0 for tasks without a claim. After an error the task is released for
	// another attempt.
	Send(ctx context.Context, letter DeadLetter) error
}

// DeadLetterFunc is a function as a DeadLetterSink.
type DeadLetterFunc func(ctx context.Context, letter DeadLetter) error

// Send calls f.
func (f DeadLetterFunc) Send(ctx context.Context, letter DeadLetter) error { return f(ctx, letter) }

// DeadLetter describes a task that has failed for good.
type DeadLetter struct {
	Attempt   Attempt
	StoredKey string        // see store.Key
	Failure   store.Failure // as it will be stored; At is zero
	Err       error         // the handler's error, or one that wraps ErrAttemptsExhausted
}

// claim is a task and the result of its claim.
type claim struct {
	Task Task
	// TakeOver allows the claim to take the key from an owner whose lease has ended. A caller that runs tasks
	// concurrently sends claims without it first. If State is store.ClaimLeaseOver, it claims again with
	// TakeOver, beside others if Engine.mayTakeOverBeside allows it, and otherwise while no other handler runs, so
	// that only the message that killed its process has an attempt counted (rule 7). With Config.AtMostOnce no
	// other claim may set it.
	TakeOver bool
	// Together means that the handler handled the task together with others, and that one of them succeeded:
	// a failure is no sign of an outage.
	Together bool
	// Again means that the task is handled alone after a call of several tasks that failed as a whole
	// (CallFailed). If it is released without counting the attempt, failedBefore still tells its next owner
	// to handle it alone: its effect may have taken place.
	Again bool

	key        string // as stored
	res        store.ClaimResult
	took       time.Duration
	waitUntil  time.Time
	waits      int
	hold       hold
	atMostOnce atMostOnce
	committed  *committed // by the call that handled the task; nil if none has
}

// State returns the result of the last claim.
func (claim *claim) State() store.ClaimState { return claim.res.State }

// FailedBefore reports whether the last attempt at the task failed, or was a call of several tasks that
// failed as a whole. A caller that handles several tasks in one call handles such a task alone, so that it
// does not make others fail with it. An outage of a dependency does not count.
func (claim *claim) FailedBefore() bool {
	f := claim.res.Entry.Failure
	return f != nil && f.Code != store.CodeUnavailable
}

// failure is the stored form of the error of an attempt. A task that is to be handled alone stays one.
func (claim *claim) failure(err error) *store.Failure {
	f := failureOf(err)
	if f.Code == store.CodeUnavailable && (claim.Again || claim.FailedBefore()) {
		f.Code = store.CodeCallFailed
	}
	return f
}

// interrupted is the stored form of the error of an attempt that was cancelled: nil, so that the failure
// before stands, unless the task is to be handled alone.
func (claim *claim) interrupted(err error) *store.Failure {
	if !claim.Again {
		return nil
	}
	return claim.failure(Unavailable(err))
}

// delayed reports whether the last claim was refused because of a delay (Config.RetryDelay, RetryAfter) that
// has not passed yet. Another claim would be refused as well.
func (claim *claim) delayed() bool {
	return claim.res.State == store.ClaimInFlight && claim.res.Entry.Released() &&
		time.Since(claim.hold.claimedAt) < claim.res.ClaimableIn
}

// Err returns the error of the last claim.
func (claim *claim) Err() error { return claim.res.Err }

func (claim *claim) attempt() Attempt {
	return Attempt{Key: claim.Task.Key, Token: claim.res.Entry.Token, Number: claim.res.Entry.Attempts,
		Source: claim.Task.Source}
}

// outcome returns the outcome of a task that was not claimed. For a claimed one it has what is known before
// the handler runs.
func (claim *claim) outcome() Outcome {
	entry := &claim.res.Entry
	out := Outcome{Key: claim.key, Token: entry.Token, FirstClaimed: entry.CreatedAt, Source: entry.Source,
		Err: claim.res.Err, ClaimTook: claim.took}
	switch claim.res.State {
	case store.Claimed:
		out.Attempt, out.Stolen = entry.Attempts, claim.res.Stolen
	case store.ClaimCompleted:
		out.Kind = Replayed
		out.Result, out.Err = entry.StoredResult()
	case store.ClaimFailed:
		out.Kind, out.Err = ReplayedFailed, &AlreadyFailedError{Key: claim.key, Token: entry.Token,
			Failure: valueOf(entry.Failure)}
	case store.ClaimInFlight, store.ClaimLeaseOver:
		out.Kind, out.Err = InFlight, fmt.Errorf("%w: key %q", ErrInFlight, claim.key)
		if entry.Status == "" { // a concurrent write
			break
		}
		out.Err = fmt.Errorf("%w: key %q, attempt %d, token %d, claimed from %s, %s",
			ErrInFlight, claim.key, entry.Attempts, entry.Token, cmp.Or(entry.Source, "an unknown source"),
			claim.heldUntil())
	case store.ClaimUnknown:
		out.Kind = claimErrorKind(claim.res.Err)
	}
	return out
}

func (claim *claim) heldUntil() string {
	entry := &claim.res.Entry
	what, until := "lease", entry.LeaseUntil
	if entry.Released() {
		what, until = "released", entry.RetryAt
	}
	text := what + " until " + until.UTC().Format(time.RFC3339Nano)
	if f := entry.Failure; f != nil {
		text += ", last failure " + f.Code + ": " + f.Message
	}
	return text
}

func valueOf(f *store.Failure) store.Failure {
	if f == nil {
		return store.Failure{}
	}
	return *f
}
