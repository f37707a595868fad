// Package dynamooutbox is an outbox in a DynamoDB table: events are items that are written in the transaction of the effect
// which they tell of (dynamostore.Tx), and a relay sends them to Kafka from the table's stream when it has committed.
//
// Around a handler on a dynamostore.Store, [Handler] or [Outbox.Do] has outbox.Publish write in the handler's transaction:
//
//	handler := dynamooutbox.Handler(box, func(ctx context.Context, r msk.Record) ([]byte, error) {
//		…
//		return nil, outbox.Publish(ctx, outbox.Event{Topic: "credited", Key: []byte(account), Value: value})
//	})
//
// What is in the table is sent by a [Relay], which the function lambda/relay runs on the table's stream.
//
// # Order
//
// Events of one topic and key are sent in the order in which their transactions commit and, of one transaction, in that of the
// calls of Publish. That comes of two things. All that a transaction publishes for one topic and key is one item, as the
// stream may show the items of a transaction in any order. And all items of a topic and key have the same partition key, so
// that the stream shows them in one shard, which Lambda reads from its start to its end. (A shard that is split is read before
// its halves are, and new items, whose IDs grow with time, all go to one of these.)
//
// # What stays
//
// Items stay in the table for the retention, published or not: the stream forgets after 24 hours, and what it has forgotten
// unread can be brought back by [Outbox.Requeue] as long as the item is there. An event that Kafka rejects is set aside on its
// item, which then stays for good: see [Outbox.List].
package dynamooutbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/idem/dynamostore"
)

// DefaultTable is the name of the table unless Config says otherwise.
const DefaultTable = "idemsk-outbox"

// How long items are kept: by default, and at least, which is longer than the stream remembers.
const (
	DefaultRetention = 7 * 24 * time.Hour
	MinRetention     = 48 * time.Hour
)

// MaxSize is the most bytes, as Event.Size counts them, that a transaction may publish for one topic and key, or in an event
// without key: an item has 400 KiB, some of which is for what is noted about them.
const MaxSize = dynamostore.MaxItemSize - 8<<10

// ErrInvalidConfig says that a Config or a RelayConfig can't be used. The error names every field at fault.
var ErrInvalidConfig = errors.New("dynamooutbox: invalid configuration")

// Config configures an Outbox. Every field's zero value stands for its default.
type Config struct {
	// Table is the table's name or ARN (default DefaultTable).
	Table string
	// Retention is how long an item is kept (default DefaultRetention, at least MinRetention).
	Retention time.Duration
	// MaxSize bounds what a transaction may publish for one topic and key, in bytes (default and at most the constant MaxSize).
	MaxSize int
}

// Outbox writes events. It is safe for concurrent use.
type Outbox struct {
	table     string
	retention time.Duration
	maxSize   int
}

// New returns an outbox on a table, which it does not look at. It returns ErrInvalidConfig, naming every field at fault.
func New(cfg Config) (*Outbox, error) {
	o := &Outbox{
		table: cmp.Or(cfg.Table, DefaultTable), retention: cmp.Or(cfg.Retention, DefaultRetention), maxSize: cmp.Or(cfg.MaxSize, MaxSize),
	}
	var errs []error
	if !dynamostore.ValidTable(o.table) {
		errs = append(errs, fmt.Errorf("Table is %q: want 3 to 255 letters, digits, '_', '.' or '-', or a table's ARN", o.table))
	}
	if o.retention < MinRetention {
		errs = append(errs, fmt.Errorf("a Retention of %v: want 0, for %v, or at least %v", o.retention, DefaultRetention, MinRetention))
	}
	if o.maxSize < 0 || o.maxSize > MaxSize {
		errs = append(errs, fmt.Errorf("MaxSize is %d: want 0, for %d, or less than that", o.maxSize, MaxSize))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, errors.Join(errs...))
	}
	return o, nil
}

// Table returns the name of the table.
func (o *Outbox) Table() string { return o.table }

// Do calls f with a context in which outbox.Publish publishes in the transaction of the task that ctx belongs to. What f has
// published is enlisted when it has returned, with an error or without: as with all that is enlisted it is the handler's error,
// as the engine sees it, that drops it. What could not be published is Do's error if f makes light of it.
//
// One Do goes around the whole of a handler: another has items of its own, in no order with those of the first.
func (o *Outbox) Do(ctx context.Context, f func(ctx context.Context) error) error {
	p := &publication{outbox: o, seen: make(map[string]bool)}
	err := f(p.context(ctx))
	lost := p.close(ctx)
	switch {
	case lost == nil || errors.Is(err, lost):
		return err
	case err == nil:
		return lost
	}
	// f's error must not count any more, as with some the effect takes place.
	return fmt.Errorf("%w (besides, the handler returned: %s)", lost, err.Error())
}

// Handler returns a handler that calls h in a Do. It is for msk.Handler, whose R is msk.Record, and others of that form.
func Handler[R any](o *Outbox, h func(ctx context.Context, r R) ([]byte, error)) func(ctx context.Context, r R) ([]byte, error) {
	return func(ctx context.Context, r R) (result []byte, err error) {
		err = o.Do(ctx, func(ctx context.Context) error {
			result, err = h(ctx, r)
			return err
		})
		if err != nil {
			return nil, err
		}
		return result, nil
	}
}
