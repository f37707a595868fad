package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Retention can delete records before they are read, and an operator a topic. The log says so.

// deleted has what is known of records that were deleted before they were read.
type deleted struct {
	told int64 // the log names those before this offset
	// where reading stood behind the first record at the last survey, and since when
	next  int64
	since time.Time
}

// lasts reports whether records that the log does not name yet are before the first one that exists, and were
// not read since a survey before. Those that are about to be read may have been fetched before.
func (d *deleted) lasts(p *partition, now time.Time) bool {
	next := p.next()
	if p.window.last < 0 && p.from < 0 || p.start <= max(next, d.told) {
		d.since = time.Time{}
		return false
	}
	if d.next != next || d.since.IsZero() {
		d.next, d.since = next, now
	}
	return now.Sub(d.since) >= surveyInterval
}

// tellDeleted logs that the records of a partition before an offset were deleted before they were read. The
// caller holds mu.
func (m *member) tellDeleted(ctx context.Context, at place, p *partition, first int64) {
	from := max(p.next(), p.deleted.told)
	if first <= from {
		return
	}
	p.deleted.told = first
	m.log.ErrorContext(ctx, deletedText, "topic", at.topic, "partition", at.partition, "from", from, "to", first-1,
		"alarm", true)
}

const deletedText = "records were deleted before they were read: the retention of the topic is shorter than the lag"

// lookUp looks for the topics by their names. One that was deleted is waited for: the group may take its
// partitions away. One that was created again ends Run, because its records have the offsets of others.
func (m *member) lookUp(ctx context.Context, client *kgo.Client) {
	gone := m.choose(func(p *partition) bool { return p.gone })
	req := topicsRequest(client, m.cfg)
	if req.Topics == nil { // patterns
		for topic := range gone {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = &topic
			req.Topics = append(req.Topics, t)
		}
	}
	if len(req.Topics) == 0 {
		return
	}
	resp, err := await(ctx, func() (*kmsg.MetadataResponse, error) { return req.RequestWith(ctx, client) })
	if err != nil {
		return
	}
	for i := range resp.Topics {
		if t := &resp.Topics[i]; t.Topic != nil {
			m.lookedUp(t, gone[*t.Topic], time.Now())
		}
	}
}

// lookedUp takes note of what the brokers know of a topic, some of whose partitions may be gone.
func (m *member) lookedUp(t *kmsg.MetadataResponseTopic, gone []int32, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	missing := kerr.ErrorForCode(t.ErrorCode)
	if missing != nil && !unknownTopic(missing) {
		return
	}
	m.noteMissing(*t.Topic, missing != nil, now)
	for _, number := range gone {
		p := m.partitions[place{*t.Topic, number}]
		switch {
		case p == nil || !p.gone:
		case missing != nil:
			p.faults.deleted(now)
		case p.topicID == t.TopicID, p.topicID == [16]byte{}: // a broker did not know it yet
			p.gone = false
		default:
			m.abort(fmt.Errorf("%w: the topic %q was deleted and created again: start the consumer again, which reads the new one "+
				"from where Reset (IDEMSK_KAFKA_RESET) says", ErrOperator, *t.Topic))
			return
		}
	}
}

// noteMissing takes note of whether a topic exists. The caller holds mu.
func (m *member) noteMissing(topic string, is bool, now time.Time) {
	f := m.missing[topic]
	switch {
	case !is:
		delete(m.missing, topic)
		return
	case f == nil:
		f = new(fault)
		m.missing[topic] = f
	}
	f.note(errTopicDeleted, now)
}

// unknownTopic reports whether a broker does not know a topic, by its name or by its ID.
func unknownTopic(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}
