package msk

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/batch"
)

// Consumer takes batches through an engine. It is a lambda.Handler, and safe for concurrent use.
type Consumer struct {
	engine    *idem.Engine
	handler   Handler
	cfg       Config
	scheduler *batch.Scheduler
}

// New returns a consumer. It returns idem.ErrInvalidConfig (wrapped), naming every field at fault.
func New(engine *idem.Engine, handler Handler, cfg Config) (*Consumer, error) {
	if engine == nil || handler == nil {
		return nil, fmt.Errorf("msk: %w: the engine and the handler must not be nil", idem.ErrInvalidConfig)
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	scheduler, err := batch.New(engine, batch.Config{Concurrency: cfg.Concurrency})
	if err != nil {
		return nil, err
	}
	return &Consumer{engine: engine, handler: handler, cfg: cfg, scheduler: scheduler}, nil
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

// Process processes an event and returns what the ESM is to be told. Its error is a *BatchError under FailBatch if there are
// records to be delivered again, or batch.ErrOverrun (wrapped) if a handler did not return: then the process must end.
func (c *Consumer) Process(ctx context.Context, event *Event) (Response, error) {
	started := time.Now()
	b := c.newBatch(event)
	overruns := c.scheduler.Run(ctx, b.lanes())
	for i := range b.jobs {
		if j := &b.jobs[i]; j.State == batch.Ended {
			j.explain()
		}
	}
	resp, batchErr := b.answer()
	b.report(ctx, batchErr, started)
	switch {
	case len(overruns) > 0:
		return Response{}, overrunError(overruns)
	case batchErr != nil && c.cfg.Failures == FailBatch:
		return Response{}, batchErr
	}
	return resp, nil
}
