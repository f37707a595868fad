// Package pgoutbox is an outbox in a table of a PostgreSQL database: events are rows that are written in the transaction of
// the effect which they tell of, and a relay sends them to Kafka when it has committed.
//
// An [Outbox] writes in any pgx.Tx ([Outbox.Publish]). Around a handler in pgstore's transaction mode, [Outbox.Handler] has
// outbox.Publish write in the handler's own transaction.
//
// The table is made by [Outbox.Migrate], which nothing else calls. What is in it is sent by a [Relay], of which any number may
// be at work, or by Debezium, whose outbox event router takes its columns as they are. See docs/outbox.md.
//
// # Order
//
// Events of one topic and key are sent in the order of their seq, which is that of the calls of Publish. Where two
// transactions publish for one key, publish after the write that makes one of them wait for the other (the UPDATE of the
// account's row, say): then it is also the order in which they commit.
package pgoutbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idemsk/idemsk/internal/pgmigrate"
	"github.com/idemsk/idemsk/outbox"
)

// DefaultTable is the name of the table unless Config says otherwise.
const DefaultTable = "outbox"

// ErrInvalidConfig says that a Config or a RelayConfig can't be used. The error names every field at fault.
var ErrInvalidConfig = errors.New("pgoutbox: invalid configuration")

// Config configures an Outbox. Every field's zero value stands for its default.
type Config struct {
	// Table is the table's name, or its schema and name with a dot between (default DefaultTable). A name has up to 48
	// letters, digits, '_' and '-', and is taken as it is written, capitals too.
	Table string
	// MaxSize is the most bytes that an event may have (default outbox.DefaultMaxSize), as Event.Size counts them.
	MaxSize int
	// LogOnly deletes the rows in the transaction that has written them. They are then in the write-ahead log alone, for
	// Debezium: there is nothing to prune. A Relay sees nothing of them.
	LogOnly bool
}

// Outbox writes events. It is safe for concurrent use.
type Outbox struct {
	table   pgmigrate.Table
	maxSize int
	logOnly bool
	sql     statements
}

// New returns an outbox on a table, which it does not look at.
func New(cfg Config) (*Outbox, error) {
	t, err := pgmigrate.ParseTable(cmp.Or(cfg.Table, DefaultTable))
	if cfg.MaxSize < 0 {
		err = errors.Join(err, fmt.Errorf("MaxSize is %d: want 0, for %d, or more", cfg.MaxSize, outbox.DefaultMaxSize))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	return &Outbox{table: t, maxSize: cfg.MaxSize, logOnly: cfg.LogOnly, sql: newStatements(t)}, nil
}

// Publish writes events to the table DefaultTable: see Outbox.Publish.
func Publish(ctx context.Context, tx pgx.Tx, events ...outbox.Event) error {
	o, err := New(Config{})
	if err != nil {
		return err
	}
	return o.Publish(ctx, tx, events...)
}

// Publish writes events in tx, by one round trip: they are published, in this order, when it commits, and are not when it is
// rolled back. It returns outbox.ErrInvalidEvent, naming every event at fault, before anything is written. After any other error
// nothing of tx can be committed, unless there is a savepoint.
func (o *Outbox) Publish(ctx context.Context, tx pgx.Tx, events ...outbox.Event) error {
	prepared, err := outbox.Prepare(events, o.maxSize)
	if err != nil || len(prepared) == 0 {
		return err
	}
	return o.record(ctx, tx, prepared)
}

// NewContext returns a context in which outbox.Publish writes in tx.
func (o *Outbox) NewContext(ctx context.Context, tx pgx.Tx) context.Context {
	return outbox.NewContext(ctx, recorder{o, tx}, o.maxSize)
}

// Handler returns a pgstore.TxHandler that calls h, also one, with a context in which outbox.Publish writes in its
// transaction.
func (o *Outbox) Handler(h func(ctx context.Context, tx pgx.Tx) ([]byte, error)) func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
	return func(ctx context.Context, tx pgx.Tx) ([]byte, error) { return h(o.NewContext(ctx, tx), tx) }
}

// recorder implements outbox.Recorder.
type recorder struct {
	o  *Outbox
	tx pgx.Tx
}

var _ outbox.Recorder = recorder{}

// Record implements outbox.Recorder.
func (r recorder) Record(ctx context.Context, events []outbox.Event) error {
	return r.o.record(ctx, r.tx, events)
}

// Querier is a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}
