package idem

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/idem/internal/machine"
	"github.com/idemsk/idemsk/idem/store"
)

// The defaults of a SchedulerConfig.
const (
	DefaultConcurrency = 32
	DefaultBackoff     = 500 * time.Millisecond
	DefaultMaxBackoff  = time.Minute
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
	// Backoff is the time before an item of a Stream is tried for the second time (default DefaultBackoff).
	// It doubles with each try, up to MaxBackoff (default DefaultMaxBackoff), less a random part of up to a
	// half. An item whose handler failed also waits for Config.RetryDelay.
	Backoff    time.Duration
	MaxBackoff time.Duration
}

func (c SchedulerConfig) withDefaults() SchedulerConfig {
	if c.Bulk != nil {
		c.Concurrency = cmp.Or(c.Concurrency, 1)
	}
	c.Concurrency = cmp.Or(c.Concurrency, DefaultConcurrency)
	c.Backoff = cmp.Or(c.Backoff, DefaultBackoff)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, max(c.Backoff, DefaultMaxBackoff))
	return c
}

func (c SchedulerConfig) validate() error {
	if c.Concurrency < 0 || c.CallItems < 0 || c.Backoff < 0 || c.MaxBackoff < c.Backoff {
		return fmt.Errorf("%w: Concurrency is %d, CallItems %d, Backoff %v, MaxBackoff %v: want a Concurrency of 1 or more, "+
			"CallItems of 0 or more, and 0 < Backoff <= MaxBackoff",
			ErrInvalidConfig, c.Concurrency, c.CallItems, c.Backoff, c.MaxBackoff)
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
