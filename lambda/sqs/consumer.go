package sqs

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
)

// Consumer processes the batches of a queue's event source mapping. It is a lambda.Handler, and safe for
// concurrent use.
type Consumer struct {
	events  *eventsource.Consumer
	order   kafka.Order
	letters kafka.Destination
	log     *slog.Logger
}

// New returns a consumer. It returns idem.ErrInvalidConfig (wrapped), which names every invalid field.
func New(engine *idem.Engine, handler kafka.Handler, cfg eventsource.Config) (*Consumer, error) {
	c := &Consumer{order: cfg.Records.Order, letters: kafka.DestinationOf(cfg.Records.DeadLetters), log: cfg.Records.Logger}
	if c.log == nil {
		c.log = slog.Default()
	}
	if next := cfg.Records.DeadLetters; next != nil {
		cfg.Records.DeadLetters = explaining{next}
	}
	var err error
	c.events, err = eventsource.New(engine, handler, cfg, name)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Invoke implements lambda.Handler: it decodes the event, processes it and encodes the answer.
func (c *Consumer) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return eventsource.Invoke(ctx, payload, Decode, c.Process)
}

// Process processes an event and returns the partial batch response. A standard queue may deliver a message twice
// in a batch: it is named once. With eventsource.FailBatch it returns an *eventsource.BatchError if there are
// messages to be delivered again. It returns idem.ErrOverrun (wrapped) if a handler did not return: then the process
// must end. It returns idem.ErrInvalidConfig (wrapped) if the event is of the queue of the dead letters.
func (c *Consumer) Process(ctx context.Context, event *Event) (Response, error) {
	if c.letters.IsQueue(event.ARN) {
		return Response{}, fmt.Errorf("sqs: %w: the dead letters are sent to the queue %s, of which this event is: each would become another one: "+
			"want another queue (IDEMSK_DEAD_LETTER_QUEUE_URL)", idem.ErrInvalidConfig, event.ARN)
	}
	resp, named := Response{BatchItemFailures: []BatchItemFailure{}}, make(map[string]bool)
	b, err := c.events.Run(ctx, event.ARN, event.lanes(c.order), func(m *kafka.Message) {
		if id := MessageID(m.Record); !named[id] {
			named[id] = true
			resp.BatchItemFailures = append(resp.BatchItemFailures, BatchItemFailure{id})
		}
	})
	c.warnOfVisibility(ctx, b)
	if err != nil {
		return Response{}, err
	}
	if event.Outcomes {
		for m := range b.Messages() {
			resp.Outcomes = append(resp.Outcomes, MessageOutcome{MessageID(m.Record), m.Outcome.Kind.String()})
		}
	}
	return resp, nil
}

// warnOfVisibility writes a line if messages came again while their own earlier delivery holds their keys. It
// is harmless, but each such delivery counts towards the maxReceiveCount of the queue.
func (c *Consumer) warnOfVisibility(ctx context.Context, b *kafka.Batch) {
	n, example := 0, ""
	for m := range b.Messages() {
		if m.Outcome.Kind == idem.InFlight && !m.Duplicate && m.Outcome.Source == m.Task.Source {
			n, example = n+1, name(m)
		}
	}
	if n > 0 {
		c.log.LogAttrs(ctx, slog.LevelWarn,
			"messages were delivered again while an earlier delivery holds their keys: the visibility timeout of the queue is too short: "+
				"want six times the function's timeout, and more than IDEMSK_LEASE",
			slog.Int("messages", n), slog.String("message", example))
	}
}
