// Package dynamooutbox is an outbox in a DynamoDB table. A handler writes events as items in the transaction
// of its effect (dynamostore.Tx). A relay reads the committed items from the table's stream and sends the
// events to Kafka.
//
// [Handler] and [Outbox.Do] wrap a handler on a dynamostore.Store, so that outbox.Publish writes in the
// handler's transaction:
//
//	handler := dynamooutbox.Handler(box, func(ctx context.Context, r msk.Record) ([]byte, error) {
//		…
//		return nil, outbox.Publish(ctx, outbox.Event{Topic: "credited", Key: []byte(account), Value: value})
//	})
//
// The Lambda function lambda/relay runs a [Relay] on the table's stream.
//
// # Order
//
// Events of one topic and key are sent in the order of their transactions' commits and, within a transaction,
// in the order of the calls of Publish. Two properties ensure this. First, the events of a transaction for
// one topic and key are one item, because the stream may return the items of a transaction in any order.
// Second, all items of a topic and key have the same partition key, so they are in one shard of the stream,
// which Lambda reads in order. (A split shard is read before its children. New items have IDs that grow with
// time and go to one of the children.)
//
// # Retention
//
// Items stay in the table for the retention, whether published or not. The stream keeps them for 24 hours;
// [Outbox.Requeue] brings back items that were not read in time. An event that Kafka rejects is parked on its
// item, which then has no expiry: see [Outbox.List].
package dynamooutbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/idem/dynamostore"
)

// DefaultTable is the table's name if Config.Table is empty.
const DefaultTable = "idemsk-outbox"

// The default and the minimum retention of items. The minimum exceeds the retention of the stream.
const (
	DefaultRetention = 7 * 24 * time.Hour
	MinRetention     = 48 * time.Hour
)

// MaxSize is the maximum size in bytes, as counted by Event.Size, of the events that a transaction publishes
// for one topic and key, or of an event without a key. An item has up to 400 KiB, including the relay's own
// attributes.
const MaxSize = dynamostore.MaxItemSize - 8<<10

// ErrInvalidConfig means that a Config or a RelayConfig is invalid. The error names every invalid field.
var ErrInvalidConfig = errors.New("dynamooutbox: invalid configuration")

// Config configures an Outbox. The zero value of a field means its default.
type Config struct {
	// Table is the table's name or ARN. Default: DefaultTable.
	Table string
	// Retention is how long an item is kept, at least MinRetention. Default: DefaultRetention.
	Retention time.Duration
	// MaxSize is the maximum size in bytes of the events of a transaction for one topic and key. Default and
	// maximum: the constant MaxSize.
	MaxSize int
}

// Outbox writes events. It is safe for concurrent use.
type Outbox struct {
	table     string
	retention time.Duration
	maxSize   int
}

// New returns an outbox on a table. It does not access the table. If cfg is invalid, it returns
// ErrInvalidConfig (wrapped) and names every invalid field.
func New(cfg Config) (*Outbox, error) {
	o := &Outbox{
		table: cmp.Or(cfg.Table, DefaultTable), retention: cmp.Or(cfg.Retention, DefaultRetention),
		maxSize: cmp.Or(cfg.MaxSize, MaxSize),
	}
	var errs []error
	if !dynamostore.ValidTable(o.table) {
		errs = append(errs, fmt.Errorf("Table is %q: want 3 to 255 letters, digits, '_', '.' or '-', or a table's ARN", o.table))
	}
	if o.retention < MinRetention {
		errs = append(errs, fmt.Errorf("a Retention of %v: want 0, for %v, or at least %v", o.retention,
			DefaultRetention, MinRetention))
	}
	if o.maxSize < 0 || o.maxSize > MaxSize {
		errs = append(errs, fmt.Errorf("MaxSize is %d: want 0, for %d, or less than that", o.maxSize,
			MaxSize))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, errors.Join(errs...))
	}
	return o, nil
}

// Table returns the name of the table.
func (o *Outbox) Table() string { return o.table }

// Do calls f with a context in which outbox.Publish publishes in the transaction of ctx's task. When f has
// returned, Do enlists the events, even if f returned an error: the engine drops them if the handler's error
// drops the effect. If publishing failed and f ignored the error, Do returns it.
//
// Wrap the whole handler in one Do. A second Do writes separate items, without an order between the two.
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
	// f's error must not be matched by the engine any more, because some errors commit the effect.
	return fmt.Errorf("%w (besides, the handler returned: %s)", lost, err.Error())
}

// Handler returns a handler that calls h in Do. It fits msk.HandlerFunc, with msk.Record as R, and handlers of
// the same form.
func Handler[R any](o *Outbox, h func(ctx context.Context, r R) ([]byte, error)) func(ctx context.Context,
	r R) ([]byte, error) {
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
