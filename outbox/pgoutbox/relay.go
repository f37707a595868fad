package pgoutbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/internal/network/silence"
	"github.com/idemsk/idemsk/internal/pg/pgtrip"
	"github.com/idemsk/idemsk/outbox"
)

// The defaults of RelayConfig.
const (
	DefaultBatch         = 1000
	DefaultWorkers       = 2
	DefaultMaxAttempts   = 8
	DefaultRetryDelay    = time.Second
	DefaultMaxRetryDelay = time.Minute
	DefaultRetention     = 24 * time.Hour
	DefaultPollInterval  = 500 * time.Millisecond
	DefaultStatsInterval = 10 * time.Second

	DefaultRoundTripTimeout = 10 * time.Second
	DefaultIdleLimit        = time.Minute
)

// Sender sends events to Kafka; *relay.Producer implements it.
type Sender interface {
	// Send returns an error for each event that it did not publish. relay.ErrRejected counts as an attempt of
	// the event.
	Send(ctx context.Context, events []outbox.Event) []error
	// Ping returns an error if Kafka can't be reached.
	Ping(ctx context.Context) error
}

// RelayConfig configures a Relay. The zero value of a field means its default.
type RelayConfig struct {
	// Batch is the maximum number of events that are read, sent and marked together. Batches of large events
	// are smaller. Default: DefaultBatch.
	Batch int
	// Workers is the number of concurrent batches, each with its own connection. Default: DefaultWorkers.
	Workers int
	// MaxAttempts is the number of rejections by Kafka after which an event is parked. Default:
	// DefaultMaxAttempts.
	MaxAttempts int
	// RetryDelay is the delay after the first rejection of an event. It applies to all events of the key, and
	// doubles at each attempt up to MaxRetryDelay, which is also the longest pause of a topic that is not
	// available while others are. Defaults: DefaultRetryDelay, DefaultMaxRetryDelay.
	RetryDelay, MaxRetryDelay time.Duration
	// Retention is how long published rows are kept. -1 deletes them when they are published. Default:
	// DefaultRetention.
	Retention time.Duration
	// PollInterval is the maximum time between two reads of an idle worker. Otherwise a worker reads when an
	// event is published, except behind a connection pooler. Default: DefaultPollInterval.
	PollInterval time.Duration
	// RoundTripTimeout is how long PostgreSQL may be silent in a round trip. The worker then uses a new
	// connection. Default: DefaultRoundTripTimeout.
	RoundTripTimeout time.Duration
	// IdleLimit is how long the transaction of a batch may be idle before PostgreSQL ends it, at least a
	// millisecond. It bounds how long a failed host blocks the events of its batch. It must exceed the
	// Sender's timeout. Default: DefaultIdleLimit.
	IdleLimit time.Duration
	// Stats is called at each StatsInterval and once before Run returns, never concurrently. Default of
	// StatsInterval: DefaultStatsInterval.
	Stats         func(Stats)
	StatsInterval time.Duration
	// Logger logs failures, and rejected events: the first of a topic, and at each StatsInterval the number of
	// the others. Default: slog.Default().
	Logger *slog.Logger
}

// Stats are the counts of a relay since the last Stats, and the state of the table.
type Stats struct {
	// Published, Rejected and Parked count events of this relay since the last Stats. A rejected event is
	// retried or parked.
	Published, Rejected, Parked int64
	// Failures counts the batches that failed because Kafka or the database was unavailable. LastFailure is
	// the last error, nil if there was none.
	Failures    int64
	LastFailure error
	// Pending is the number of rows to be published, TotalParked the number of parked rows in the table, each
	// up to 100,000.
	Pending, TotalParked int64
	// OldestAge is the age of the oldest pending row, 0 if there is none.
	OldestAge time.Duration
	// Unknown means that the table could not be read: Pending, TotalParked and OldestAge are not known.
	Unknown bool
}

