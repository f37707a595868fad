package idem

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// Defaults returns the configuration that the zero Config stands for.
func Defaults() Config {
	return Config{
		Lease:          30 * time.Second,
		Retention:      168 * time.Hour,
		MaxAttempts:    5,
		RetryDelay:     time.Second,
		MaxResult:      4096,
		DeadlineMargin: 500 * time.Millisecond,
		CommitWindow:   256,
		OutageFailures: 5,
	}
}

// Bounds of a Config.
const (
	// MaxRetryDelay is the maximum time between two attempts, unless the handler asks for a longer one by
	// RetryAfter.
	MaxRetryDelay = 5 * time.Minute
)

// Config configures an Engine. Every field's zero value stands for its default.
type Config struct {
	// Lease is how long a claim holds a key (default 30 s, from 100 ms to 1 h). A heartbeat extends it at
	// each third, so a handler may take longer. It bounds how long the key of a dead process stays claimed.
	Lease time.Duration
	// Retention is how long COMPLETED and FAILED entries are kept (default 7 days, at least the lease). It
	// must be longer than the longest time after which a message may be redelivered.
	Retention time.Duration
	// MaxAttempts is the number of attempts before a task goes to its dead-letter sink (default 5; -1: no
	// limit). Attempts are counted in the store and survive the process. Tasks without DeadLetters have no
	// limit.
	MaxAttempts int
	// RetryDelay is how long the key of a failed task can't be claimed again after its first attempt (default
	// 1 s, up to MaxRetryDelay; -1: not at all). Each further attempt makes it four times as long, up to
	// MaxRetryDelay, less a random part of up to a quarter. It is kept in the store: with the defaults the
	// fifth attempt begins at least a minute after the first, whatever redelivers the message, so that an
	// outage of a minute uses up no attempts. RetryAfter overrides it for an error.
	RetryDelay time.Duration
	// MaxResult is the maximum size in bytes of a stored result (default 4,096, at most 350 KiB; -1: no
	// result is stored). The key of a larger result completes without it.
	MaxResult int
	// DeadlineMargin is the time between the end of the handlers' contexts and the deadline of the session,
	// for settlements and dead letters (default 500 ms).
	DeadlineMargin time.Duration
	// Wait is how long to wait for a key that is in flight elsewhere (default: until the deadline less the
	// margin, or, in a context without one, for ever; -1: not at all).
	Wait time.Duration
	// CommitWindow is the maximum number of tasks of a session whose handler has begun and whose completion is
	// not confirmed yet (default 256; 1 to 10,000). It applies to a Scheduler on a store that is a
	// Batcher. So it also bounds the handlers that run at once, and the tasks that are executed again after
	// the death of a process.
	CommitWindow int
	// AtMostOnce never calls the handler again for a key of which an attempt has begun and may have had its
	// effect: its process died, the completion could not be stored, or the handler panicked, returned a
	// timeout or an error marked by OutcomeUnknown. Such a task gets a dead letter with ErrOutcomeUnknown, and
	// a redrive of this letter does not open its key. Any other error says that there was no effect, and is
	// retried. Tasks must have DeadLetters. Nothing is prefetched or committed in groups. It excludes
	// FailOpen.
	AtMostOnce bool
	// Unbatched turns batches off: each claim and each settlement is a call of its own, also on a store that
	// is a Batcher, and nothing is prefetched or committed in groups.
	Unbatched bool
	// HashKeys stores only the SHA-256 of keys, for keys that are personal data.
	HashKeys bool
	// FailOpen calls handlers without protection while the store is unavailable: they may run twice.
	// Otherwise they are not called.
	FailOpen bool
	// OutageFailures is the number of different keys whose first attempts must fail one after another, with
	// no success between them, for the engine to regard it as an outage of what the handler needs (default 5;
	// -1: never). It then gives back the attempts, also the last ones, except those of Permanent errors and
	// of processes that died, and lets one task at a time try the handler, after pauses of 1 s to 1 minute.
	// All other tasks end with ErrHandlerDown. The first success ends the outage.
	OutageFailures int
	// OutageLimit is the time from the beginning of an outage after which attempts count again and all tasks
	// are tried (default: none), so that messages that always fail become dead letters.
	OutageLimit time.Duration
	// Observer is told what happens to tasks, if it is not nil.
	Observer Observer
}

func (c Config) withDefaults() Config {
	d := Defaults()
	c.Lease = cmp.Or(c.Lease, d.Lease)
	c.Retention = cmp.Or(c.Retention, d.Retention)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, d.MaxAttempts)
	c.RetryDelay = cmp.Or(c.RetryDelay, d.RetryDelay)
	c.MaxResult = cmp.Or(c.MaxResult, d.MaxResult)
	c.DeadlineMargin = cmp.Or(c.DeadlineMargin, d.DeadlineMargin)
	c.CommitWindow = cmp.Or(c.CommitWindow, d.CommitWindow)
	c.OutageFailures = cmp.Or(c.OutageFailures, d.OutageFailures)
	return c
}

