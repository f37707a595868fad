package idem

import (
	"context"
	"time"
)

// Kind says how a task ended.
type Kind uint8

// The kinds of outcome. Settled kinds need no further delivery; the others do.
const (
	KindUnknown Kind = iota
	// Executed: the handler ran and its key completed.
	Executed
	// Replayed: the key had completed before; Outcome.Result is the stored result.
	Replayed
	// ReplayedFailed: the key had failed before, and its dead letter was sent then.
	ReplayedFailed
	// DeadLettered: the dead letter was sent and the key became FAILED.
	DeadLettered
	// FailedOpen: the handler ran without protection, because the store was unavailable and the engine fails
	// open.
	FailedOpen
	// Retry: the handler failed or was cancelled, and the key was released or is held until its lease ends. Also
	// store.ErrForeignEntry.
	Retry
	// DependencyDown: the handler returned Unavailable, or failed during an outage. The key was released and the
	// attempt not counted.
	DependencyDown
	// InFlight: another owner has the key.
	InFlight
	// NotStarted: too little time was left, or ErrHandlerDown. The attempt was not counted.
	NotStarted
	// Fenced: another owner took the key. The result was discarded.
	Fenced
	// CompletionFailed: the handler ran, or the dead letter was sent, but the store did not confirm it. The key
	// is STARTED until the lease ends.
	CompletionFailed
	// StoreDown: the store did not answer. The handler was not called.
	StoreDown
	// Mismatched: store.ErrFingerprintMismatch. The entry is unchanged.
	Mismatched
	// InvalidKey: store.ErrInvalidKey.
	InvalidKey
	// Behind: an earlier message of its lane is not settled, and the attempt was not counted. The handler was not
	// called, or it returned an error marked by OutOfTurn.
	Behind
	lastKind = Behind
)

var kindNames = [...]string{
	"Unknown", "Executed", "Replayed", "ReplayedFailed", "DeadLettered", "FailedOpen", "Retry",
	"DependencyDown", "InFlight", "NotStarted", "Fenced", "CompletionFailed", "StoreDown", "Mismatched", "InvalidKey",
	"Behind",
}

// String returns the kind's name.
func (k Kind) String() string {
	if k > lastKind {
		return "Unknown"
	}
	return kindNames[k]
}

// Settled reports whether the task needs no further delivery of its message.
func (k Kind) Settled() bool {
	switch k {
	case Executed, Replayed, ReplayedFailed, DeadLettered, FailedOpen:
		return true
	case KindUnknown, Retry, DependencyDown, InFlight, NotStarted, Fenced, CompletionFailed, StoreDown,
		Mismatched, InvalidKey, Behind:
	}
	return false
}

// Outcome is how a task ended.
type Outcome struct {
	Kind    Kind
	Key     string // as stored (see store.Key)
	Token   int64  // the fencing token of the claim, or of the entry that was replayed; 0 if there was none
	Attempt int    // the number of the attempt, from 1; 0 if there was none
	// Source is the place of the message that claimed the key last, if the entry of a duplicate or of another
	// owner was read: Task.Source if it was this one.
	Source string
	// FirstClaimed is the time of the first claim of the key, by the clock of the store or of the host that
	// claimed it; zero if the entry was not read.
	FirstClaimed time.Time
	Stolen       bool // the claim took the key from an owner whose lease had ended
	// Fenced reports that the claim was lost, also if the task is settled because the new owner completed it.
	Fenced bool
	Result []byte // of the handler, or the stored one
	// Err is the reason, for every kind that is not settled, and for DeadLettered, ReplayedFailed and
	// FailedOpen. With Executed and Replayed it may be store.ErrResultNotStored.
	Err error
	// RetryIn is how long another try would come too early: with Retry because the key can't be claimed, with
	// ErrHandlerDown because of the outage.
	RetryIn    time.Duration
	ClaimTook  time.Duration // latency of the claim
	SettleTook time.Duration // latency of the settlement
}

// Attempt describes the claim under which a handler runs.
type Attempt struct {
	Key string // of the task
	// Token is the fencing token: of two owners of a key, the later one has the larger token. A system that
	// receives effects and remembers the greatest token can refuse an earlier owner.
	Token  int64
	Number int    // from 1; the last one is the engine's MaxAttempts
	Source string // of the task
}

type attemptKey struct{}

// AttemptFrom returns the attempt of a handler's context; ok is false if the handler runs without protection.
func AttemptFrom(ctx context.Context) (a Attempt, ok bool) {
	a, ok = ctx.Value(attemptKey{}).(Attempt)
	return a, ok
}
