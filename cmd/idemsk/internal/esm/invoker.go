package esm

import (
	"context"
	"fmt"

	"github.com/idemsk/idemsk/internal/mskevent"
)

// Invocation is one call of the function.
type Invocation struct {
	Poller  int
	Batch   string         // names the batch, for people: "payments-3@17+500"
	First   mskevent.Place // of the batch: the same however often it is delivered
	Number  int            // counts the batch's invocations, from 1
	Records int
	Payload []byte // the event, at most MaxPayload bytes; not to be changed, nor looked at after the return
}

// Answer is what came of an invocation.
type Answer struct {
	RequestID string
	Payload   []byte // of a success
	// FunctionError is not empty if the function failed: it reported an error, ran out of its time or died. Lambda says
	// "Unhandled". Message is what happened then, for people.
	FunctionError, Message string
	// Injected says that the failure is one of the run's faults, and not the function's own.
	Injected bool
}

// Invoker invokes the function. Each poller has its own and calls it once at a time; Close may be called at any time.
type Invoker interface {
	// Invoke returns an answer, also when the function failed. Its error says that the function could not be invoked: an
	// *UnavailableError is tried again without counting as a retry, any other ends the mapping.
	Invoke(ctx context.Context, inv *Invocation) (Answer, error)
	// Close leaves nothing running.
	Close(ctx context.Context)
}

// UnavailableError says that the function can't be invoked now: it is throttled, or its endpoint is away.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string {
	return "the function can't be invoked now: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Destination gets what is given up. Send returns when the destination has it.
type Destination interface {
	fmt.Stringer
	Send(ctx context.Context, f *Failure) error
}

// Faults makes come to pass what a cluster does only now and then.
type Faults interface {
	// Again reports whether a batch that is done with, named by its first record, is delivered once more before its offsets
	// are committed, as when partitions change hands.
	Again(first mskevent.Place) bool
}
