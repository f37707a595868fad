package consumer

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The end of a partition is known from its fetches. Those of paused partitions are requested.
const (
	endsInterval = 10 * time.Second
	endsTimeout  = 5 * time.Second
)

// requestEnds updates the ends of the paused partitions. A failure leaves them as they are.
func (m *member) requestEnds(ctx context.Context, client *kgo.Client) {
	req := kmsg.NewPtrListOffsetsRequest()
	for topic, partitions := range m.pausedPartitions() {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		for _, number := range partitions {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = number, -1 // the end
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	if len(req.Topics) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endsTimeout)
	defer cancel()
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		m.seldom.warn(m.log, "ends", "the ends of paused partitions are not known: their lag is out of date", "error", err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range resp.Topics {
		for _, answer := range resp.Topics[i].Partitions {
			if p := m.partitions[place{resp.Topics[i].Topic, answer.Partition}]; p != nil && answer.ErrorCode == 0 {
				p.end = max(p.end, answer.Offset)
			}
		}
	}
}

func (m *member) pausedPartitions() map[string][]int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	paused := make(map[string][]int32)
	for at, p := range m.partitions {
		if p.paused {
			paused[at.topic] = append(paused[at.topic], at.partition)
		}
	}
	return paused
}
