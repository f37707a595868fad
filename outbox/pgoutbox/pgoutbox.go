// Package pgoutbox is an outbox in a PostgreSQL table. A handler writes events as rows in the transaction of
// its effect. A relay sends the committed rows to Kafka.
//
// An [Outbox] writes in any pgx.Tx ([Outbox.Publish]), such as the one that a handler gets by pgstore.TxFrom.
// With the context of [Outbox.NewContext], outbox.Publish writes there.
//
// [Migrate] creates the table; nothing else in the package changes a schema. A [Relay] sends its events, and
// any number of relays may run. Debezium can send them too: its outbox event router accepts the columns as
// they are. See docs/outbox.md.
//
// # Order
//
// Events of one topic and key are sent in the order of the column seq, which is the order of the calls of
// Publish. If two transactions publish for the same key, call Publish after a write that makes one
// transaction wait for the other, such as the UPDATE of the account's row. The order of seq is then also the
// order of the commits.
package pgoutbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idemsk/idemsk/internal/pg/pgmigrate"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// DefaultTable is the table's name if Config.Table is empty.
const DefaultTable = "outbox"

// ErrInvalidConfig means that a Config or a RelayConfig is invalid. The error names every invalid field.
var ErrInvalidConfig = errors.New("pgoutbox: invalid configuration")

// Config configures an Outbox. The zero value of a field means its default.
type Config struct {
	// Table is the table's name, or its schema and name with a dot between. A name has up to 48 letters,
	// digits, '_' and '-' and is case-sensitive. Default: DefaultTable.
	Table string
	// MaxSize is the maximum size of an event in bytes, as counted by Event.Size, up to relay.MaxSize. Default:
	// outbox.DefaultMaxSize.
	MaxSize int
	// LogOnly deletes the rows in the transaction that writes them. They remain only in the write-ahead log,
	// for Debezium, and need no pruning. A Relay does not see them.
	LogOnly bool
}

// Outbox writes events. It is safe for concurrent use.
type Outbox struct {
	table   pgmigrate.Table
	maxSize int
	logOnly bool
	sql     statements
}

// New returns an outbox on a table. It does not access the table.
func New(cfg Config) (*Outbox, error) {
	t, err := pgmigrate.ParseTable(cmp.Or(cfg.Table, DefaultTable))
	if cfg.MaxSize < 0 || cfg.MaxSize > relay.MaxSize {
		err = errors.Join(err, fmt.Errorf("MaxSize is %d: want 0, for %d, or up to %d", cfg.MaxSize,
			outbox.DefaultMaxSize, relay.MaxSize))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	return &Outbox{table: t, maxSize: cfg.MaxSize, logOnly: cfg.LogOnly, sql: newStatements(t)}, nil
}

// Publish writes events to the table DefaultTable; see Outbox.Publish.
func Publish(ctx context.Context, tx pgx.Tx, events ...outbox.Event) error {
	o, err := New(Config{})
	if err != nil {
		return err
	}
	return o.Publish(ctx, tx, events...)
}

// Publish writes events in tx with one round trip. They are published, in this order, if tx commits. If
// events are invalid, it writes nothing, returns outbox.ErrInvalidEvent (wrapped) and names each of them.
// After any other error tx can't commit, unless it rolls back to a savepoint.
func (o *Outbox) Publish(ctx context.Context, tx pgx.Tx, events ...outbox.Event) error {
	prepared, err := outbox.Prepare(ctx, events, o.maxSize)
	if err != nil || len(prepared) == 0 {
		return err
	}
	return o.record(ctx, tx, prepared)
}

// NewContext returns a context in which outbox.Publish writes in tx.
func (o *Outbox) NewContext(ctx context.Context, tx pgx.Tx) context.Context {
	return outbox.NewContext(ctx, recorder{o, tx}, o.maxSize)
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
