package layercall

import (
	"context"
	"fmt"
	"slices"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
)

// Caller calls a function with the records of a consumer process. Many and Each are its handlers.
type Caller struct {
	Runtime Runtime
	// Cluster names the cluster in events (see mskevent.Cluster).
	Cluster string
	// MaxEvent is the size of an event, in bytes, that no second record makes larger.
	MaxEvent int
}

// Each is a kafka.HandlerFunc: it makes a call for each record.
func (c *Caller) Each(ctx context.Context, r kafka.Record) ([]byte, error) {
	return one(ctx, r, func(rs []kafka.RecordAttempt) ([]idem.BulkResult, error) {
		return c.call(ctx, rs, []mskevent.Record{recordOf(&rs[0])})
	})
}

// one calls a function with one record, and returns its result.
func one(ctx context.Context, r kafka.Record, call func([]kafka.RecordAttempt) ([]idem.BulkResult, error)) ([]byte, error) {
	attempt, _ := idem.AttemptFrom(ctx)
	results, err := call([]kafka.RecordAttempt{{Record: &r, Attempt: attempt}})
	if err != nil {
		return nil, err
	}
	return results[0].Value, results[0].Err
}

// Many is a kafka.BulkAttempts: it makes one call. Records for which the event has no room are in a later call.
func (c *Caller) Many(ctx context.Context, rs []kafka.RecordAttempt) ([]idem.BulkResult, error) {
	records := make([]mskevent.Record, 0, len(rs))
	size := mskevent.Cluster(c.Cluster).Size()
	for i := range rs {
		record := recordOf(&rs[i])
		if size = size.With(&record); i > 0 && size.Bytes > c.MaxEvent {
			break
		}
		records = append(records, record)
	}
	if len(records) == 1 && rs[0].Context() != nil {
		ctx = rs[0].Context() // it ends with the claim, and idem.AttemptFrom returns the attempt
	}
	called := len(records)
	results, err := c.call(ctx, rs[:called], records)
	if called == len(rs) {
		return results, err
	}
	if err != nil { // of the records that were called
		if called > 1 && !idem.IsUnavailable(err) {
			err = idem.CallFailed(err)
		}
		results = slices.Repeat([]idem.BulkResult{{Err: err}}, called)
	}
	later := idem.BulkResult{Err: idem.OutOfTurn(fmt.Errorf("an event has at most %d bytes", c.MaxEvent))}
	return append(results, slices.Repeat([]idem.BulkResult{later}, len(rs)-called)...), nil
}

// call makes a call, and returns the results of its records.
func (c *Caller) call(ctx context.Context, rs []kafka.RecordAttempt, records []mskevent.Record) ([]idem.BulkResult, error) {
	envelope := mskevent.Cluster(c.Cluster)
	answer, err := c.Runtime(ctx, envelope.Event(len(records), func(i int) *mskevent.Record { return &records[i] }))
	if err != nil {
		return nil, err
	}
	return results(rs, answer)
}

// recordOf returns a record as a function gets it.
func recordOf(a *kafka.RecordAttempt) mskevent.Record {
	m := messageOf(a.Record)
	m.Headers = append(m.Headers, headersOf(a.Attempt)...)
	return m.Record()
}

func messageOf(r *kafka.Record) mskevent.Message {
	m := mskevent.Message{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: -1,
		TimestampType: r.TimestampType, Key: r.Key, Value: r.Value,
		KeySchema: (*mskevent.Schema)(r.KeySchema), ValueSchema: (*mskevent.Schema)(r.ValueSchema),
	}
	if !r.Timestamp.IsZero() {
		m.Timestamp = r.Timestamp.UnixMilli()
	}
	for _, h := range r.Headers {
		if !isOurs(h.Key) {
			m.Headers = append(m.Headers, mskevent.Header(h))
		}
	}
	return m
}
