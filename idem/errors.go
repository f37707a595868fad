package idem

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/idemsk/idemsk/idem/store"
)

// Conditions that callers test for with errors.Is.
var (
	// ErrInFlight says that another owner held the key for as long as the caller was willing to wait.
	ErrInFlight = errors.New("idem: the key is in flight elsewhere")
	// ErrAlreadyFailed says that the key is FAILED; see AlreadyFailedError.
	ErrAlreadyFailed = errors.New("idem: the key failed before")
	// ErrAttemptsExhausted says that a task was given up after its last attempt.
	ErrAttemptsExhausted = errors.New("idem: attempts exhausted")
	// ErrLeaseLost is the cause (context.Cause) with which a handler's context is cancelled when its claim is lost.
	ErrLeaseLost = errors.New("idem: the lease was lost while the handler ran")
	// ErrDeadlineNear says that too little time was left to start a handler.
	ErrDeadlineNear = errors.New("idem: too little time left before the deadline")
	// ErrStoreUnavailable says that the store could not be asked, or that its circuit breaker is open.
	ErrStoreUnavailable = errors.New("idem: the store is unavailable")
	// ErrInvalidConfig says that a configuration was refused; all its faults are in the message.
	ErrInvalidConfig = errors.New("idem: invalid configuration")
	// ErrNoDeadLetters says that a task can't become FAILED, as nothing is there to take its dead letter.
	ErrNoDeadLetters = errors.New("idem: no dead letters are configured, so the message is kept for another delivery")
	// ErrDeadLetterNotSent says that a task has failed for good, but that what takes its dead letter did not take it.
	ErrDeadLetterNotSent = errors.New("idem: the dead letter could not be sent, so the message is kept for another delivery")
)

// AlreadyFailedError says that the key is FAILED, and why it became so.
type AlreadyFailedError struct {
	Key     string
	Token   int64
	Failure store.Failure
}

// Error tells the stored failure.
func (e *AlreadyFailedError) Error() string {
	return fmt.Sprintf("%v: key %q, version %d, at %s: %s: %s", ErrAlreadyFailed, e.Key, e.Token,
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
func failureOf(err error) *store.Failure {
	f := &store.Failure{Code: store.CodeError, Message: truncateUTF8(err.Error(), store.MaxFailureMessage)}
	var p *PanicError
	switch {
	case errors.As(err, &p):
		f.Code = store.CodePanic
	case errors.Is(err, ErrAttemptsExhausted):
		f.Code = store.CodeExhausted
	case IsPermanent(err):
		f.Code = store.CodePermanent
	case IsUnavailable(err):
		f.Code = store.CodeUnavailable
	}
	return f
}

// isStoreFault reports whether err says something about the store's health: not one of the store's proper answers, and
// not the caller's own change of mind.
func isStoreFault(err error) bool {
	return err != nil && !errors.Is(err, store.ErrFingerprintMismatch) && !answered(err) && !errors.Is(err, store.ErrContended) && !errors.Is(err, context.Canceled)
}

// truncateUTF8 returns the longest valid beginning of s that has at most n bytes; invalid bytes are replaced.
func truncateUTF8(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
