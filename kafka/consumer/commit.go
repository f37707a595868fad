package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// doubtTime is how long offsets are committed again and again after a commit that was not answered. A broker
// may apply the request late, after later ones of another connection, and so move the offset back.
const doubtTime = time.Minute

// commit commits the watermarks of all partitions. There is one commit at a time. It reports whether the
// broker accepts some of them only after a rebalance.
func (m *member) commit(ctx context.Context, client *kgo.Client) (rebalance bool) {
	m.commits.lock()
	defer m.commits.unlock()
	return m.send(ctx, client, m.uncommitted(time.Now(), nil))
}

// lastCommitPause is the time between two last commits.
const lastCommitPause = 50 * time.Millisecond

// commitLast commits the watermarks of all partitions before the member leaves. If the group rebalances, it
// waits for that, at most lastCommitTimeout.
func (m *member) commitLast(ctx context.Context, client *kgo.Client) {
	for end := time.Now().Add(lastCommitTimeout); m.commit(ctx, client); <-time.After(lastCommitPause) {
		if time.Now().After(end) {
			m.log.WarnContext(ctx, "the last offsets were not committed, because the group did not end its rebalance: the records are delivered again")
			return
		}
	}
}

// uncommitted returns the watermarks of partitions (nil: of all) that are to be committed. The caller holds
// commits.
func (m *member) uncommitted(now time.Time, of map[string][]int32) map[string]map[int32]kgo.EpochOffset {
	m.mu.Lock()
	defer m.mu.Unlock()
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	add := func(at place) {
		p := m.partitions[at]
		if p == nil {
			return
		}
		mark, ok := p.window.watermark()
		if !ok || p.gone || mark.Offset == p.confirmed && !now.Before(p.doubt) {
			return
		}
		if offsets[at.topic] == nil {
			offsets[at.topic] = make(map[int32]kgo.EpochOffset)
		}
		offsets[at.topic][at.partition] = mark
	}
	if of == nil {
		for at := range m.partitions {
			add(at)
		}
	}
	for _, at := range places(of) {
		add(at)
	}
	return offsets
}

// send commits offsets and waits for the answer, at most commitTimeout. It reports whether the broker accepts
// some of them only after a rebalance. The caller holds commits.
func (m *member) send(ctx context.Context, client *kgo.Client,
	offsets map[string]map[int32]kgo.EpochOffset) (rebalance bool) {
	if len(offsets) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	client.CommitOffsetsSync(ctx, offsets,
		func(_ *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			if err != nil {
				m.unanswered(offsets, err)
				return
			}
			rebalance = m.answered(offsets, req, resp)
		})
	return rebalance
}

// unanswered takes note of offsets that may have been committed, or may be later.
func (m *member) unanswered(offsets map[string]map[int32]kgo.EpochOffset, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for topic, partitions := range offsets {
		for number := range partitions {
			if p := m.partitions[place{topic, number}]; p != nil {
				p.doubt = time.Now().Add(doubtTime)
			}
		}
	}
	m.seldom.warn(m.log, "commit", "offsets were not committed; they are sent again", "error", err)
}

// answered takes note of the answers for each partition. It reports whether one of them is that the group
// rebalances.
func (m *member) answered(
	offsets map[string]map[int32]kgo.EpochOffset, req *kmsg.OffsetCommitRequest,
	resp *kmsg.OffsetCommitResponse,
) (rebalance bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	// later versions of the protocol answer with the ID of a topic alone
	names := make(map[[16]byte]string, len(req.Topics))
	for i := range req.Topics {
		names[req.Topics[i].TopicID] = req.Topics[i].Topic
	}
	for i := range resp.Topics {
		topic := resp.Topics[i].Topic
		if topic == "" {
			topic = names[resp.Topics[i].TopicID]
		}
		for _, answer := range resp.Topics[i].Partitions {
			err, at := kerr.ErrorForCode(answer.ErrorCode), place{topic, answer.Partition}
			switch p := m.partitions[at]; {
			case err == nil && p != nil:
				p.confirmed = offsets[topic][answer.Partition].Offset
				p.faults.committing.note(nil, now)
			case err == nil:
			case errors.Is(err, kerr.RebalanceInProgress):
				rebalance = true
			default:
				m.seldom.warn(m.log, "commit",
					"the offset of a partition was not committed; it is sent again while the partition is assigned",
					"topic", topic, "partition", answer.Partition, "offset", offsets[topic][answer.Partition].Offset,
					"error", err)
				if p != nil {
					p.faults.committing.note(err, now)
					p.gone = p.gone || unknownTopic(err)
				}
			}
		}
	}
	return rebalance
}
