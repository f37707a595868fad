package consumer

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The end of a partition is known from its fetches. It is requested for partitions that are paused, and for
// those that had nothing to read yet. For a partition without a committed offset the offset at which its
// reading begins is requested as well.
const (
	endsInterval = 10 * time.Second
	endsTimeout  = 5 * time.Second
)

// The timestamps of a request for offsets that stand for the first one and for the end.
const (
	listFirst = -2
	listEnd   = -1
)

// lag returns the number of offsets from the first record that is not settled to the end; -1 if it is
// unknown.
func (p *partition) lag() int64 {
	first := p.window.first()
	if p.nothingKnown() {
		first = p.begin
	}
	if p.end < 0 || first < 0 {
		return -1
	}
	return max(0, p.end-first)
}

// nothingKnown reports whether no offset was committed, and no record was read.
func (p *partition) nothingKnown() bool { return p.confirmed < 0 && p.window.last < 0 }

// requestEnds updates the ends of the partitions whose fetches do not have them. A failure leaves them as
// they are.
func (m *member) requestEnds(ctx context.Context, client *kgo.Client) {
	ctx, cancel := context.WithTimeout(ctx, endsTimeout)
	defer cancel()
	begin := int64(listFirst)
	if m.cfg.Reset == Latest {
		begin = listEnd
	}
	unknown := m.choose(func(p *partition) bool { return p.nothingKnown() && p.begin < 0 })
	err := m.list(ctx, client, begin, unknown, func(_ place, p *partition, offset int64) { p.begin = offset })
	if err == nil {
		unfetched := m.choose(func(p *partition) bool { return p.paused || p.end < 0 })
		err = m.list(ctx, client, listEnd, unfetched,
			func(_ place, p *partition, offset int64) { p.end = max(p.end, offset) })
	}
	if err != nil {
		m.seldom.warn(m.log, "ends", "the ends of partitions that are not fetched are not known: their lag is unknown or out of date", "error", err)
	}
}

// list requests an offset of some partitions.
func (m *member) list(ctx context.Context, client *kgo.Client, timestamp int64, of map[string][]int32,
	note func(place, *partition, int64)) error {
	req := kmsg.NewPtrListOffsetsRequest()
	for topic, partitions := range of {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		for _, number := range partitions {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = number, timestamp
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	if len(req.Topics) == 0 {
		return nil
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range resp.Topics {
		for _, answer := range resp.Topics[i].Partitions {
			at := place{resp.Topics[i].Topic, answer.Partition}
			if p := m.partitions[at]; p != nil && answer.ErrorCode == 0 {
				note(at, p, answer.Offset)
			}
		}
	}
	return nil
}

// choose returns some of the partitions.
func (m *member) choose(of func(*partition) bool) map[string][]int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	chosen := make(map[string][]int32)
	for at, p := range m.partitions {
		if of(p) {
			chosen[at.topic] = append(chosen[at.topic], at.partition)
		}
	}
	return chosen
}
