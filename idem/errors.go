package idem

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Conditions that callers test for with errors.Is.
var (
	// ErrFenced says that the caller no longer owns the key; see FencedError.
	ErrFenced = errors.New("idem: the claim is no longer held")
	// ErrFingerprintMismatch says that the key was used before for a request that looked different.
	ErrFingerprintMismatch = errors.New("idem: the key was used before with another fingerprint")
	// ErrInFlight says that another owner held the key for as long as the caller was willing to wait.
	ErrInFlight = errors.New("idem: the key is in flight elsewhere")
	// ErrAlreadyFailed says that the key is FAILED; see AlreadyFailedError.
	ErrAlreadyFailed = errors.New("idem: the key failed before")
	// ErrAttemptsExhausted says that a task was given up after its last attempt.
	ErrAttemptsExhausted = errors.New("idem: attempts exhausted")
	// ErrResultNotStored says that the key completed, but that its result was not kept.
	ErrResultNotStored = errors.New("idem: the result was not stored")
	// ErrLeaseLost is the cause (context.Cause) with which a handler's context is cancelled when its claim is lost.
	ErrLeaseLost = errors.New("idem: the lease was lost while the handler ran")
	// ErrDeadlineNear says that too little time was left to start a handler.
	ErrDeadlineNear = errors.New("idem: too little time left before the deadline")
	// ErrStoreUnavailable says that the store could not be asked, or that its circuit breaker is open.
	ErrStoreUnavailable = errors.New("idem: the store is unavailable")
	// ErrContended says that a store refused a settlement for what others do at the same time: a transaction that writes the
	// same item, or a table of an effect that is throttled. Nothing was changed, and the same settlement may be sent again. The
	// store itself is well.
	ErrContended = errors.New("idem: refused for what others do at the same time")
	// ErrForeignRecord says that what the store holds under a key can't be read: something else wrote it. Nothing was changed,
	// and nothing will get on with that key until somebody mends or deletes what is there; the store itself is well.
	ErrForeignRecord = errors.New("idem: what the store holds under the key is not one of ours")
	// ErrNotFound says that a store has no record of a key.
	ErrNotFound = errors.New("idem: no such key")
	// ErrInvalidKey says that a key can't be used: it is empty.
	ErrInvalidKey = errors.New("idem: invalid key")
	// ErrInvalidConfig says that a configuration was refused; all its faults are in the message.
	ErrInvalidConfig = errors.New("idem: invalid configuration")
	// ErrNoDeadLetters says that a task can't become FAILED, as nothing is there to take its dead letter.
	ErrNoDeadLetters = errors.New("idem: no dead letters are configured, so the message is kept for another delivery")
	// ErrDeadLetterNotSent says that a task has failed for good, but that what takes its dead letter did not take it.
	ErrDeadLetterNotSent = errors.New("idem: the dead letter could not be sent, so the message is kept for another delivery")
)

// FencedError says that a settlement was refused. Current is the record as it is now; its zero value means that the key is
// gone.
type FencedError struct {
	Key     string
	Version int64 // of the claim that was refused
	Current Record
}

// Error tells who holds the key now.
func (e *FencedError) Error() string {
	if e.Current.Status == "" {
		return fmt.Sprintf("%v: key %q, version %d: the record is gone", ErrFenced, e.Key, e.Version)
	}
	return fmt.Sprintf("%v: key %q, version %d: it is %s at version %d now, last claimed from %s",
		ErrFenced, e.Key, e.Version, e.Current.Status, e.Current.Version, orUnknown(e.Current.Source))
}

// Unwrap returns ErrFenced.
func (e *FencedError) Unwrap() error { return ErrFenced }

// AlreadyFailedError says that the key is FAILED, and why it became so.
type AlreadyFailedError struct {
	Key     string
	Version int64
	Failure Failure
}