// Relay sends the events of a table to Kafka. Any number of relays in any number of processes may run on one
// table.
type Relay struct {
	outbox *Outbox
	pool   *pgtrip.Pool
	sender Sender
	cfg    RelayConfig

	published, rejected, parked, failures atomic.Int64
	notices                               *notices
	pauses                                *pauses
	unmarked                              *unmarked
	pooled                                sync.Once // logs that there is a pooler

	mu          sync.Mutex
	lastFailure error
}

// NewRelay returns a relay. The caller closes the pool and the sender. The pool's URL should set
// connect_timeout, because pgx has no default. If cfg is invalid, it returns ErrInvalidConfig (wrapped) and
// names every invalid field.
func NewRelay(o *Outbox, pool *pgxpool.Pool, sender Sender, cfg RelayConfig) (*Relay, error) {
	var errs []error
	if o == nil || pool == nil || sender == nil {
		errs = append(errs, errors.New("the outbox, the pool or the sender is nil"))
	}
	for name, n := range map[string]int{"Batch": cfg.Batch, "Workers": cfg.Workers,
		"MaxAttempts": cfg.MaxAttempts} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("%s is %d: want 0, for the default, or more", name, n))
		}
	}
	for name, d := range map[string]time.Duration{
		"RetryDelay": cfg.RetryDelay, "MaxRetryDelay": cfg.MaxRetryDelay, "PollInterval": cfg.PollInterval,
		"StatsInterval":    cfg.StatsInterval,
		"RoundTripTimeout": cfg.RoundTripTimeout, "IdleLimit": cfg.IdleLimit,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s is %v: want 0, for the default, or more", name, d))
		}
	}
	if cfg.Retention < -1 {
		errs = append(errs, fmt.Errorf("the retention is %v: want 0, for the default, more, or -1 for none",
			cfg.Retention))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, errors.Join(errs...))
	}
	cfg.Batch = cmp.Or(cfg.Batch, DefaultBatch)
	cfg.Workers = cmp.Or(cfg.Workers, DefaultWorkers)
	cfg.MaxAttempts = cmp.Or(cfg.MaxAttempts, DefaultMaxAttempts)
	cfg.RetryDelay = cmp.Or(cfg.RetryDelay, DefaultRetryDelay)
	cfg.MaxRetryDelay = max(cmp.Or(cfg.MaxRetryDelay, DefaultMaxRetryDelay), cfg.RetryDelay)
	cfg.Retention = cmp.Or(cfg.Retention, DefaultRetention)
	cfg.PollInterval = cmp.Or(cfg.PollInterval, DefaultPollInterval)
	cfg.StatsInterval = cmp.Or(cfg.StatsInterval, DefaultStatsInterval)
	cfg.RoundTripTimeout = cmp.Or(cfg.RoundTripTimeout, DefaultRoundTripTimeout)
	cfg.IdleLimit = max(cmp.Or(cfg.IdleLimit, DefaultIdleLimit), time.Millisecond)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default()).With("table", o.table.String())
	return &Relay{outbox: o, pool: pgtrip.New(pool, cfg.RoundTripTimeout), sender: sender, cfg: cfg,
		notices: newNotices(cfg.Logger, cfg.StatsInterval), pauses: newPauses(cfg.MaxRetryDelay),
		unmarked: &unmarked{first: cfg.RetryDelay, longest: cfg.MaxRetryDelay, rows: make(map[int64]*unmarkedRow)}}, nil
}

