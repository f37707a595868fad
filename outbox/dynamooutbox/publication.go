package dynamooutbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/outbox"
)

// ErrPublished means that the table has an event with this ID. The transaction was not committed.
var ErrPublished = errors.New("dynamooutbox: an event with this ID was published before")

var errOver = errors.New("dynamooutbox: the handler has returned: nothing can be published any more")

// publication is the events of a handler. It implements outbox.Recorder.
type publication struct {
	outbox *Outbox

	mu    sync.Mutex
	items []*draft
	seen  map[string]bool // IDs
	err   error           // the first error of Record
	over  bool
}

var _ outbox.Recorder = (*publication)(nil)

// draft is an item to be written.
type draft struct {
	topic  string
	key    []byte
	events []types.AttributeValue
	first  string // the ID of the first
	size   int
}

func (p *publication) context(ctx context.Context) context.Context {
	return outbox.NewContext(ctx, p, p.outbox.maxSize)
}

// Record implements outbox.Recorder. It records all events or, if it returns an error, none.
func (p *publication) Record(ctx context.Context, events []outbox.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return errOver
	}
	err := p.check(ctx, events)
	if err != nil {
		p.err = cmp.Or(p.err, err)
		return err
	}
	for i := range events {
		e := &events[i]
		p.seen[e.ID] = true
		d := p.draft(e)
		if d == nil {
			d = &draft{topic: e.Topic, key: bytes.Clone(e.Key), first: e.ID}
			p.items = append(p.items, d)
		}
		d.size += e.Size()
		d.events = append(d.events, encodeEvent(e))
	}
	return nil
}

// draft returns the item for an event, nil if there is none yet. An event without a key has its own item.
func (p *publication) draft(e *outbox.Event) *draft {
	if e.Key == nil {
		return nil
	}
	for _, d := range p.items {
		if d.topic == e.Topic && d.key != nil && string(d.key) == string(e.Key) {
			return d
		}
	}
	return nil
}

func (p *publication) check(ctx context.Context, events []outbox.Event) error {
	if _, err := dynamostore.TxFrom(ctx); err != nil {
		return err
	}
	sizes := make(map[aggregate]int)
	for i := range events {
		e := &events[i]
		if p.seen[e.ID] {
			return fmt.Errorf("%w: event %q to topic %q: another event of this transaction has the same ID",
				outbox.ErrInvalidEvent, e.ID, e.Topic)
		}
		if e.Key == nil {
			continue
		}
		of := aggregateOf(e)
		if sizes[of] == 0 {
			if d := p.draft(e); d != nil {
				sizes[of] = d.size
			}
		}
		if sizes[of] += e.Size(); sizes[of] > p.outbox.maxSize {
			return fmt.Errorf("%w: event %q to topic %q, key %q: with it, this transaction publishes %d bytes for the key; the maximum is %d: "+
				"publish a reference to the data instead of the data", outbox.ErrInvalidEvent, e.ID, e.Topic,
				shorten(e.Key), sizes[of], p.outbox.maxSize)
		}
	}
	return nil
}

// close ends the publication and enlists its items, unless Record has failed.
func (p *publication) close(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if p.err != nil || len(p.items) == 0 {
		return p.err
	}
	tx, err := dynamostore.TxFrom(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	writes := make([]dynamostore.Write, len(p.items))
	for i, d := range p.items {
		writes[i] = p.outbox.write(d, now)
	}
	if err := tx.Enlist(writes...); err != nil {
		return fmt.Errorf("dynamooutbox: enlisting %d items of the outbox: %w", len(writes), err)
	}
	return nil
}

// write puts an item on condition that it does not exist. The stream would report a replaced item as changed,
// not as new.
func (o *Outbox) write(d *draft, now time.Time) dynamostore.Write {
	return dynamostore.Write{
		Put: &types.Put{
			TableName: &o.table, Item: d.encode(now, now.Add(o.retention)),
			ConditionExpression:      aws.String("attribute_not_exists(#a)"),
			ExpressionAttributeNames: map[string]string{"#a": AttrAggregate},
		},
		PutKey: []string{AttrAggregate, AttrID},
		OrElse: idem.Permanent(fmt.Errorf("%w: %s, to topic %q, key %q", ErrPublished, d.first, d.topic,
			shorten(d.key))),
	}
}
