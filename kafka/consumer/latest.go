package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// With Config.Reset Latest, a partition without a committed offset is read from its end. This position is committed before the first record is
// read: without it, the next owner would begin at a later end, and the records that were read and not settled would be lost. A partition
// that the topic gained while the process ran is read from its start.

// errNotCommitted means that the position at which reading begins could not be committed. The client joins the group again.
var errNotCommitted = errors.New("the position at which reading begins was not committed")

// noteTopics remembers how many partitions each topic has when the member joins. It is called until it succeeds once.
func (m *member) noteTopics(ctx context.Context, client *kgo.Client) error {
	if m.cfg.Reset != Latest || m.known != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, endsTimeout)
	defer cancel()
	resp, err := topicsRequest(client, m.cfg).RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("the partitions of the topics are not known: %w", err)
	}
	known := make(map[string]int32)
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("the partitions of a topic are not known: %w", err)
		}
		if t.Topic != nil {
			known[*t.Topic] = int32(len(t.Partitions))
		}
	}
	m.known = known
	return nil
}

// fixPositions replaces the ends in offsets, at which partitions without a committed offset are read, by offsets that it commits. Partitions that
// the topic did not have when the member joined are read from their start.
func (m *member) fixPositions(ctx context.Context, offsets map[string]map[int32]kgo.Offset) error {
	if m.cfg.Reset != Latest {
		return nil
	}
	if err := m.noteTopics(ctx, m.client); err != nil {
		return err
	}
	open := make(map[string][]int32)
	for topic, partitions := range offsets {
		for number, offset := range partitions {
			switch {
			case offset.EpochOffset().Offset >= 0:
			case number >= m.known[topic]:
				partitions[number] = kgo.NewOffset().AtStart()
			default:
				open[topic] = append(open[topic], number)
			}
		}
	}
	if len(open) == 0 {
		return nil
	}
	return m.commitEnds(ctx, offsets, open)
}

// commitEnds commits the ends of partitions, and has them read from there.
func (m *member) commitEnds(ctx context.Context, offsets map[string]map[int32]kgo.Offset, open map[string][]int32) error {
	limit, cancel := context.WithTimeout(ctx, endsTimeout)
	defer cancel()
	ends := make(map[string]map[int32]kgo.EpochOffset, len(open))
	for topic := range open {
		ends[topic] = make(map[int32]kgo.EpochOffset)
	}
	err := m.list(limit, m.client, listEnd, open, func(at place, _ *partition, offset int64) {
		ends[at.topic][at.partition] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	})
	if err != nil {
		return fmt.Errorf("%w: the ends of partitions are not known: %w", errNotCommitted, err)
	}
	for _, at := range places(open) {
		if _, known := ends[at.topic][at.partition]; !known {
			return fmt.Errorf("%w: the end of %s-%d is not known", errNotCommitted, at.topic, at.partition)
		}
	}
	m.commits.Lock()
	m.send(ctx, m.client, ends)
	m.commits.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range places(open) {
		end := ends[at.topic][at.partition].Offset
		if p := m.partitions[at]; p == nil || p.confirmed != end {
			return fmt.Errorf("%w: %s-%d at %d", errNotCommitted, at.topic, at.partition, end)
		}
		offsets[at.topic][at.partition] = kgo.NewOffset().At(end)
	}
	return nil
}
