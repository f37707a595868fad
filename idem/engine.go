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

// Defaults of a Config.
const (
	DefaultLease           = 30 * time.Second
	DefaultRetention       = 168 * time.Hour
	DefaultMaxAttempts     = 5
	DefaultMaxResult       = 4096
	DefaultDeadlineMargin  = 500 * time.Millisecond
	DefaultCommitWindow    = 256
	DefaultBreakerFailures = 5
	DefaultBreakerCooldown = 5 * time.Second
)

// Bounds of a Config.
const (
	MinLease = 100 * time.Millisecond
	MaxLease = time.Hour
	// MaxResultLimit leaves room in a DynamoDB item (400 KB) for the other attributes.
	MaxResultLimit = 350 << 10
	// MaxCommitWindow is the largest batch that an event source hands over.
	MaxCommitWindow = 10_000
)

// StoreDownPolicy says what to do with a task while the store can't be asked.
type StoreDownPolicy uint8

// The policies for an unavailable store.
const (
	FailClosed StoreDownPolicy = iota // the handler is not called
	FailOpen                          // the handler is called without protection: it may run twice
)

// Config configures an Engine. Every field's zero value stands for its default.
type Config struct {
	// Lease is how long a claim holds a key (default 30 s, from 100 ms to 1 h). A heartbeat extends it at a third, so a
	// handler may take longer; what it bounds is how long the key of a dead process stays taken.
	Lease time.Duration
	// Retention is how long COMPLETED and FAILED are remembered (default 7 days, at least the lease). It must outlive the
	// longest time after which a message may be delivered again.
	Retention time.Duration
	// MaxAttempts is how often a task is begun before it goes to the dead letters (default 5; -1: no limit). Attempts are
	// counted in the store and survive the process. Tasks without DeadLetters have no limit: they have nowhere to go.
	MaxAttempts int
	// MaxResult is the size in bytes of the largest result that is stored (default 4,096, at most 350 KiB; -1: none is).
	// The key of a larger one completes without it.
	MaxResult int
	// DeadlineMargin is kept free between the end of a handler's context and the deadline of the session, for
	// settlements and dead letters (default 500 ms).
	DeadlineMargin time.Duration
	// Wait is how long to wait for a key that is in flight elsewhere (default: until the deadline less the margin, or, in
	// a context without one, for ever; -1: not at all).
	Wait time.Duration
	// CommitWindow is for how many tasks of a session handlers may have returned while their completion is still on its way
	// to the store (default 256; 1 to 10,000). It matters to Session.RunAsync on a store that is a Batcher. A process that dies
	// executes at most so many of them again.
	CommitWindow int
	// ClaimOnCommit leaves out the claim, for stores that are Transactors: the handler runs at once, and the completion takes
	// the key together with the effect, or finds it taken. It saves the claim's request. For that two owners may run their
	// handlers at the same time, of which one commits; the handlers of duplicates run too, for nothing; and an attempt that
	// ends with its process is not counted. It is for handlers that do nothing but what they enlist. Where the key is not
	// simply absent, and after a handler's error, the engine claims as it does otherwise.
	ClaimOnCommit bool
	// HashKeys stores only the SHA-256 of keys, for keys that are personal data.
	HashKeys bool
	// StoreDown says what to do while the store is unavailable (default: the handler is not called).
	StoreDown StoreDownPolicy
	// BreakerFailures is the number of failed claims in a row after which the store is left alone (default 5; -1: never),
	// BreakerCooldown for how long (default 5 s), before one claim is let through to try it.
	BreakerFailures int
	BreakerCooldown time.Duration
}

func (c Config) withDefaults() Config {
	c.Lease = cmp.Or(c.Lease, DefaultLease)
	c.Retention = cmp.Or(c.Retention, DefaultRetention)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, DefaultMaxAttempts)
	c.MaxResult = cmp.Or(c.MaxResult, DefaultMaxResult)
	c.DeadlineMargin = cmp.Or(c.DeadlineMargin, DefaultDeadlineMargin)
	c.CommitWindow = cmp.Or(c.CommitWindow, DefaultCommitWindow)
	c.BreakerFailures = cmp.Or(c.BreakerFailures, DefaultBreakerFailures)
	c.BreakerCooldown = cmp.Or(c.BreakerCooldown, DefaultBreakerCooldown)
	return c
}