// Error tells the stored failure.
func (e *AlreadyFailedError) Error() string {
	return fmt.Sprintf("%v: key %q, version %d, at %s: %s: %s", ErrAlreadyFailed, e.Key, e.Version,
		e.Failure.At.UTC().Format(time.RFC3339), e.Failure.Code, e.Failure.Message)
}

// Unwrap returns ErrAlreadyFailed.
func (e *AlreadyFailedError) Unwrap() error { return ErrAlreadyFailed }

// PanicError is what a panic becomes: of a handler, or of what takes its dead letters.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

// Error tells the panic's value; the stack is for the log.
func (e *PanicError) Error() string { return fmt.Sprintf("panicked: %v", e.Value) }

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, ok := e.Value.(error)
	if !ok {
		return nil
	}
	return err
}

// Permanent marks an error that no other attempt will mend: the task goes to the dead letters at once. It returns nil if
// err is nil.
func Permanent(err error) error { return classify(err, permanent, 0) }

// RetryAfter marks an error that may pass, and says how long to leave the key alone before the next attempt. It returns
// nil if err is nil.
func RetryAfter(err error, d time.Duration) error { return classify(err, retriable, max(0, d)) }

// Unavailable marks an error that the message is not to blame for: something that the handler needs is down. The attempt
// is given back, however often it happens. It returns nil if err is nil.
func Unavailable(err error) error { return classify(err, unavailable, 0) }

// ResultUnavailable tells that the handler's effect took place but its result can't be encoded: the key completes without
// a stored result, for after the effect there is no going back. It returns nil if err is nil.
func ResultUnavailable(err error) error { return classify(err, resultless, 0) }

// IsPermanent reports whether err is, or wraps, an error marked by Permanent.
func IsPermanent(err error) bool { return classOf(err).class == permanent }

// IsUnavailable reports whether err is, or wraps, an error marked by Unavailable.
func IsUnavailable(err error) bool { return classOf(err).class == unavailable }

// RetryDelay returns the delay of an error marked by RetryAfter, 0 for any other.
func RetryDelay(err error) time.Duration { return classOf(err).delay }

type class uint8

const (
	retriable class = iota // also every unmarked error
	permanent
	unavailable
	resultless
)

// classified is an error with its class; the outermost one in a chain counts.
type classified struct {
	err   error
	class class
	delay time.Duration
}

func (c *classified) Error() string { return c.err.Error() }
func (c *classified) Unwrap() error { return c.err }

func classify(err error, c class, delay time.Duration) error {
	if err == nil {
		return nil
	}
	return &classified{err: err, class: c, delay: delay}
}

func classOf(err error) classified {
	var c *classified
	if errors.As(err, &c) && !thrown(err, c) {
		return *c
	}
	return classified{err: err}
}

// thrown reports whether a mark is on what somebody panicked with, where it does not count: a panic is an accident.
func thrown(err error, mark *classified) bool {
	var p *PanicError
	var c *classified
	return errors.As(err, &p) && errors.As(p.Unwrap(), &c) && c == mark
}

// failureOf is the stored form of a handler's error.
func failureOf(err error) *Failure {
	f := &Failure{Code: CodeError, Message: truncateUTF8(err.Error(), MaxFailureMessage)}
	var p *PanicError
	switch {
	case errors.As(err, &p):
		f.Code = CodePanic
	case errors.Is(err, ErrAttemptsExhausted):
		f.Code = CodeExhausted
	case IsPermanent(err):
		f.Code = CodePermanent
	case IsUnavailable(err):
		f.Code = CodeUnavailable
	}
	return f
}

// isStoreFault reports whether err says something about the store's health: not one of the store's proper answers, and
// not the caller's own change of mind.
func isStoreFault(err error) bool {
	return err != nil && !errors.Is(err, ErrFingerprintMismatch) && !answered(err) && !errors.Is(err, ErrContended) && !errors.Is(err, context.Canceled)
}

func orUnknown(s string) string {
	if s == "" {
		return "an unknown source"
	}
	return s
}
