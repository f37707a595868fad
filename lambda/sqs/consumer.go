package sqs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

// Consumer processes the batches of a queue's event source mapping. It is a lambda.Handler, and safe for
// concurrent use.
type Consumer struct {
	processor *kafka.Processor
	cfg       msk.Config
	letters   kafka.Destination
	log       *slog.Logger
}

// New returns a consumer. The configuration is that of a consumer of Kafka events. It returns
// idem.ErrInvalidConfig (wrapped), which names every invalid field.
func New(engine *idem.Engine, handler kafka.Handler, cfg msk.Config) (*Consumer, error) {
	letters := kafka.DestinationOf(cfg.Records.DeadLetters)
	if next := cfg.Records.DeadLetters; next != nil {
		cfg.Records.DeadLetters = explaining{next}
	}
	processor, err := kafka.NewProcessor(engine, handler, cfg.Records)
	if cfg.Failures > msk.FailPartial {
		err = errors.Join(err, fmt.Errorf("sqs: %w: Failures is %d: want msk.FailBatch or msk.FailPartial",
			idem.ErrInvalidConfig, cfg.Failures))
	}
	if err != nil {
		return nil, err
	}
	log := cfg.Records.Logger
	if log == nil {
		log = slog.Default()
	}
	return &Consumer{processor: processor, cfg: cfg, letters: letters, log: log}, nil
}

// Invoke implements lambda.Handler: it decodes the event, processes it and encodes the answer.
func (c *Consumer) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	event, err := Decode(payload)
	if err != nil {
		return nil, err
	}
	resp, err := c.Process(ctx, event)
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(resp)
	if err != nil {
		return nil, fmt.Errorf("sqs: encoding the answer: %w", err)
	}
	return out, nil
}

// Process processes an event and returns the partial batch response. With msk.FailBatch it returns a
// *msk.BatchError if there are messages to be delivered again. It returns idem.ErrOverrun (wrapped) if a
// handler did not return: then the process must end. It returns idem.ErrInvalidConfig (wrapped) if the event is
// of the queue of the dead letters.
func (c *Consumer) Process(ctx context.Context, event *Event) (Response, error) {
	if c.letters.IsQueue(event.ARN) {
		return Response{}, fmt.Errorf("sqs: %w: the dead letters are sent to the queue %s, of which this event is: each would become another one: "+
			"want another queue (IDEMSK_DEAD_LETTER_QUEUE_URL)", idem.ErrInvalidConfig, event.ARN)
	}
	b := c.processor.Run(ctx, event.ARN, event.lanes(c.cfg.Records.Order))
	resp, batchErr := answer(b, event.Outcomes)
	c.record(ctx, b, batchErr)
	switch {
	case len(b.Overruns) > 0:
		return Response{}, msk.OverrunError(b.Overruns, name)
	case batchErr != nil && c.cfg.Failures == msk.FailBatch:
		return Response{}, batchErr
	}
	return resp, nil
}

// record logs the batch and calls the report function.
func (c *Consumer) record(ctx context.Context, b *kafka.Batch, batchErr *msk.BatchError) {
	r := b.Report()
	var err error
	if batchErr != nil {
		r.Reported, err = batchErr.Reported, batchErr
	}
	b.Log(ctx, &r, err)
	c.warnOfVisibility(ctx, b)
	if c.cfg.Report != nil {
		c.cfg.Report(ctx, r)
	}
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
