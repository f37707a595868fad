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
	// ErrInFlight means that another owner holds the key, and held it for as long as the engine waited.
	ErrInFlight = errors.New("idem: the key is in flight elsewhere")
	// ErrAttemptsExhausted means that a task failed after its last attempt.
	ErrAttemptsExhausted = errors.New("idem: attempts exhausted")
	// ErrLeaseLost is the cause (context.Cause) of the end of a handler's context when its claim is lost.
	ErrLeaseLost = errors.New("idem: the lease was lost while the handler ran")
	// ErrDeadlineNear means that too little time was left to start a handler.
	ErrDeadlineNear = errors.New("idem: too little time left before the deadline")
	// ErrStoreUnavailable means that the store did not answer, that the circuit breaker is open, or
	// store.ErrMisconfigured.
	ErrStoreUnavailable = errors.New("idem: the store is unavailable")
	// ErrInvalidConfig means that a configuration is invalid. The message names every invalid field.
	ErrInvalidConfig = errors.New("idem: invalid configuration")
	// ErrNoDeadLetters means that a task can't become FAILED because it has no dead-letter sink.
	ErrNoDeadLetters = errors.New("idem: no dead letters are configured, so the message is kept for another delivery")
	// ErrOutcomeUnknown means that an attempt began, and that it may have had its effect. With
	// Config.AtMostOnce the task is not handled again. As the error of a handler it is marked by OutcomeUnknown.
	ErrOutcomeUnknown = OutcomeUnknown(errors.New("idem: the outcome is unknown"))
	// ErrDeadLetterNotSent means that a task has failed for good, but that its dead-letter sink returned an
	// error.
	ErrDeadLetterNotSent = errors.New("idem: the dead letter could not be sent, so the message is kept for another delivery")
)

// AlreadyFailedError means that the key is FAILED. Failure is the stored failure.
type AlreadyFailedError struct {
	Key     string
	Token   int64
	Failure store.Failure
}

// Error describes the stored failure.
func (e *AlreadyFailedError) Error() string {
	return fmt.Sprintf("idem: the key failed before: key %q, token %d, at %s: %s: %s", e.Key, e.Token,
		e.Failure.At.UTC().Format(time.RFC3339), e.Failure.Code, e.Failure.Message)
}

// PanicError is the error of a handler, or of a dead-letter sink, that panicked.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

// Error returns the panic's value as text. The stack is for the log.
func (e *PanicError) Error() string { return fmt.Sprintf("panicked: %v", e.Value) }

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, ok := e.Value.(error)
	if !ok {
		return nil
	}
	return err
}

// Permanent marks an error that would occur in every attempt. The engine sends the task to the dead-letter
// sink at once. Permanent returns nil if err is nil.
func Permanent(err error) error { return classify(err, permanent, 0) }

// RetryAfter marks a transient error. The key can't be claimed again before d has passed. RetryAfter returns
// nil if err is nil.
func RetryAfter(err error, d time.Duration) error { return classify(err, retriable, max(0, d)) }

// Unavailable marks an error that the message did not cause: a dependency of the handler is down. The attempt
// is not counted. Unavailable(RetryAfter(err, d)) also delays the next attempt by d. Unavailable returns nil
// if err is nil.
func Unavailable(err error) error { return classify(err, unavailable, RetryDelay(err)) }

// CallFailed marks the error of a call that handled several tasks and failed as a whole, which is no evidence
// against one of them: the attempt is not counted. A scheduler then tells the next owner of the key to
// handle the task alone. With Config.AtMostOnce the outcome of the task is unknown, unless Unavailable marks
// err: CallFailed(Unavailable(err)) says that the task had no effect. CallFailed returns nil if err is nil.
func CallFailed(err error) error { return classify(err, callFailed, 0) }

// OutOfTurn marks the error of a task that is to be handled later: in its call with others, one before it in its
// lane failed, or the call had no room for it. The attempt is not counted. If err says that the effect may have
// taken place, Config.AtMostOnce does not heed the mark. OutOfTurn returns nil if err is nil, and err if it is
// marked by CallFailed.
func OutOfTurn(err error) error {
	if classOf(err).class == callFailed {
		return err
	}
	return classify(err, outOfTurn, 0)
}

