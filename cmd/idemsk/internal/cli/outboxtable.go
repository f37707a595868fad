package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

// outboxEntry is a parked event or, in DynamoDB, an item. It has no values and headers.
type outboxEntry struct {
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

func (e *outboxEntry) setKey(key []byte) {
	switch {
	case key == nil:
	case utf8.Valid(key):
		text := string(key)
		e.Key = &text
	default:
		e.KeyBase64 = key
	}
}

// key returns the key for display.
func (e *outboxEntry) key() string {
	if e.Key != nil {
		return *e.Key
	}
	return string(e.KeyBase64)
}

// errUnreadable means that an entry can't be read, and therefore not requeued. The entry has an ID if that could be read.
var errUnreadable = errors.New("it can't be read")

// outboxTable is the table of an outbox, in PostgreSQL or DynamoDB.
type outboxTable struct {
	place     string // for people: "the table outbox"
	one, many string // the noun for entries
	items     bool   // an entry can have several events
	cost      string // describes the cost of reading it; empty if it is small
	// parked yields parked entries, all if limit is 0. It stops after an error that is not errUnreadable.
	parked func(ctx context.Context, limit int) iter.Seq2[outboxEntry, error]
	// created yields the entries that were created in a time range and have no parked event. It calls inPart for each entry of which
	// only some events are parked. It is nil in PostgreSQL.
	created func(ctx context.Context, from, to time.Time, inPart func()) iter.Seq2[outboxEntry, error]
	// requeue requeues entries. It returns the number of events requeued and a problem for each entry that was not.
	requeue func(ctx context.Context, entries []outboxEntry) (events int, problems []error, err error)
	explain func(err error) error
	close   func()
}

func (o *outboxCommand) open(ctx context.Context) (*outboxTable, error) {
	if o.dynamo != "" {
		return o.openDynamoDB(ctx)
	}
	pool, err := o.postgresFlags.open()
	if err != nil {
		return nil, err
	}
	box, err := pgoutbox.New(pgoutbox.Config{Table: o.table})
	if err != nil {
		pool.Close()
		return nil, &usageError{err}
	}
	return &outboxTable{
		place: "the table " + o.table + " in PostgreSQL", one: "event", many: "events",
		parked: func(ctx context.Context, limit int) iter.Seq2[outboxEntry, error] {
			return parkedInPostgres(ctx, box, pool, limit)
		},
		requeue: func(ctx context.Context, entries []outboxEntry) (int, []error, error) {
			return requeueInPostgres(ctx, box, pool, entries)
		},
		explain: func(err error) error { return err }, // the errors name the remedy
		close:   pool.Close,
	}, nil
}

func parkedInPostgres(ctx context.Context, box *pgoutbox.Outbox, pool *pgxpool.Pool, limit int) iter.Seq2[outboxEntry, error] {
	return func(yield func(outboxEntry, error) bool) {
		for found, err := range box.ListParked(ctx, pool, limit) {
			e := outboxEntry{
				ID: found.ID, Topic: found.Topic, CreatedAt: found.CreatedAt.UTC(), ParkedAt: found.At.UTC(), Attempts: found.Attempts, Failure: found.Failure,
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

func requeueInPostgres(ctx context.Context, box *pgoutbox.Outbox, pool *pgxpool.Pool, entries []outboxEntry) (events int, problems []error, err error) {
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
		problems = append(problems, fmt.Errorf("%d of %d events are no longer parked: they were requeued or deleted meanwhile", gone, len(entries)))
	}
	return events, problems, nil
}
