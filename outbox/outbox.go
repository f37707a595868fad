// Package outbox publishes events in the transaction of a handler's effect: the events are published if and
// only if the effect commits.
//
// A handler calls [Publish]. Publish writes the events to the handler's own transaction, as rows or items. A
// relay sends the committed events to Kafka. The store provides the [Recorder] in the handler's context: see
// packages pgoutbox, for PostgreSQL, and dynamooutbox, for DynamoDB.
//
// A relay sends each event at least once, and the events of one topic and key in order. Each record has the
// event's ID in the headers [IDHeader] and [KeyHeader]. An idemsk consumer uses the second as its idempotency
// key by default, so it handles each event once.
package outbox

import (
	"context"
	"errors"
	"fmt"
)

// Recorder writes events to its transaction. The events are valid and have IDs. Record must not keep the
// slice or modify the events.
type Recorder interface {
	Record(ctx context.Context, events []Event) error
}

// ErrNoTransaction means that the context has no transaction.
var ErrNoTransaction = errors.New("outbox: the context carries no transaction: call Publish with the context of a handler " +
	"that runs in one (pgoutbox.Outbox.Handler, or dynamooutbox.Handler, around it), " +
	"or pass the transaction yourself (pgoutbox.Publish)")

type recorderKey struct{}

// recorder is the value in a context.
type recorder struct {
	Recorder
	maxSize int
}

// NewContext returns a context in which Publish writes to r. An event may have up to maxSize bytes, as
// counted by Event.Size; 0 means DefaultMaxSize. Stores call it.
func NewContext(ctx context.Context, r Recorder, maxSize int) context.Context {
	return context.WithValue(ctx, recorderKey{}, recorder{r, maxSize})
}

type headersKey struct{}

// WithHeaders returns a context in which each published event gets the headers that a function returns for
// the context of Publish, except those whose name the event has. Tracing uses it: an event carries the trace
// in which it was published.
func WithHeaders(ctx context.Context, of func(ctx context.Context) []Header) context.Context {
	return context.WithValue(ctx, headersKey{}, of)
}

// Publish writes events to the transaction of ctx, in this order. They are published if the transaction
// commits. It returns ErrNoTransaction if ctx has no transaction. If events are invalid, it writes nothing,
// returns ErrInvalidEvent (wrapped) and names each of them. A handler must return any other error, because
// its transaction may be unable to commit.
func Publish(ctx context.Context, events ...Event) error {
	r, ok := ctx.Value(recorderKey{}).(recorder)
	if !ok {
		return ErrNoTransaction
	}
	prepared, err := Prepare(ctx, events, r.maxSize)
	if err != nil || len(prepared) == 0 {
		return err
	}
	if err := r.Record(ctx, prepared); err != nil {
		return fmt.Errorf("outbox: publishing %d events, the first %s: %w", len(prepared),
			prepared[0].describe(), err)
	}
	return nil
}
