package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// With Config.Reset Latest, a partition without a committed offset is read from its end, and one that the
// topic gained while the process ran from its start. This position is committed before the first record is
// read: without it, the next owner would begin at a later end, and the records that were read and not settled
// would be lost.

// errNotCommitted means that the position at which reading begins could not be committed. The client joins
// the group again.
var errNotCommitted = errors.New("the position at which reading begins was not committed")

// noteTopics remembers how many partitions each topic has when the member joins. It is called until it
// succeeds once.
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
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil &&
			!errors.Is(err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("the partitions of a topic are not known: %w", err)
		}
		if t.Topic != nil {
			known[*t.Topic] = int32(len(t.Partitions))
		}
	}
	m.known = known
	return nil
}

// fixPositions replaces the ends in offsets, at which partitions without a committed offset are read, by
// offsets that it commits. Partitions that the topic did not have when the member joined are read from their
// start.
func (m *member) fixPositions(ctx context.Context, offsets map[string]map[int32]kgo.Offset) error {
	if m.cfg.Reset != Latest {
		return nil
	}
	if err := m.noteTopics(ctx, m.client); err != nil {
		return err
	}
	old, gained := make(map[string][]int32), make(map[string][]int32)
	for topic, partitions := range offsets {
		for number, offset := range partitions {
			switch {
			case offset.EpochOffset().Offset >= 0:
			case number >= m.known[topic]:
				gained[topic] = append(gained[topic], number)
			default:
				old[topic] = append(old[topic], number)
			}
		}
	}
	if len(old)+len(gained) == 0 {
		return nil
	}
	limit, cancel := context.WithTimeout(ctx, endsTimeout)
	defer cancel()
	found := make(map[place]int64)
	err := errors.Join(m.find(limit, listEnd, old, found), m.find(limit, listFirst, gained, found))
	if err != nil {
		return fmt.Errorf("%w: %w", errNotCommitted, err)
	}
	return m.commitPositions(ctx, found, offsets)
}

// find adds the ends or the starts of partitions to found.
func (m *member) find(ctx context.Context, which int64, of map[string][]int32, found map[place]int64) error {
	err := m.list(ctx, m.client, which, of, func(at place, _ *partition, offset int64) { found[at] = offset })
	if err != nil {
		return fmt.Errorf("the offsets of partitions are not known: %w", err)
	}
	for _, at := range places(of) {
		if _, known := found[at]; !known {
			return fmt.Errorf("the offsets of %s-%d are not known", at.topic, at.partition)
		}
	}
	return nil
}

// commitPositions commits the positions of partitions, and has them read from there.
func (m *member) commitPositions(ctx context.Context, positions map[place]int64,
	offsets map[string]map[int32]kgo.Offset) error {
	commit := make(map[string]map[int32]kgo.EpochOffset)
	for at, offset := range positions {
		if commit[at.topic] == nil {
			commit[at.topic] = make(map[int32]kgo.EpochOffset)
		}
		commit[at.topic][at.partition] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	m.commits.lock()
	m.send(ctx, m.client, commit)
	m.commits.unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for at, offset := range positions {
		if p := m.partitions[at]; p == nil || p.confirmed != offset {
			return fmt.Errorf("%w: %s-%d at %d", errNotCommitted, at.topic, at.partition, offset)
		}
		offsets[at.topic][at.partition] = kgo.NewOffset().At(offset)
	}
	return nil
}
