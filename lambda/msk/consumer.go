package msk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// Consumer processes the batches of an event source mapping. It is a lambda.Handler, and safe for concurrent
// use.
type Consumer struct {
	processor *kafka.Processor
	letters   kafka.DeadLetters
	failures  Failures
	report    func(ctx context.Context, r kafka.Report)
}

// New returns a consumer. It returns idem.ErrInvalidConfig (wrapped), which names every invalid field.
func New(engine *idem.Engine, handler kafka.Handler, cfg Config) (*Consumer, error) {
	processor, err := kafka.NewProcessor(engine, handler, cfg.Records)
	if err = errors.Join(err, cfg.validate()); err != nil {
		return nil, err
	}
	return &Consumer{processor: processor, letters: cfg.Records.DeadLetters, failures: cfg.Failures, report: cfg.Report}, nil
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
		return nil, fmt.Errorf("msk: encoding the answer: %w", err)
	}
	return out, nil
}

// Process processes an event and returns the partial batch response. With FailBatch it returns a *BatchError
// if there are records to be delivered again. It returns idem.ErrOverrun (wrapped) if a handler did not
// return: then the process must end. It returns idem.ErrInvalidConfig (wrapped) if the event is of the topic
// of the dead letters.
func (c *Consumer) Process(ctx context.Context, event *Event) (Response, error) {
	if topic := kafka.DestinationOf(c.letters).Topic; topic != "" && event.hasTopic(topic) {
		return Response{}, fmt.Errorf("msk: %w: the dead letters are sent to the topic %q, of which this event is: each would become another one: "+
			"want another topic (IDEMSK_DEAD_LETTER_TOPIC), or remove it from the event source", idem.ErrInvalidConfig, topic)
	}
	b := c.processor.Run(ctx, event.cluster(), event.Partitions)
	resp, batchErr := answer(b, event.Outcomes)
	c.record(ctx, b, batchErr)
	switch {
	case len(b.Overruns) > 0:
		return Response{}, OverrunError(b.Overruns, source)
	case batchErr != nil && c.failures == FailBatch:
		return Response{}, batchErr
	}
	return resp, nil
}

// record logs the batch and calls the report function.
func (c *Consumer) record(ctx context.Context, b *kafka.Batch, batchErr *BatchError) {
	r := b.Report()
	var err error
	if batchErr != nil {
		r.Reported, err = batchErr.Reported, batchErr
	}
	b.Log(ctx, &r, err)
	if c.report != nil {
		c.report(ctx, r)
	}
}
