package idem

import (
	"context"
	"time"
)

// Kind says how a task ended.
type Kind uint8

// The kinds of outcome. Settled kinds need no further delivery; the others do.
const (
	KindUnknown      Kind = iota
	Executed              // the handler ran and its key completed
	Replayed              // the key had completed before; Outcome.Result is the stored one
	ReplayedFailed        // the key had failed before, and its dead letter was sent then
	DeadLettered          // the dead letter was sent and the key became FAILED
	FailedOpen            // the handler ran without protection, as the store was unavailable and the engine fails open
	Unprotected           // the handler ran without protection, as the caller asked (Session.RunUnprotected)
	Retry                 // the handler failed and the key was released, or kept by its lease, for another attempt; or ErrForeignRecord
	DependencyDown        // the handler said Unavailable; the key was released and the attempt given back
	InFlight              // another owner has the key
	NotStarted            // too little time was left; nothing was charged
	Fenced                // the claim was lost to another owner; the result was discarded
	CompletionFailed      // the handler, or the dead letter, is done, but the store could not be told: STARTED until the lease ends
	StoreDown             // the store could not be asked; the handler was not called
	Mismatched            // ErrFingerprintMismatch; the key is untouched
	InvalidKey            // ErrInvalidKey
	lastKind         = InvalidKey
)

var kindNames = [...]string{
	"Unknown", "Executed", "Replayed", "ReplayedFailed", "DeadLettered", "FailedOpen", "Unprotected", "Retry", "DependencyDown",
	"InFlight", "NotStarted", "Fenced", "CompletionFailed", "StoreDown", "Mismatched", "InvalidKey",
}

// String returns the kind's name.
func (k Kind) String() string {
	if k > lastKind {
		return "Unknown"
	}
	return kindNames[k]
}

// Settled reports whether the task is done with: delivering its message again would change nothing.
func (k Kind) Settled() bool {
	switch k {
	case Executed, Replayed, ReplayedFailed, DeadLettered, FailedOpen, Unprotected:
		return true
	case KindUnknown, Retry, DependencyDown, InFlight, NotStarted, Fenced, CompletionFailed, StoreDown, Mismatched, InvalidKey:
	}
	return false
}

// Outcome is how a task ended.
type Outcome struct {
	Kind    Kind
	Key     string // as stored (see StoreKey)
	Token   int64  // the fencing token of the claim, or of the record that was replayed; 0 if there was none
	Attempt int    // the number of the attempt, from 1; 0 if there was none
	// FirstClaimed is when the key was claimed first, by the clock of the store or of the host that claimed it; zero if the key's
	// record was not read.
	FirstClaimed time.Time
	Stolen       bool // the claim took the key from an owner whose lease was over
	// Fenced says that a claim was lost on the way, also where the task is settled all the same, because the new owner had
	// completed it.
	Fenced bool
	Result []byte // of the handler, or the stored one
	// Err says why, for every kind that is not settled, and for DeadLettered, ReplayedFailed and FailedOpen; with Executed
	// and Replayed it may be ErrResultNotStored.
	Err        error
	ClaimTook  time.Duration // time that the store took for the claim
	SettleTook time.Duration // time that the store took for the settlement
}

// Attempt is what a handler may know of its claim.
type Attempt struct {
	Key string // as the task named it
	// Token is the fencing token: of two owners of a key, the later one has the greater token. A place that receives
	// effects and remembers the greatest token it saw can refuse an owner that came late.
	Token  int64
	Number int    // from 1; the last one is the engine's MaxAttempts
	Source string // as the task named it
}

type attemptKey struct{}

// AttemptFrom returns the attempt that a handler's context belongs to; ok is false where a handler runs without
// protection.
func AttemptFrom(ctx context.Context) (a Attempt, ok bool) {
	a, ok = ctx.Value(attemptKey{}).(Attempt)
	return a, ok
}
