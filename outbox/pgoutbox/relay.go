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

	"github.com/idemsk/idemsk/internal/pgtrip"
	"github.com/idemsk/idemsk/internal/silence"
	"github.com/idemsk/idemsk/outbox"
)

// What holds unless RelayConfig says otherwise.
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

// Sender sends events to Kafka: a *relay.Producer.
type Sender interface {
	// Send returns an error for each event that it did not publish; relay.ErrRejected is charged to the event.
	Send(ctx context.Context, events []outbox.Event) []error
	// Ping returns an error while Kafka can't be reached.
	Ping(ctx context.Context) error
}

// RelayConfig configures a Relay. Every field's zero value stands for its default.
type RelayConfig struct {
	// Batch is how many events are read, sent and marked at once (default DefaultBatch). Fewer are if they are large.
	Batch int
	// Workers is how many batches are under way at once (default DefaultWorkers). Each has a connection of its own.
	Workers int
	// MaxAttempts is how often Kafka may reject an event before it is set aside (default DefaultMaxAttempts).
	MaxAttempts int
	// RetryDelay is what a rejected event, and its key, wait for; it doubles at each attempt, up to MaxRetryDelay (defaults
	// DefaultRetryDelay, DefaultMaxRetryDelay).
	RetryDelay, MaxRetryDelay time.Duration
	// Retention is how long published rows are kept (default DefaultRetention; -1: they are deleted as they are published).
	Retention time.Duration
	// PollInterval is after how long a worker looks that nothing has woken (default DefaultPollInterval).
	PollInterval time.Duration
	// RoundTripTimeout is for how long PostgreSQL may say nothing in a round trip (default DefaultRoundTripTimeout). After that the
	// worker goes on over a new connection.
	RoundTripTimeout time.Duration
	// IdleLimit is for how long a batch's transaction may be left alone before PostgreSQL ends it (default DefaultIdleLimit, at least
	// a millisecond). It bounds how long the events of a batch wait whose relay has vanished without a word, and must be above the
	// Sender's timeout.
	IdleLimit time.Duration
	// NoListen leaves out LISTEN and the advisory locks of a session, for poolers that give a connection out by transaction:
	// workers look at each PollInterval.
	NoListen bool
	// Stats is called at each StatsInterval (default DefaultStatsInterval), and once more before Run returns, never twice at once.
	Stats         func(Stats)
	StatsInterval time.Duration
	// Logger gets what is set aside, and what goes wrong (default slog.Default()).
	Logger *slog.Logger
}

// Stats are what a relay did since it was last asked, and how the table is.
type Stats struct {
	// Published, Rejected and SetAside count events of this relay since the last Stats. A rejected one is tried again, or
	// set aside.
	Published, Rejected, SetAside int64
	// Failures counts batches that failed as Kafka or the database could not be reached. LastFailure is why, nil if none did.
	Failures    int64
	LastFailure error
	// Pending is how many rows are to be published, Aside how many are set aside, of all relays, up to 100,000.
	Pending, Aside int64
	// OldestAge is for how long the oldest of the pending rows has been there, 0 if there is none.
	OldestAge time.Duration
	// Unknown says that the table could not be asked: Pending, Aside and OldestAge are not known.
	Unknown bool
}

// Relay sends the events of a table to Kafka. Any number of them, in any number of processes, may be at work on a table.
type Relay struct {
	outbox *Outbox
	pool   *pgtrip.Pool
	sender Sender
	cfg    RelayConfig

	published, rejected, setAside, failures atomic.Int64
	mu                                      sync.Mutex
	lastFailure                             error
}