// Run sends events until ctx ends. It then finishes the current batches and returns nil, at most the sender's
// timeout, twice RoundTripTimeout and five seconds later. If the table is missing or too old, it returns
// ErrNoTable or ErrTableOlder (wrapped) at once. It logs, counts and retries all other errors.
func (r *Relay) Run(ctx context.Context) error {
	err := r.pool.RoundTrip(ctx, r.cfg.RoundTripTimeout,
		func(w *silence.Watch, conn *pgx.Conn) error { return r.outbox.Check(w.Context(), conn) })
	switch {
	case errors.Is(err, ErrNoTable), errors.Is(err, ErrTableOlder):
		return err
	case err != nil && ctx.Err() == nil:
		r.cfg.Logger.WarnContext(ctx, "the table could not be checked", "error", err)
	}
	var workers sync.WaitGroup
	for range r.cfg.Workers {
		workers.Go(func() { r.work(ctx) })
	}
	r.maintain(ctx)
	workers.Wait()
	r.notices.flush(ctx, true)
	r.report(context.WithoutCancel(ctx))
	return nil
}

// maintain prunes and reports until ctx ends.
func (r *Relay) maintain(ctx context.Context) {
	ticker := time.NewTicker(r.cfg.StatsInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		r.notices.flush(ctx, true)
		for more := r.cfg.Retention > 0; more && ctx.Err() == nil; {
			n, err := r.prune(ctx)
			if err != nil && ctx.Err() == nil {
				r.cfg.Logger.WarnContext(ctx, "pruning published events failed", "error", err)
			}
			more = err == nil && n == pruneAtOnce
		}
		if ctx.Err() == nil {
			r.report(ctx)
		}
	}
}

func (r *Relay) prune(ctx context.Context) (n int, err error) {
	err = r.pool.RoundTrip(ctx, pruneLimit, func(w *silence.Watch, conn *pgx.Conn) (err error) {
		n, err = r.outbox.Prune(w.Context(), conn, r.cfg.Retention, pruneAtOnce)
		return err
	})
	return n, err
}

// report calls Stats.
func (r *Relay) report(ctx context.Context) {
	if r.cfg.Stats == nil {
		return
	}
	s := Stats{
		Published: r.published.Swap(0), Rejected: r.rejected.Swap(0), Parked: r.parked.Swap(0),
		Failures:    r.failures.Swap(0),
		LastFailure: r.failure(nil),
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var age float64
	err := r.pool.RoundTrip(ctx, r.cfg.RoundTripTimeout, func(w *silence.Watch, conn *pgx.Conn) error {
		return conn.QueryRow(w.Context(), r.outbox.sql.stats).Scan(&s.Pending, &s.TotalParked, &age)
	})
	if err != nil {
		s.Unknown = true
		s.LastFailure = cmp.Or(s.LastFailure, fmt.Errorf("%w%s", err, hint(err)))
	}
	s.OldestAge = time.Duration(max(0, age) * float64(time.Second))
	r.cfg.Stats(s)
}

// failure stores an error and returns the previous one.
func (r *Relay) failure(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err, r.lastFailure = r.lastFailure, err
	return err
}

const (
	pruneAtOnce = 5000
	pruneLimit  = time.Minute
	askLimit    = 5 * time.Second // of statistics queries
)

// Prune deletes up to limit rows that were published longer than retention ago, the oldest first, and returns
// their number. A Relay calls it regularly.
func (o *Outbox) Prune(ctx context.Context, db Querier, retention time.Duration, limit int) (int, error) {
	tag, err := db.Exec(ctx, o.sql.prune, retention.Seconds(), limit)
	if err != nil {
		return 0, fmt.Errorf("pgoutbox: pruning table %s: %w%s", o.table, err, hint(err))
	}
	return int(tag.RowsAffected()), nil
}

// Requeue makes the parked events with these IDs pending again and returns their number. They may be sent
// after later events of their keys. If an ID recurs in another partition of the table, its parked events are
// requeued in all partitions: they have one ID for consumers too.
func (o *Outbox) Requeue(ctx context.Context, db Querier, ids ...string) (int, error) {
	tag, err := db.Exec(ctx, o.sql.requeue, ids)
	if err != nil {
		return 0, fmt.Errorf("pgoutbox: requeueing %d events of table %s: %w%s", len(ids), o.table, err,
			hint(err))
	}
	return int(tag.RowsAffected()), nil
}
