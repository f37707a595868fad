package esm

import (
	"context"
	"fmt"

	"github.com/idemsk/idemsk/internal/mskevent"
)

// Invocation is one call of the function.
type Invocation struct {
	Poller  int
	Batch   string         // for messages: "payments-3@17+500"
	First   mskevent.Place // the first record of the batch, the same in each delivery
	Number  int            // the number of the batch's invocation, from 1
	Records int
	// Delivered are the records, which must not be changed.
	Delivered []Record
	Payload   []byte // the event, at most MaxPayload bytes; must not be changed, or read after the return
}

// Answer is the result of an invocation.
type Answer struct {
	RequestID string
	Payload   []byte // of a success
	// FunctionError is not empty if the function failed: it returned an error, exceeded its timeout or died.
	// Lambda's value is "Unhandled". Message describes the failure.
	FunctionError, Message string
	// Injected is true if the failure is an injected fault.
	Injected bool
}

// Invoker invokes the function. Each poller has its own, and does not call it concurrently. Close may be
// called at any time.
type Invoker interface {
	// Invoke returns an answer, also if the function failed. An error means that the function could not be
	// invoked. An *UnavailableError is retried and does not count as a retry; any other error ends the
	// mapping.
	Invoke(ctx context.Context, inv *Invocation) (Answer, error)
	// Close ends the function's process, if the invoker started one.
	Close(ctx context.Context)
}

// UnavailableError means that the function can't be invoked now: it is throttled, or its endpoint is
// unreachable.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string {
	return "the function can't be invoked now: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Destination is an on-failure destination. Send returns when the destination has the message.
type Destination interface {
	fmt.Stringer
	Send(ctx context.Context, f *Failure) error
}

// Faults injects faults.
type Faults interface {
	// Again reports whether a finished batch is delivered again before its offsets are committed, as after a
	// rebalance. first is its first record.
	Again(first mskevent.Place) bool
}
