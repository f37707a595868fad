package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A partition whose committed offset was deleted, or does not exist yet, is read from its first record. This
// position is committed before the first record is read, so that its lag is known.

// errNotCommitted means that the position at which reading begins could not be committed. The client joins
// the group again.
var errNotCommitted = errors.New("the position at which reading begins was not committed")

// position is where a partition is read from, if the client would not begin at its committed offset.
type position struct {
	offset    int64
	committed int64
	end       int64
}

// fixPositions replaces committed offsets that were deleted, or are beyond the end, by that of the first record,
// and commits these. What is skipped is logged.
func (m *member) fixPositions(ctx context.Context, offsets map[string]map[int32]kgo.Offset) error {
	if m.cfg.Reset == Fail {
		return nil
	}
	asked := m.toBegin(offsets)
	if len(asked) == 0 {
		return nil
	}
	limit, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	firsts, err := list(limit, m.client, listFirst, asked)
	var ends map[place]listed
	if err == nil {
		ends, err = list(limit, m.client, listEnd, asked)
	}
	fixed := make(map[place]position)
	for _, at := range places(asked) {
		first, end := firsts[at], ends[at]
		committed := offsets[at.topic][at.partition].EpochOffset()
		if errors.Join(err, first.err, end.err) != nil {
			continue // the client finds out, and the survey logs it
		}
		if p, ok := m.fix(ctx, at, committed, first.offset, end.offset); ok {
			fixed[at] = p
		}
	}
	if err := m.commitPositions(ctx, fixed, offsets); err != nil {
		return err
	}
	m.tellPositions(ctx, fixed)
	return nil
}

// toBegin returns the partitions with a committed offset that were not read yet.
func (m *member) toBegin(offsets map[string]map[int32]kgo.Offset) map[string][]int32 {
	asked := make(map[string][]int32)
	m.mu.Lock()
	defer m.mu.Unlock()
	for topic, partitions := range offsets {
		for number, offset := range partitions {
			p := m.partitions[place{topic, number}]
			if p == nil || p.window.last >= 0 || offset.EpochOffset().Offset < 0 {
				continue
			}
			asked[topic] = append(asked[topic], number)
		}
	}
	return asked
}

// fix returns where a partition is read from; false if that is where the client begins.
func (m *member) fix(ctx context.Context, at place, committed kgo.EpochOffset, first, end int64) (p position, ok bool) {
	switch {
	case committed.Offset > end && committed.Epoch >= 0: // the client asks the brokers where the records were lost
		m.log.ErrorContext(ctx, beyondText+"there, or at the first record", "topic", at.topic, "partition", at.partition,
			"committed", committed.Offset, "end", end, "alarm", true)
		return p, false
	case committed.Offset >= first && committed.Offset <= end:
		return p, false
	}
	p = position{offset: first, committed: committed.Offset, end: end}
	return p, true
}

const beyondText = "the committed offset is beyond the end: the brokers lost records, or the topic was created again: reading continues "

// tellPositions logs which records are skipped.
func (m *member) tellPositions(ctx context.Context, fixed map[place]position) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at, p := range fixed {
		if p.committed > p.end {
			m.log.ErrorContext(ctx, beyondText+"at the first record", "topic", at.topic, "partition", at.partition,
				"committed", p.committed, "end", p.end, "continuesAt", p.offset, "alarm", true)
			continue
		}
		m.log.ErrorContext(ctx, deletedText, "topic", at.topic, "partition", at.partition, "from", p.committed,
			"to", p.offset-1, "alarm", true)
	}
}

// commitPositions commits the positions of partitions, and has them read from there.
func (m *member) commitPositions(ctx context.Context, fixed map[place]position,
	offsets map[string]map[int32]kgo.Offset) error {
	if len(fixed) == 0 {
		return nil
	}
	commit := make(map[string]map[int32]kgo.EpochOffset)
	for at, position := range fixed {
		if commit[at.topic] == nil {
			commit[at.topic] = make(map[int32]kgo.EpochOffset)
		}
		commit[at.topic][at.partition] = kgo.EpochOffset{Epoch: -1, Offset: position.offset}
	}
	m.commits.lock()
	m.send(ctx, m.client, commit)
	m.commits.unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for at, position := range fixed {
		if p := m.partitions[at]; p == nil || p.confirmed != position.offset {
			return fmt.Errorf("%w: %s-%d at %d", errNotCommitted, at.topic, at.partition, position.offset)
		}
		offsets[at.topic][at.partition] = kgo.NewOffset().At(position.offset)
	}
	return nil
}