// NewRelay returns a relay. The pool and the sender stay the caller's; the pool's URL should have a connect_timeout, as pgx's own default
// is none. It returns ErrInvalidConfig, naming every field at fault.
func NewRelay(o *Outbox, pool *pgxpool.Pool, sender Sender, cfg RelayConfig) (*Relay, error) {
	var errs []error
	if o == nil || pool == nil || sender == nil {
		errs = append(errs, errors.New("the outbox, the pool or the sender is nil"))
	}
	for name, n := range map[string]int{"Batch": cfg.Batch, "Workers": cfg.Workers, "MaxAttempts": cfg.MaxAttempts} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("%s is %d: want 0, for the default, or more", name, n))
		}
	}
	for name, d := range map[string]time.Duration{
		"RetryDelay": cfg.RetryDelay, "MaxRetryDelay": cfg.MaxRetryDelay, "PollInterval": cfg.PollInterval, "StatsInterval": cfg.StatsInterval,
		"RoundTripTimeout": cfg.RoundTripTimeout, "IdleLimit": cfg.IdleLimit,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s is %v: want 0, for the default, or more", name, d))
		}
	}
	if cfg.Retention < -1 {
		errs = append(errs, fmt.Errorf("the retention is %v: want 0, for the default, more, or -1 for none", cfg.Retention))
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
	return &Relay{outbox: o, pool: pgtrip.New(pool, cfg.RoundTripTimeout), sender: sender, cfg: cfg}, nil
}

// Run relays until ctx ends, and returns nil when what was under way has been brought to its end: up to the sender's timeout, twice
// RoundTripTimeout and five seconds later. It returns at once with ErrNoTable or ErrTableOlder if the table is not as it should be.
// Everything else that goes wrong it logs, counts, and tries again, for as long as it takes.
func (r *Relay) Run(ctx context.Context) error {
	err := r.pool.RoundTrip(ctx, r.cfg.RoundTripTimeout, func(w *silence.Watch, conn *pgx.Conn) error { return r.outbox.Check(w.Context(), conn) })
	if errors.Is(err, ErrNoTable) || errors.Is(err, ErrTableOlder) {
		return err
	}
	var workers sync.WaitGroup
	for range r.cfg.Workers {
		workers.Go(func() { r.work(ctx) })
	}
	r.lookAfter(ctx)
	workers.Wait()
	r.report(context.WithoutCancel(ctx))
	return nil
}

// lookAfter prunes and reports until ctx ends.
func (r *Relay) lookAfter(ctx context.Context) {
	ticker := time.NewTicker(r.cfg.StatsInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for more := r.cfg.Retention > 0; more && ctx.Err() == nil; {
			n, err := r.prune(ctx)
			if err != nil && ctx.Err() == nil {
				r.cfg.Logger.WarnContext(ctx, "published events could not be pruned", "error", err)
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
		Published: r.published.Swap(0), Rejected: r.rejected.Swap(0), SetAside: r.setAside.Swap(0), Failures: r.failures.Swap(0),
		LastFailure: r.failure(nil),
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var age float64
	err := r.pool.RoundTrip(ctx, r.cfg.RoundTripTimeout, func(w *silence.Watch, conn *pgx.Conn) error {
		return conn.QueryRow(w.Context(), r.outbox.sql.stats).Scan(&s.Pending, &s.Aside, &age)
	})
	if err != nil {
		s.Unknown = true
		s.LastFailure = cmp.Or(s.LastFailure, err)
	}
	s.OldestAge = time.Duration(max(0, age) * float64(time.Second))
	r.cfg.Stats(s)
}

// failure remembers an error and returns the one before it.
func (r *Relay) failure(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err, r.lastFailure = r.lastFailure, err
	return err
}

const (
	pruneAtOnce = 5000
	pruneLimit  = time.Minute
	askLimit    = 5 * time.Second // for what the relay asks beside its work
)

// Prune deletes up to limit rows that were published longer than retention ago, the oldest first, and returns how many. A Relay
// does so by itself.
func (o *Outbox) Prune(ctx context.Context, db Querier, retention time.Duration, limit int) (int, error) {
	tag, err := db.Exec(ctx, o.sql.prune, retention.Seconds(), limit)
	if err != nil {
		return 0, fmt.Errorf("pgoutbox: pruning table %s: %w%s", o.table, err, hint(err))
	}
	return int(tag.RowsAffected()), nil
}

// Requeue has events tried again that were set aside, and returns how many of ids were. They may come after later events of
// their key.
func (o *Outbox) Requeue(ctx context.Context, db Querier, ids ...string) (int, error) {
	tag, err := db.Exec(ctx, o.sql.requeue, ids)
	if err != nil {
		return 0, fmt.Errorf("pgoutbox: requeueing %d events of table %s: %w%s", len(ids), o.table, err, hint(err))
	}
	return int(tag.RowsAffected()), nil
}
