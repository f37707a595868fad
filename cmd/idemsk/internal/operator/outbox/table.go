package outbox

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/target"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

// Entry is a parked event or, in DynamoDB, an item. It has no values and headers.
type Entry struct {
	ID        string    `json:"id"`
	Aggregate string    `json:"aggregate,omitempty"` // in DynamoDB, with ID the item's key
	Events    []string  `json:"events,omitempty"`    // in DynamoDB, the IDs of the parked events
	Topic     string    `json:"topic"`
	Key       *string   `json:"key,omitempty"`       // if it is text
	KeyBase64 []byte    `json:"keyBase64,omitempty"` // if it is not
	CreatedAt time.Time `json:"createdAt"`
	ParkedAt  time.Time `json:"parkedAt,omitzero"`
	Attempts  int       `json:"attempts"`
	Failure   string    `json:"failure"`
}

func (e *Entry) setKey(key []byte) {
	switch {
	case key == nil:
	case utf8.Valid(key):
		text := string(key)
		e.Key = &text
	default:
		e.KeyBase64 = key
	}
}

// KeyText returns the key for display.
func (e *Entry) KeyText() string {
	if e.Key != nil {
		return *e.Key
	}
	return string(e.KeyBase64)
}

// ErrUnreadable means that an entry can't be read, and therefore not requeued. The entry has an ID if that
// could be read.
var ErrUnreadable = errors.New("it can't be read")

// Table is the table of an outbox, in PostgreSQL or DynamoDB.
type Table struct {
	Place     string // for people: "the table outbox"
	One, Many string // the noun for entries
	Items     bool   // an entry can have several events
	Cost      string // describes the cost of reading it; empty if it is small
	// Parked yields parked entries, all if limit is 0. It stops after an error that is not ErrUnreadable.
	Parked func(ctx context.Context, limit int) iter.Seq2[Entry, error]
	// Created yields the entries that were created in a time range and have no parked event. It calls inPart
	// for each entry of which only some events are parked. It is nil in PostgreSQL.
	Created func(ctx context.Context, from, to time.Time, inPart func()) iter.Seq2[Entry, error]
	// Requeue requeues entries. It returns the number of events requeued and a problem for each entry that
	// was not.
	Requeue func(ctx context.Context, entries []Entry) (events int, problems []error, err error)
	Explain func(err error) error
	Close   func()
}

// Flags name the table of an outbox.
type Flags struct {
	target.PostgresFlags
	flags.AWS
	Dynamo string // the name in DynamoDB; empty for PostgreSQL
}

// Open opens the table. It does not send a request.
func (o *Flags) Open(ctx context.Context) (*Table, error) {
	if o.Dynamo != "" {
		return o.openDynamoDB(ctx)
	}
	pool, err := o.PostgresFlags.Open()
	if err != nil {
		return nil, err
	}
	box, err := pgoutbox.New(pgoutbox.Config{Table: o.Table})
	if err != nil {
		pool.Close()
		return nil, &command.UsageError{Err: err}
	}
	return &Table{
		Place: "the table " + o.Table + " in PostgreSQL", One: "event", Many: "events",
		Parked: func(ctx context.Context, limit int) iter.Seq2[Entry, error] {
			return parkedInPostgres(ctx, box, pool, limit)
		},
		Requeue: func(ctx context.Context, entries []Entry) (int, []error, error) {
			return requeueInPostgres(ctx, box, pool, entries)
		},
		Explain: func(err error) error { return err }, // the errors name the remedy
		Close:   pool.Close,
	}, nil
}

func parkedInPostgres(ctx context.Context, box *pgoutbox.Outbox, pool *pgxpool.Pool,
	limit int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for found, err := range box.ListParked(ctx, pool, limit) {
			e := Entry{
				ID: found.ID, Topic: found.Topic, CreatedAt: found.CreatedAt.UTC(), ParkedAt: found.At.UTC(),
				Attempts: found.Attempts, Failure: found.Failure,
			}
			e.setKey(found.Key)
			if !yield(e, err) {
				return
			}
		}
	}
}

// requeueBatch is the number of rows that are updated in one transaction.
const requeueBatch = 1000

func requeueInPostgres(ctx context.Context, box *pgoutbox.Outbox, pool *pgxpool.Pool,
	entries []Entry) (events int, problems []error, err error) {
	for batch := range slices.Chunk(entries, requeueBatch) {
		ids := make([]string, len(batch))
		for i := range batch {
			ids[i] = batch[i].ID
		}
		n, err := box.Requeue(ctx, pool, ids...)
		if err != nil {
			return events, problems, err
		}
		events += n
	}
	if gone := len(entries) - events; gone > 0 {
		problems = append(problems, fmt.Errorf("%d of %d events are no longer parked: they were requeued or "+
			"deleted meanwhile", gone, len(entries)))
	}
	return events, problems, nil
}