func (c Config) validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(c.Lease >= store.MinLease && c.Lease <= store.MaxLease, "Lease is %v: want %v to %v", c.Lease,
		store.MinLease, store.MaxLease)
	bad(c.Retention >= c.Lease, "Retention is %v: want at least the lease, %v", c.Retention, c.Lease)
	bad(c.MaxAttempts >= -1, "MaxAttempts is %d: want 1 or more, or -1 for no limit", c.MaxAttempts)
	bad(c.RetryDelay >= -1 && c.RetryDelay <= MaxRetryDelay,
		"RetryDelay is %v: want up to %v, or -1 for none", c.RetryDelay, MaxRetryDelay)
	bad(c.MaxResult >= -1 && c.MaxResult <= store.MaxResult,
		"MaxResult is %d bytes: want up to %d, or -1 to store none", c.MaxResult, store.MaxResult)
	bad(c.DeadlineMargin > 0, "DeadlineMargin is %v: want more than 0", c.DeadlineMargin)
	bad(c.Wait >= -1, "Wait is %v: want 0 or more, or -1 not to wait", c.Wait)
	bad(c.CommitWindow >= 1 && c.CommitWindow <= store.MaxCommitWindow, "CommitWindow is %d: want 1 to %d",
		c.CommitWindow, store.MaxCommitWindow)
	bad(c.OutageFailures >= -1, "OutageFailures is %d: want 1 or more, or -1 for never", c.OutageFailures)
	bad(c.OutageLimit >= 0, "OutageLimit is %v: want 0 or more", c.OutageLimit)
	bad(!c.AtMostOnce || !c.FailOpen,
		"AtMostOnce with FailOpen: an attempt without a claim leaves no trace: unset FailOpen")
	if len(errs) > 0 {
		return fmt.Errorf("%w: %w", ErrInvalidConfig, errors.Join(errs...))
	}
	return nil
}

// Engine takes tasks through the states of their keys. It is safe for concurrent use.
type Engine struct {
	store   store.Store
	cfg     Config
	breaker *breaker
	outage  *outage
	owners  ownerNames
	batch   int // what one request of the store takes
	// transactor is the store, nil if it is none.
	transactor store.Transactor
	calls      callStore // the store, nil if it is no CallTransactor
}

// New returns an engine on a store. It returns ErrInvalidConfig, which names every invalid field.
func New(st store.Store, cfg Config) (*Engine, error) {
	if st == nil {
		return nil, fmt.Errorf("%w: the store is nil", ErrInvalidConfig)
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	e := &Engine{store: st, cfg: cfg, breaker: newBreaker(), outage: newOutage(&cfg),
		owners: ownerNames{prefix: rand.Text()[:ownerPrefix] + "-"}, batch: 1}
	if b, ok := st.(store.Batcher); ok {
		e.batch = max(1, b.BatchSize())
	}
	if cfg.Unbatched {
		e.store, e.batch = unbatched{st}, 1
	}
	e.transactor, _ = st.(store.Transactor)
	e.calls, _ = st.(callStore)
	return e, nil
}

// batchSize returns how many claims to prefetch, and how many completions to send together: what one request
// of the store takes, or 1 if the store is no Batcher. It is also 1 with AtMostOnce, and if MaxAttempts is 1,
// because a process that dies counts an attempt for every claim that it has prefetched and every completion
// that it has not sent.
func (e *Engine) batchSize() int {
	if e.cfg.MaxAttempts == 1 || e.cfg.AtMostOnce {
		return 1
	}
	return e.batch
}

const (
	smallRequest    = 32 // the maximum size of a request for partial ones
	partialRequests = 8  // see Engine.partialRequests
)

// partialRequests returns how many requests may be in progress before a caller without batches sends only full
// ones: 8, or 0 if partial requests are sent alone. Beside n requests in progress, a partial one has at least n
// eighths of a full one, so that a task waits less while there are few. A store with small requests gets them,
// such as DynamoDB with 25 elements, which answers many requests at once. PostgreSQL and Redis take 100: one
// server answers all requests, and is faster with few large ones.
func (e *Engine) partialRequests() int {
	if e.batchSize() > smallRequest {
		return 0
	}
	return partialRequests
}

// handlerDown reports whether there is an outage of what the handler needs (Config.OutageFailures), and how
// long no task can try the handler: 0 if one can.
func (e *Engine) handlerDown() (wait time.Duration, down bool) { return e.outage.wait(time.Now()) }

// Config returns the configuration in force, defaults filled in.
func (e *Engine) Config() Config { return e.cfg }

// Do runs one task: it claims the key, waits while it is in flight elsewhere, runs the handler and settles
// the key.
func (e *Engine) Do(ctx context.Context, task Task) Outcome {
	s := e.newSession(ctx)
	defer s.Close()
	claims := []*claim{{Task: task}}
	claim := claims[0]
	for {
		claim.TakeOver = !e.cfg.AtMostOnce || claim.State() == store.ClaimLeaseOver
		s.Claim(claims)
		if claim.State() != store.ClaimLeaseOver && !s.Wait(claim) {
			break
		}
	}
	out := s.Run(claim)
	if e.cfg.Observer != nil {
		end := out
		e.cfg.Observer.Observe(s.ctx, end.End(&claim.Task))
	}
	return out
}

// ownerPrefix is the number of characters of an owner's name that are random: 80 bits. Stores keep the name with
// each key, and two owners with one name are a danger only if they claim the same key.
const ownerPrefix = 16

// ownerNames makes owner names, which are unique across processes by random bits, and within a process by a
// counter.
type ownerNames struct {
	prefix string
	n      atomic.Uint64
}

func (o *ownerNames) next() string {
	buf := make([]byte, 0, 48)
	buf = append(buf, o.prefix...)
	return string(strconv.AppendUint(buf, o.n.Add(1), 36))
}
