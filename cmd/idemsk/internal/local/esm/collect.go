package esm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/internal/mskevent"
)

// source returns records. poll waits until there are some, or the context ends; then it returns none.
type source interface {
	poll(ctx context.Context, most int) ([]*kgo.Record, error)
}

// kafka is the source that reads a Kafka topic.
type kafka struct{ client *kgo.Client }

func (k kafka) poll(ctx context.Context, most int) ([]*kgo.Record, error) {
	fetches := k.client.PollRecords(ctx, most)
	if ctx.Err() == nil {
		for _, e := range fetches.Errors() {
			var lost *kgo.ErrDataLoss // the client continues
			if !errors.As(e.Err, &lost) {
				return nil, fmt.Errorf("reading %s-%d: %w", e.Topic, e.Partition, e.Err)
			}
		}
	}
	return fetches.Records(), nil
}

// batch is a batch of records for the function.
type batch struct {
	event    *mskevent.Event // a recorded event, delivered unchanged; nil if the batch was gathered
	envelope mskevent.Envelope
	records  []Record
	ends     offsets  // after all records that were read
	filtered int      // records that FilterCriteria dropped
	tooLarge []Record // records that are too large for an event
	// records that don't have the form of their schemas, by the condition under which they are given up
	invalid map[string][]Record
	givenUp map[mskevent.Place]bool
	size    mskevent.Size
	raw     []*kgo.Record // all records that were read
}

// batches returns one batch after another, and none when the context ends.
type batches interface {
	next(ctx context.Context) (*batch, error)
}

// payload returns the event of records of the batch. A recorded event is unchanged if all its records are
// delivered.
func (b *batch) payload(records []Record) []byte {
	if b.event != nil && len(records) == len(b.event.Records) {
		return b.event.Payload
	}
	return payload(b.envelope, records)
}

func payload(e mskevent.Envelope, records []Record) []byte {
	return e.Event(len(records), func(i int) *mskevent.Record { return &records[i].Record })
}

// collector gathers records into batches.
type collector struct {
	config   *Config
	source   source
	filters  filters
	envelope mskevent.Envelope
	carry    []*kgo.Record // read, and not yet in a batch
}

// next gathers a batch. It ends when it is full, or when the window that began with its first record is over.
// If the context ends, next returns no batch, and the next call starts with the records that were gathered.
func (c *collector) next(ctx context.Context) (*batch, error) {
	for len(c.carry) == 0 {
		records, err := c.source.poll(ctx, c.config.BatchSize)
		if err != nil || ctx.Err() != nil {
			c.carry = records
			return nil, err
		}
		c.carry = records
	}
	b := &batch{envelope: c.envelope, ends: make(offsets), size: c.envelope.Size()}
	window, cancel := context.WithTimeout(ctx, c.config.MaximumBatchingWindow)
	defer cancel()
	for !c.take(b) {
		records, err := c.source.poll(window, c.config.BatchSize-len(b.records))
		switch {
		case err != nil:
			return nil, err
		case ctx.Err() != nil:
			c.carry = slices.Concat(b.raw, records)
			return nil, nil //nolint:nilnil // no batch is no error
		case len(records) == 0 && window.Err() != nil:
			return b, nil
		}
		c.carry = records
	}
	return b, nil
}

// take adds records that were read to a batch, and reports whether the batch is full.
func (c *collector) take(b *batch) (full bool) {
	for len(c.carry) > 0 {
		if !c.add(b, c.carry[0]) {
			return true
		}
		c.carry = c.carry[1:]
	}
	return len(b.records) == c.config.BatchSize
}

// add adds a record to a batch. It returns false if the batch is full.
func (c *collector) add(b *batch, r *kgo.Record) bool {
	filtered, condition := r.Value, ""
	if found := conversionOf(r); found != nil {
		filtered, condition = found.filtered, found.condition
	}
	switch {
	case r.Attrs.IsControl():
	case condition != "":
		if b.invalid == nil {
			b.invalid = make(map[string][]Record)
		}
		b.invalid[condition] = append(b.invalid[condition], NewRecord(r))
	case !c.filters.pass(filtered):
		b.filtered++
	case !c.append(b, NewRecord(r)):
		return false
	}
	b.ends[r.Partition] = r.Offset + 1
	b.raw = append(b.raw, r)
	return true
}

func (c *collector) append(b *batch, r Record) bool {
	if len(r.JSON) > MaxPayload/2 && c.envelope.Size().With(&r.Record).Bytes > MaxPayload {
		b.tooLarge = append(b.tooLarge, r)
		return true
	}
	grown := b.size.With(&r.Record)
	if grown.Bytes > MaxPayload || len(b.records) == c.config.BatchSize {
		return false
	}
	b.records, b.size = append(b.records, r), grown
	return true
}
