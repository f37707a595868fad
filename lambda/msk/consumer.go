package msk

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/idemsk/idemsk/idem"
)

// Consumer takes batches through an engine. It is a lambda.Handler, and safe for concurrent use.
type Consumer struct {
	engine  *idem.Engine
	handler Handler
	cfg     Config
	typical typical
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
	return &Consumer{engine: engine, handler: handler, cfg: cfg}, nil
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
// records to be delivered again, or ErrStray (wrapped) if a handler did not return: then the process must end.
func (c *Consumer) Process(ctx context.Context, event *Event) (Response, error) {
	started := time.Now()
	session := c.engine.Session(ctx)
	defer session.Close()
	b := &batch{
		consumer: c,
		session:  session,
		ctx:      session.Handlers(),
		slots:    semaphore.NewWeighted(int64(c.cfg.Concurrency)),
	}
	b.plan(event)
	b.ahead = b.share()
	strays := b.run(ctx)
	resp, batchErr := b.answer(event)
	b.report(ctx, event, batchErr, started)
	switch {
	case len(strays) > 0:
		return Response{}, strayError(strays)
	case batchErr != nil && c.cfg.Failures == FailBatch:
		return Response{}, batchErr
	}
	return resp, nil
}
