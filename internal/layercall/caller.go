package layercall

import (
	"context"
	"sync"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/schedule"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
)

// Caller calls a function with the records of a consumer process. Many and Each are its handlers.
type Caller struct {
	Runtime Runtime
	// Cluster names the cluster in events (see mskevent.Cluster).
	Cluster string
	// Calls is the number of calls that Many makes at once, at least 1.
	Calls int
	// Order decides which records Many gives to the function in one call, or in calls one after another.
	Order kafka.Order
	// MaxEvent is the size of an event, in bytes, that no second record makes larger.
	MaxEvent int
}

// Each is a kafka.HandlerFunc: it makes a call for each record.
func (c *Caller) Each(ctx context.Context, r kafka.Record) ([]byte, error) {
	attempt, _ := idem.AttemptFrom(ctx)
	results, err := c.call(ctx, c.newPart().with(0, kafka.RecordAttempt{Record: &r, Attempt: attempt}))
	if err != nil {
		return nil, err
	}
	return results[0].Value, results[0].Err
}

// Many is a kafka.BulkAttempts: it divides the records into calls. The records of a lane stay together and in
// order. If it makes one call that fails, Many has failed. If it makes several, the records of one that fails
// get a call each when they are tried again, and keep their attempt; those of the others have their results.
func (c *Caller) Many(ctx context.Context, rs []kafka.RecordAttempt) ([]schedule.Result, error) {
	sequences := c.divide(rs)
	if len(sequences) == 1 && len(sequences[0]) == 1 {
		return c.call(ctx, sequences[0][0])
	}
	results := make([]schedule.Result, len(rs))
	var all sync.WaitGroup
	for _, sequence := range sequences {
		all.Go(func() {
			for _, p := range sequence {
				c.callInto(ctx, p, results)
			}
		})
	}
	all.Wait()
	return results, nil
}

// callInto makes one of several calls, and puts the result of each of its records in its place.
func (c *Caller) callInto(ctx context.Context, p *part, results []schedule.Result) {
	got, err := c.call(ctx, p)
	if err != nil && len(p.rs) > 1 && !idem.IsUnavailable(err) {
		err = idem.CallFailed(err)
	}
	for i, at := range p.places {
		if err != nil {
			results[at].Err = err
			continue
		}
		results[at] = got[i]
	}
}

// call makes a call, and returns the results of its records. A call of one record has the record's context:
// it ends with the claim, and idem.AttemptFrom returns the attempt.
func (c *Caller) call(ctx context.Context, p *part) ([]schedule.Result, error) {
	if own := p.rs[0].Context(); len(p.rs) == 1 && own != nil {
		ctx = own
	}
	answer, err := c.Runtime(ctx,
		p.envelope.Event(len(p.records), func(i int) *mskevent.Record { return &p.records[i] }))
	if err != nil {
		return nil, err
	}
	return results(p.rs, answer)
}

// divide divides records into sequences of calls. The sequences are called at once, the calls of a sequence
// one after another. Lanes take turns in getting a sequence.
func (c *Caller) divide(rs []kafka.RecordAttempt) (sequences [][]*part) {
	byLane := make(map[string]int)
	for i := range rs {
		name := c.lane(rs[i].Record)
		n, ok := byLane[name]
		if !ok {
			n = len(byLane) % c.Calls
			byLane[name] = n
		}
		if n == len(sequences) {
			sequences = append(sequences, []*part{c.newPart()})
		}
		last := sequences[n][len(sequences[n])-1]
		next := last.with(i, rs[i])
		if next != last {
			sequences[n] = append(sequences[n], next)
		}
	}
	return sequences
}

// lane names the records that are called one after another.
func (c *Caller) lane(r *kafka.Record) string {
	switch {
	case c.Order == kafka.ByPartition:
		return r.PartitionID()
	case c.Order == kafka.ByKey && r.Key != nil:
		return r.PartitionID() + "/" + string(r.Key)
	}
	return r.Source()
}

// part is the part of the records that makes a call.
type part struct {
	envelope mskevent.Envelope
	most     int // bytes of the event
	size     mskevent.Size
	rs       []kafka.RecordAttempt
	places   []int // of the records, among all of Many
	records  []mskevent.Record
}

func (c *Caller) newPart() *part {
	envelope := mskevent.Cluster(c.Cluster)
	return &part{envelope: envelope, most: c.MaxEvent, size: envelope.Size()}
}

// with adds a record, and returns the part that has it: this one, or a new one if this one would be too
// large.
func (p *part) with(place int, r kafka.RecordAttempt) *part {
	record := recordOf(&r)
	grown := p.size.With(&record)
	if len(p.rs) > 0 && grown.Bytes > p.most {
		p = &part{envelope: p.envelope, most: p.most}
		grown = p.envelope.Size().With(&record)
	}
	p.size = grown
	p.rs, p.places, p.records = append(p.rs, r), append(p.places, place), append(p.records, record)
	return p
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