func (c Config) validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(c.Lease >= MinLease && c.Lease <= MaxLease, "Lease is %v: want %v to %v", c.Lease, MinLease, MaxLease)
	bad(c.Retention >= c.Lease, "Retention is %v: want at least the lease, %v", c.Retention, c.Lease)
	bad(c.MaxAttempts >= -1, "MaxAttempts is %d: want 1 or more, or -1 for no limit", c.MaxAttempts)
	bad(c.MaxResult >= -1 && c.MaxResult <= MaxResultLimit, "MaxResult is %d bytes: want up to %d, or -1 to store none", c.MaxResult, MaxResultLimit)
	bad(c.DeadlineMargin > 0, "DeadlineMargin is %v: want more than 0", c.DeadlineMargin)
	bad(c.Wait >= -1, "Wait is %v: want 0 or more, or -1 not to wait", c.Wait)
	bad(c.CommitWindow >= 1 && c.CommitWindow <= MaxCommitWindow, "CommitWindow is %d: want 1 to %d", c.CommitWindow, MaxCommitWindow)
	bad(c.StoreDown <= FailOpen, "StoreDown is %d: want FailClosed or FailOpen", c.StoreDown)
	bad(c.BreakerFailures >= -1, "BreakerFailures is %d: want 1 or more, or -1 for no breaker", c.BreakerFailures)
	bad(c.BreakerCooldown > 0, "BreakerCooldown is %v: want more than 0", c.BreakerCooldown)
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
	owners  ownerNames
	batch   int // what one request of the store takes
	// transactor is the store, nil if it is none.
	transactor store.Transactor
}

// New returns an engine on store. It returns ErrInvalidConfig, naming every field at fault.
func New(st store.Store, cfg Config) (*Engine, error) {
	if st == nil {
		return nil, fmt.Errorf("%w: the store is nil", ErrInvalidConfig)
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	e := &Engine{store: st, cfg: cfg, breaker: newBreaker(&cfg), owners: ownerNames{prefix: rand.Text() + "-"}, batch: 1}
	if b, ok := st.(store.Batcher); ok {
		e.batch = max(1, b.BatchSize())
	}
	if e.transactor, _ = st.(store.Transactor); cfg.ClaimOnCommit && e.transactor == nil {
		return nil, fmt.Errorf("%w: ClaimOnCommit: %T commits no effects", ErrInvalidConfig, st)
	}
	return e, nil
}

// BatchSize is how many claims are worth gathering ahead of their turn, and completions behind it: what one request of the
// store takes, 1 if the store is no Batcher. It is 1 too where a single attempt is all there is: a process that dies charges
// one for every claim that it had gathered, begun or not, and for every completion that it had not sent.
func (e *Engine) BatchSize() int {
	if e.cfg.MaxAttempts == 1 {
		return 1
	}
	return e.batch
}

// Config returns the configuration in force, defaults filled in.
func (e *Engine) Config() Config { return e.cfg }

// Do takes one task the whole way: it claims the key, waits while it is in flight elsewhere, runs the handler and settles.
// The session lasts as long as the call.
func (e *Engine) Do(ctx context.Context, task Task) Outcome {
	s := e.Session(ctx)
	defer s.Close()
	claims := []*Claim{{Task: task, TakeOver: true}}
	for {
		s.Claim(claims)
		if !s.Wait(claims[0]) {
			return s.Run(claims[0])
		}
	}
}

// ownerNames makes owners: unique across processes by 128 random bits and more, within one by a counter.
type ownerNames struct {
	prefix string
	n      atomic.Uint64
}

func (o *ownerNames) next() string {
	buf := make([]byte, 0, 48)
	buf = append(buf, o.prefix...)
	return string(strconv.AppendUint(buf, o.n.Add(1), 36))
}
