// Package outbox publishes events that commit with the effect of a handler: either both take place, or neither does.
//
// A handler calls [Publish]. The events go into the handler's own transaction, as rows or items beside its other writes, and
// a relay sends what has been committed to Kafka. What carries out the write is the [Recorder] that the store has put into the
// handler's context: see packages pgoutbox, for PostgreSQL, and dynamooutbox, for DynamoDB.
//
// A relay sends an event at least once, and the events of one topic and key in their order. Each record bears the event's ID
// in the headers [IDHeader] and [KeyHeader]: an idemsk consumer, which by default takes the latter for its idempotency key, handles
// each event once.
package outbox

import (
	"context"
	"errors"
	"fmt"
)

// Recorder writes events to the transaction that it belongs to. The events are valid, and have their IDs. It must not keep
// the slice, nor change what the events hold.
type Recorder interface {
	Record(ctx context.Context, events []Event) error
}

// ErrNoTransaction says that there is no transaction to publish in. The error tells what to do.
var ErrNoTransaction = errors.New("outbox: the context carries no transaction: call Publish with the context of a handler " +
	"that runs in one (pgoutbox.Outbox.Handler, or dynamooutbox.Handler, around it), " +
	"or give the transaction yourself (pgoutbox.Publish)")

type recorderKey struct{}

// recorder is what a context carries.
type recorder struct {
	Recorder
	maxSize int
}

// NewContext returns a context in which Publish writes to r. Stores call it. An event may have up to maxSize bytes, as
// Event.Size counts them; 0 stands for DefaultMaxSize.
func NewContext(ctx context.Context, r Recorder, maxSize int) context.Context {
	return context.WithValue(ctx, recorderKey{}, recorder{r, maxSize})
}

// Publish writes events to the transaction that ctx carries, in this order: they are published when it commits, and are not
// when it is rolled back. It returns ErrNoTransaction where ctx carries none. It returns ErrInvalidEvent, naming every event
// at fault, before anything is written. After any other error return that error from the handler, as the transaction may
// not be able to commit.
func Publish(ctx context.Context, events ...Event) error {
	r, ok := ctx.Value(recorderKey{}).(recorder)
	if !ok {
		return ErrNoTransaction
	}
	prepared, err := Prepare(events, r.maxSize)
	if err != nil || len(prepared) == 0 {
		return err
	}
	if err := r.Record(ctx, prepared); err != nil {
		return fmt.Errorf("outbox: publishing %d events, the first %s: %w", len(prepared), prepared[0].describe(), err)
	}
	return nil
}
