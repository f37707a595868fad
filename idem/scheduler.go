package idem

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/idem/internal/machine"
	"github.com/idemsk/idemsk/idem/store"
)

// DefaultConcurrency is the default of SchedulerConfig.Concurrency without Bulk.
const DefaultConcurrency = 32

// The pauses of an item of a Stream between its tries.
const (
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = time.Minute
)

// ErrOverrun means that a handler or a dead-letter sink had not returned when the run ended, although its
// context had ended. The key stays claimed until the lease ends.
var ErrOverrun = errors.New("idem: a handler did not return when its context ended")

// ErrBehind means that an item was not tried, because an earlier item of its lane is not settled.
var ErrBehind = errors.New("idem: not tried: an earlier item of its lane is not settled")

// DefaultCommitWindow returns a commit window of the engine that does not bound the handlers of a concurrency,
// unless they are faster than the store: each may begin the next item before the completion of the last one is
// answered.
func DefaultCommitWindow(concurrency int) int {
	return min(max(Defaults().CommitWindow, 2*concurrency), store.MaxCommitWindow)
}

// SchedulerConfig configures a Scheduler. Every field's zero value stands for its default.
type SchedulerConfig struct {
	// Concurrency is the number of calls of handlers at once (default DefaultConcurrency, and 1 for Bulk).
	Concurrency int
	// Bulk handles the items, if it is not nil. The handlers of the items' tasks are called only for tasks of a
	// Substitute, and for rejected tasks.
	Bulk BulkHandler
	// CallItems is the maximum number of items in a call of Bulk (default: no other limit than the commit window
	// of the engine, which the calls at once share).
	CallItems int
	// Backoff is the time before an item of a Stream is tried for the second time (default 500 ms). It doubles
	// with each try, up to a minute, less a random part of up to a half. An item whose handler failed also waits
	// for Config.RetryDelay.
	Backoff time.Duration
}

func (c SchedulerConfig) withDefaults() SchedulerConfig {
	if c.Bulk != nil {
		c.Concurrency = cmp.Or(c.Concurrency, 1)
	}
	c.Concurrency = cmp.Or(c.Concurrency, DefaultConcurrency)
	c.Backoff = cmp.Or(c.Backoff, firstBackoff)
	return c
}

func (c SchedulerConfig) validate() error {
	if c.Concurrency < 0 || c.CallItems < 0 || c.Backoff < 0 {
		return fmt.Errorf("%w: Concurrency is %d, CallItems %d, Backoff %v: want a Concurrency of 1 or more, "+
			"CallItems of 0 or more, and a Backoff of more than 0",
			ErrInvalidConfig, c.Concurrency, c.CallItems, c.Backoff)
	}
	return nil
}

// Scheduler runs items through an engine. It estimates the latency of handlers, so a process should have one.
// It is safe for concurrent use.
type Scheduler struct {
	engine  *Engine
	cfg     SchedulerConfig
	latency machine.Estimate
	calls   callSizes // of bulk handlers
}

// NewScheduler returns a scheduler. It returns ErrInvalidConfig (wrapped), which names every invalid field.
func NewScheduler(engine *Engine, cfg SchedulerConfig) (*Scheduler, error) {
	if engine == nil {
		return nil, fmt.Errorf("%w: the engine is nil", ErrInvalidConfig)
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Scheduler{engine: engine, cfg: cfg}, nil
}
