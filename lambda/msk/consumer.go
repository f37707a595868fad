package msk

import (
	"context"
	"fmt"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
)

// Consumer processes the batches of an event source mapping. It is a lambda.Handler, and safe for concurrent
// use.
type Consumer struct {
	events  *eventsource.Consumer
	letters kafka.Destination
}

// New returns a consumer. It returns idem.ErrInvalidConfig (wrapped), which names every invalid field.
func New(engine *idem.Engine, handler kafka.Handler, cfg eventsource.Config) (*Consumer, error) {
	events, err := eventsource.New(engine, handler, cfg, source)
	if err != nil {
		return nil, err
	}
	return &Consumer{events: events, letters: kafka.DestinationOf(cfg.Records.DeadLetters)}, nil
}

// Invoke implements lambda.Handler: it decodes the event, processes it and encodes the answer.
func (c *Consumer) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return eventsource.Invoke(ctx, payload, Decode, c.Process)
}

// Process processes an event and returns the partial batch response. With eventsource.FailBatch it returns an
// *eventsource.BatchError if there are records to be delivered again. It returns idem.ErrOverrun (wrapped) if a
// handler did not return: then the process must end. It returns idem.ErrInvalidConfig (wrapped) if the event is of
// the topic of the dead letters.
func (c *Consumer) Process(ctx context.Context, event *Event) (Response, error) {
	if topic := c.letters.Topic; topic != "" && event.hasTopic(topic) {
		return Response{}, fmt.Errorf("msk: %w: the dead letters are sent to the topic %q, of which this event is: each would become another one: "+
			"want another topic (IDEMSK_DEAD_LETTER_TOPIC), or remove it from the event source", idem.ErrInvalidConfig, topic)
	}
	resp := Response{BatchItemFailures: []BatchItemFailure{}}
	b, err := c.events.Run(ctx, event.cluster(), event.Partitions, func(m *kafka.Message) {
		resp.BatchItemFailures = append(resp.BatchItemFailures, BatchItemFailure{place(m)})
	})
	if err != nil {
		return Response{}, err
	}
	if event.Outcomes {
		for m := range b.Messages() {
			resp.Outcomes = append(resp.Outcomes, RecordOutcome{place(m), m.Outcome.Kind.String()})
		}
	}
	return resp, nil
}