// OutcomeUnknown marks an error after which the effect may have taken place, such as a request without an
// answer. With Config.AtMostOnce the task gets a dead letter and is not handled again. Otherwise the mark has
// no meaning: those that err has, such as Unavailable, count. OutcomeUnknown returns nil if err is nil.
func OutcomeUnknown(err error) error {
	if err == nil {
		return nil
	}
	c := classOf(err)
	return &classified{err: err, class: c.class, delay: c.delay, unknown: true}
}

// ResultUnavailable marks the error of a handler whose effect took place but whose result can't be encoded.
// The key completes without a stored result. ResultUnavailable returns nil if err is nil.
func ResultUnavailable(err error) error { return classify(err, resultless, 0) }

// IsPermanent reports whether err is, or wraps, an error marked by Permanent.
func IsPermanent(err error) bool { return classOf(err).class == permanent }

// RetryDelay returns the delay of an error that is, or wraps, an error marked by RetryAfter, or by RetryAfter
// and then Unavailable. It is 0 for any other.
func RetryDelay(err error) time.Duration { return classOf(err).delay }

// IsUnavailable reports whether err is, or wraps, an error marked by Unavailable.
func IsUnavailable(err error) bool { return classOf(err).class == unavailable }

// isResultUnavailable reports whether err is, or wraps, an error marked by ResultUnavailable.
func isResultUnavailable(err error) bool { return classOf(err).class == resultless }

// IsOutcomeUnknown reports whether err is, or wraps, an error marked by OutcomeUnknown.
func IsOutcomeUnknown(err error) bool { return classOf(err).unknown }

type class uint8

const (
	retriable class = iota // also every unmarked error
	permanent
	unavailable
	callFailed
	resultless
	outOfTurn
)

// classified is an error with its class; the outermost one in a chain counts.
type classified struct {
	err     error
	class   class
	delay   time.Duration
	unknown bool // the effect may have taken place
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

// thrown reports whether a marked error is the value of a panic. Such a mark does not count: a panic is not a
// decision of the handler.
func thrown(err error, mark *classified) bool {
	var p *PanicError
	var c *classified
	return errors.As(err, &p) && errors.As(p.Unwrap(), &c) && c == mark
}

// outcomeError is the error of an attempt that may have had its effect, and after which AtMostOnce allows no other.
type outcomeError struct{ cause error }

func (e *outcomeError) Error() string { return ErrOutcomeUnknown.Error() + ": " + e.cause.Error() }

func (e *outcomeError) Unwrap() []error { return []error{ErrOutcomeUnknown, e.cause} }

// isOutcome reports whether err is an outcomeError.
func isOutcome(err error) bool {
	var e *outcomeError
	return errors.As(err, &e)
}

// failureOf is the stored form of a handler's error.
func failureOf(err error) *store.Failure {
	f := &store.Failure{Code: store.CodeError, Message: truncateUTF8(err.Error(), store.MaxFailureMessage)}
	var p *PanicError
	switch {
	case isOutcome(err):
		f.Code = store.CodeOutcomeUnknown
	case errors.As(err, &p):
		f.Code = store.CodePanic
	case errors.Is(err, ErrAttemptsExhausted):
		f.Code = store.CodeExhausted
	case IsPermanent(err):
		f.Code = store.CodePermanent
	case IsUnavailable(err):
		f.Code = store.CodeUnavailable
	case classOf(err).class == callFailed:
		f.Code = store.CodeCallFailed
	}
	return f
}

// isStoreFault reports whether err is a failure of the store: not one of its defined answers, and not a
// cancellation by the caller.
func isStoreFault(err error) bool {
	return err != nil && !answered(err) && !errors.Is(err, store.ErrFingerprintMismatch) &&
		!errors.Is(err, store.ErrContended) && !errors.Is(err, context.Canceled)
}

// truncateUTF8 returns the longest valid prefix of s with at most n bytes. Invalid bytes are replaced.
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
