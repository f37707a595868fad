package kafka

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/idemsk/idemsk/idem"
)

// Stream processes the records of an endless source, such as a consumer process, in lanes by Config.Order. A
// record that is not settled is tried again (see idem.SchedulerConfig), and blocks only its lane. The logger of
// Config gets a line for each try with any other outcome than a plain execution, and the observer of the
// engine is told of each try.
//
// A Stream is safe for concurrent use. The caller must call Close.
type Stream struct {
	processor *Processor
	ctx       context.Context // for the log and the observer
	cluster   string
	done      func(*Message)
	preparing preparation
	lanes     *idem.Stream
}

// Stream returns a stream of records of a cluster, which ends when ctx ends: the contexts of handlers end
// then, and no handler is called any more. ctx should have no deadline.
//
// The stream calls done once for each record that is settled, from any goroutine except those that call the
// stream's methods, never concurrently for the records of one lane, and not always in the order of offsets.
// done must not block, and must not call Revoke or Close. Without dead letters, a record that always fails is
// tried for ever: see Stream.Retrying.
func (p *Processor) Stream(ctx context.Context, cluster string, done func(*Message)) *Stream {
	s := &Stream{processor: p, ctx: ctx, cluster: cluster, done: done}
	s.lanes = p.scheduler.Stream(ctx, s.settled, s.retried)
	s.preparing = preparation{
		ctx: ctx, prepare: s.prepare, ready: func(items []*idem.Item) { s.lanes.Add(items...) },
		partitions: make(map[string]*preparing),
	}
	return s
}

// Add adds records. Those of a partition must be in the order of their offsets. Add returns at once, before
// keys and fingerprints are computed: the caller bounds the number of records that are in progress. After
// Close it does nothing.
func (s *Stream) Add(records ...Record) { s.AddWithin(nil, records...) }

// AddWithin adds records as Add does. within, if it is not nil, returns the contexts of their handlers.
func (s *Stream) AddWithin(within Within, records ...Record) {
	for first := 0; first < len(records); {
		topic, partition := records[first].Topic, records[first].Partition
		var group []*streamMessage
		for ; first < len(records) && records[first].Topic == topic &&
			records[first].Partition == partition; first++ {
			m := &streamMessage{record: records[first]}
			m.within = within
			group = append(group, m)
		}
		s.preparing.add(lanePrefix(topic, partition), group)
	}
}

// prepare identifies a record, and sets its lane.
func (s *Stream) prepare(ctx context.Context, m *streamMessage) {
	m.prepare(ctx, s.processor, &m.record, s.cluster)
	m.Lane = s.lane(&m.record)
}

// Revoke removes the records of a partition, unless their handlers have begun: their claims are released, and
// the attempts are not counted. It then waits for those that have begun, until ctx ends, and returns those
// that have not ended by then. Their State is idem.ItemOverrun, and their Outcome must not be read. done is not
// called for any of these after Revoke has returned. The keys of those that were returned are still settled.
func (s *Stream) Revoke(ctx context.Context, topic string, partition int32) (running []*Message) {
	prefix := lanePrefix(topic, partition)
	s.preparing.revoke(prefix)
	return messages(s.lanes.Stop(ctx, func(lane string) bool { return strings.HasPrefix(lane, prefix) }))
}

// Close removes the records of all partitions as Revoke does, and ends the stream. The contexts of the
// handlers that still run have ended when it returns. Their keys are not settled, and stay claimed until
// their leases end.
func (s *Stream) Close(ctx context.Context) (running []*Message) {
	s.preparing.close()
	defer s.preparing.wait(ctx)
	return messages(s.lanes.Close(ctx))
}

// Retrying returns how many lanes wait to try a record again, and how many of these are blocked until an
// operator fixes the cause (see Report.Blocked).
func (s *Stream) Retrying() (lanes, blocked int) {
	s.lanes.EachRetrying(func(it *idem.Item) {
		if lanes++; isBlocked(&it.Outcome) {
			blocked++
		}
	})
	return lanes, blocked
}

func messages(items []*idem.Item) []*Message {
	all := make([]*Message, len(items))
	for i, it := range items {
		all[i] = messageOf(it)
	}
	return all
}

// messageOf returns the message of an item.
func messageOf(it *idem.Item) *Message {
	t, _ := it.Substitute.(task)
	return t.Message
}

// lane returns the name of a record's lane: the partition's prefix, and a key or an offset.
func (s *Stream) lane(r *Record) string {
	name := lanePrefix(r.Topic, r.Partition)
	switch {
	case s.processor.cfg.Order == ByPartition:
		return name
	case s.processor.cfg.Order == ByKey && r.Key != nil:
		return name + "k" + string(r.Key)
	}
	return name + "@" + strconv.FormatInt(r.Offset, 10)
}

// lanePrefix returns the beginning of the names of a partition's lanes. Names of topics contain no '/'.
func lanePrefix(topic string, partition int32) string {
	return topic + "/" + strconv.Itoa(int(partition)) + "/"
}

func (s *Stream) settled(it *idem.Item) {
	s.tried(it)
	s.done(messageOf(it))
}

// retried looks again for the key of a record that could not be identified.
func (s *Stream) retried(it *idem.Item) {
	s.tried(it)
	if m := messageOf(it); m.rejected != nil && idem.IsUnavailable(m.rejected) {
		m.rejected = nil
		ctx, cancel := prepareContext(s.ctx)
		defer cancel()
		m.prepare(ctx, s.processor, m.Record, s.cluster)
	}
}

// tried logs an outcome and tells the observer.
func (s *Stream) tried(it *idem.Item) {
	m := messageOf(it)
	m.explain()
	logRecord(s.ctx, s.processor.cfg.Logger, m)
	if observer := s.processor.engine.Config().Observer; observer != nil {
		observer.Observe(s.ctx, m.end(time.Now()))
	}
}
