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
	Fingerprint store.Fingerprint
	Source      string // where the message comes from: topic-partition@offset
	// Redrive is the version in a redriven dead letter's header, or 0. If the key FAILED at a lower one (AlreadyFailedError),
	// that version was not issued for it, or the store has lost what it knew.
	Redrive int64
	Handler Handler
	// DeadLetters takes the task when it has failed for good; only then the key becomes FAILED. Without it no key does: the
	// task is released, whatever its error, and handled again with the next delivery.
	DeadLetters DeadLetterSink
}

// Handler has the effect of a task.
type Handler interface {
	// Handle is called by one owner at a time, as far as leases can tell. Its context ends at the deadline less the
	// margin, or with the cause ErrLeaseLost when the claim is lost; AttemptFrom finds the fencing token in it.
	// The bytes returned are stored as the result. An error may be marked by Permanent, RetryAfter or Unavailable.
	Handle(ctx context.Context) ([]byte, error)
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context) ([]byte, error)

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context) ([]byte, error) { return f(ctx) }

// DeadLetterer takes tasks that have failed for good.
type DeadLetterSink interface {
	// DeadLetter hands the task on. It may be called more than once for the same task; Attempt.Token tells one failure
	// from another, but for tasks that run without a claim, which have none. If it returns an error, the task is released for another attempt.
	DeadLetter(ctx context.Context, b DeadLetter) error
}

// DeadLetterFunc is a function as a DeadLetterer.
type DeadLetterFunc func(ctx context.Context, b DeadLetter) error

// DeadLetter calls f.
func (f DeadLetterFunc) DeadLetter(ctx context.Context, b DeadLetter) error { return f(ctx, b) }

// Burial is what a dead letter should tell.
type DeadLetter struct {
	Attempt   Attempt
	StoredKey string        // see StoreKey
	Failure   store.Failure // as it will be stored; At is zero
	Err       error         // the handler's error, or one that wraps ErrAttemptsExhausted
}

// Ticket is a task and what came of its claim. The zero value but for Task and TakeOver is ready for Session.Claim.
type Claim struct {
	Task Task
	// TakeOver allows the claim to take the key from an owner whose lease is over. A caller that runs tasks concurrently
	// leaves it out at first, and claims again, with nothing else in flight, if State says ClaimLeaseOver: so that a
	// message that kills its process is the one that is charged for it.
	TakeOver bool

	res       store.ClaimResult
	key       string // as stored
	owner     string
	claimedAt time.Time // on the local monotonic clock, before the request was sent: a bound for the lease
	took      time.Duration
	waitUntil time.Time
	waits     int
	beat      *heartbeat          // keeps the claim from before its handler begins until it is settled
	onCommit  *store.ClaimRequest // the claim that is left to the completion
	leased    bool                // its claims are made when they are asked for, also with Config.ClaimOnCommit
}

// State says what came of the last claim.
func (t *Claim) State() store.ClaimState { return t.res.State }

// Err returns the error of the last claim.
func (t *Claim) Err() error { return t.res.Err }

func (t *Claim) attempt() Attempt {
	return Attempt{Key: t.Task.Key, Token: t.res.Entry.Token, Number: t.res.Entry.Attempts, Source: t.Task.Source}
}

// outcome is the outcome of a ticket that is not claimed; for a claimed one it is what there is to tell before it has run.
func (t *Claim) outcome() Outcome {
	rec := &t.res.Entry
	out := Outcome{Key: t.key, Token: rec.Token, FirstClaimed: rec.CreatedAt, Err: t.res.Err, ClaimTook: t.took}
	switch t.res.State {
	case store.Claimed:
		out.Attempt, out.Stolen = rec.Attempts, t.res.Stolen
	case store.ClaimCompleted:
		out.Kind = Replayed
		out.Result, out.Err = rec.StoredResult()
	case store.ClaimFailed:
		out.Kind, out.Err = ReplayedFailed, &AlreadyFailedError{Key: t.key, Token: rec.Token, Failure: valueOf(rec.Failure)}
	case store.ClaimInFlight, store.ClaimLeaseOver:
		out.Kind, out.Err = InFlight, fmt.Errorf("%w: key %q", ErrInFlight, t.key)
		if rec.Status == "" { // others write it at this moment
			break
		}
		out.Err = fmt.Errorf("%w: key %q, attempt %d of version %d, claimed from %s, %s",
			ErrInFlight, t.key, rec.Attempts, rec.Token, cmp.Or(rec.Source, "an unknown source"), t.untilWhen())
	case store.ClaimUnknown:
		out.Kind = claimErrorKind(t.res.Err)
	}
	return out
}

func (t *Claim) untilWhen() string {
	rec := &t.res.Entry
	what, until := "lease", rec.LeaseUntil
	if rec.Released() {
		what, until = "released", rec.RetryAt
	}
	text := what + " until " + until.UTC().Format(time.RFC3339Nano)
	if f := rec.Failure; f != nil {
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
