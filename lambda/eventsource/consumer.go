// Package eventsource has what the event source mappings of Lambda have in common, whatever they read: packages
// lambda/msk and lambda/sqs decode their events and encode the answers.
package eventsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// Consumer processes the records of events. It is safe for concurrent use.
type Consumer struct {
	processor *kafka.Processor
	cfg       Config
	name      func(*kafka.Message) string
}

// New returns a consumer. name returns the name of a record in errors. It returns idem.ErrInvalidConfig (wrapped),
// which names every invalid field.
func New(engine *idem.Engine, handler kafka.Handler, cfg Config, name func(*kafka.Message) string) (*Consumer, error) {
	processor, err := kafka.NewProcessor(engine, handler, cfg.Records)
	if err = errors.Join(err, cfg.validate()); err != nil {
		return nil, err
	}
	return &Consumer{processor: processor, cfg: cfg, name: name}, nil
}

// Run processes the records of a cluster or a queue, in lanes, and calls again for those to be delivered again: in
// every lane, the first record that is not settled and all after it. With FailBatch it returns a *BatchError if
// there are any. It returns idem.ErrOverrun (wrapped) if a handler did not return: then the process must end.
func (c *Consumer) Run(ctx context.Context, source string, lanes [][]kafka.Record, again func(*kafka.Message)) (
	*kafka.Batch, error) {
	b := c.processor.Run(ctx, source, lanes)
	batchErr := unsettled(b, c.name, again)
	c.record(ctx, b, batchErr)
	switch {
	case len(b.Overruns) > 0:
		return b, overrunError(b.Overruns, c.name)
	case batchErr != nil && c.cfg.Failures == FailBatch:
		return b, batchErr
	}
	return b, nil
}

// record logs the batch and calls the report function.
func (c *Consumer) record(ctx context.Context, b *kafka.Batch, batchErr *BatchError) {
	r := b.Report()
	var err error
	if batchErr != nil {
		r.Reported, err = batchErr.Reported, batchErr
	}
	b.Log(ctx, &r, err)
	if c.cfg.Report != nil {
		c.cfg.Report(ctx, r)
	}
}

// Invoke decodes an event, processes it and encodes the answer.
func Invoke[E, R any](ctx context.Context, payload []byte, decode func([]byte) (E, error),
	process func(context.Context, E) (R, error)) ([]byte, error) {
	event, err := decode(payload)
	if err != nil {
		return nil, err
	}
	resp, err := process(ctx, event)
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(resp)
	if err != nil {
		return nil, fmt.Errorf("eventsource: encoding the answer: %w", err)
	}
	return out, nil
}
