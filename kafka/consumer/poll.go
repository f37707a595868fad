package consumer

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/kafka"
)

// poll reads records until ctx ends or an operator must act, which may be the cause of the end.
func (m *member) poll(ctx context.Context, client *kgo.Client) error {
	m.sizes.limit(client)
	for {
		began := time.Now()
		fetches := client.PollRecords(ctx, m.ready(client))
		if ctx.Err() != nil {
			return operatorError(context.Cause(ctx))
		}
		m.repairTimestamps(ctx, client, fetches)
		err := m.take(ctx, client, fetches, m.polled(ctx, began, fetches))
		client.AllowRebalance()
		if err != nil {
			return err
		}
	}
}

// polled calls kafka.Config.Poll, if it is set and there are records.
func (m *member) polled(ctx context.Context, began time.Time, fetches kgo.Fetches) kafka.Within {
	if m.cfg.Records.Poll == nil || fetches.NumRecords() == 0 {
		return nil
	}
	records := make([]kafka.Record, 0, fetches.NumRecords())
	fetches.EachRecord(func(r *kgo.Record) { records = append(records, record(r)) })
	return m.cfg.Records.Poll(ctx, began, records)
}

// take adds the fetched records to the stream.
func (m *member) take(ctx context.Context, client *kgo.Client, fetches kgo.Fetches,
	within kafka.Within) (err error) {
	fetches.EachTopic(func(t kgo.FetchTopic) {
		for _, partition := range t.Partitions {
			f := &kgo.FetchTopicPartition{Topic: t.Topic, FetchPartition: partition}
			m.identify(f, t.TopicID)
			if len(f.Records) > 0 && err == nil { // those before what can't be read
				m.read(ctx, client, f, within)
			}
			if f.Err != nil && err == nil {
				err = m.failed(ctx, client, f)
			}
		}
	})
	return err
}

// identify takes note of the topic that the client reads: another one can have its name later.
func (m *member) identify(f *kgo.FetchTopicPartition, id [16]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.partitions[place{f.Topic, f.Partition}]; p != nil && id != [16]byte{} {
		p.topicID = id
	}
}

// read adds the records of one partition to its window and to the stream.
func (m *member) read(ctx context.Context, client *kgo.Client, f *kgo.FetchTopicPartition,
	within kafka.Within) {
	at := place{f.Topic, f.Partition}
	if m.rewound(ctx, at, f) {
		m.stop(ended(), map[string][]int32{at.topic: {at.partition}})
		m.restart(at, f.Records[0].Offset)
	}
	if m.enter(client, at, f) {
		m.stream.AddWithin(within, m.records...)
	}
	clear(m.records)
	m.records = m.records[:0]
}

// enter adds records to their window, and to m.records if they are to be handled. It reports whether the
// partition is assigned.
func (m *member) enter(client *kgo.Client, at place, f *kgo.FetchTopicPartition) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.partitions[at]
	if p == nil {
		return false
	}
	now := time.Now()
	p.end, p.gone = f.HighWatermark, false
	p.faults.reading.note(nil, now)
	m.change(p, func(w *window) {
		for _, r := range f.Records {
			control := r.Attrs.IsControl() // a marker of a transaction
			w.add(entry{offset: r.Offset, epoch: r.LeaderEpoch, bytes: cost(r), settled: control}, now)
			if !control {
				m.records = append(m.records, record(r))
			}
		}
	})
	if !p.paused && m.full(p) {
		m.pause(client, at, p, now)
	}
	m.pauseAll(client)
	return true
}

// rewound reports whether the client reads a partition again from an earlier offset, because the broker lost
// records. It logs records that were deleted before they were read.
func (m *member) rewound(ctx context.Context, at place, f *kgo.FetchTopicPartition) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, first := m.partitions[at], f.Records[0].Offset
	if p == nil || p.window.last < 0 && p.from < 0 {
		return false
	}
	m.tellDeleted(ctx, at, p, min(first, f.LogStartOffset))
	return first <= p.window.last
}

// restart begins the window of a partition anew.
func (m *member) restart(at place, first int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.partitions[at]; p != nil {
		m.change(p, func(w *window) { *w = newWindow(first - 1) })
		p.confirmed, p.from, p.faults.committing = -1, first, fault{}
	}
}

// recordOverhead is what a record takes in memory beside its data, about: the record, its task and its claim.
const recordOverhead = 1 << 10

// cost returns the bytes of memory that a record counts.
func cost(r *kgo.Record) int32 {
	n := len(r.Key) + len(r.Value) + recordOverhead
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return int32(n)
}

// noTimestamp is Kafka's timestamp of a record that has none.
const noTimestamp = -1

// record returns a record as handlers get it.
func record(r *kgo.Record) kafka.Record {
	out := kafka.Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value,
		TimestampType: kafka.TimestampTypeOf(r.Attrs.TimestampType()),
	}
	if ms := r.Timestamp.UnixMilli(); ms != noTimestamp {
		out.Timestamp = r.Timestamp.UTC()
	}
	if len(r.Headers) > 0 {
		out.Headers = make([]kafka.Header, len(r.Headers))
		for i, h := range r.Headers {
			out.Headers[i] = kafka.Header(h)
		}
	}
	return out
}
