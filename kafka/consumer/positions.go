package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// With Config.Reset Latest, a partition without a committed offset is read from its end, and one that the
// topic gained while the process ran from its start. A partition whose committed offset was deleted, or does
// not exist yet, is read from where Config.Reset says. Such a position is committed before the first record
// is read: without it, the next owner would begin at a later end, and the records that were read and not
// settled would be lost.

// errNotCommitted means that the position at which reading begins could not be committed. The client joins
// the group again.
var errNotCommitted = errors.New("the position at which reading begins was not committed")

// noteTopics remembers how many partitions each topic has when the member joins. It is called until it
// succeeds once.
func (m *member) noteTopics(ctx context.Context, client *kgo.Client) error {
	if m.cfg.Reset != Latest || m.known != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
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

// position is where a partition is read from, if the client would not begin at its committed offset.
type position struct {
	offset    int64
	committed int64 // -1 if there is none
	first     int64
	end       int64
}

// fixPositions replaces the offsets at which partitions can't be read by those at which Reset says that they
// are read, and commits these: the end of a partition without a committed offset (Reset Latest), and where
// reading continues if the committed offset was deleted, or is beyond the end. What is skipped is logged.
func (m *member) fixPositions(ctx context.Context, offsets map[string]map[int32]kgo.Offset) error {
	if m.cfg.Reset == Fail {
		return nil
	}
	if err := m.noteTopics(ctx, m.client); err != nil {
		return err
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
		if unknown := errors.Join(err, first.err, end.err); unknown != nil {
			if committed.Offset >= 0 {
				continue // the client finds out, and the survey logs it
			}
			return fmt.Errorf("%w: the offsets of %s-%d are not known: %w", errNotCommitted, at.topic,
				at.partition, unknown)
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

// toBegin returns the partitions of offsets that were not read yet.
func (m *member) toBegin(offsets map[string]map[int32]kgo.Offset) map[string][]int32 {
	asked := make(map[string][]int32)
	m.mu.Lock()
	defer m.mu.Unlock()
	for topic, partitions := range offsets {
		for number, offset := range partitions {
			p := m.partitions[place{topic, number}]
			if p == nil || p.window.last >= 0 || offset.EpochOffset().Offset < 0 && m.cfg.Reset != Latest {
				continue
			}
			asked[topic] = append(asked[topic], number)
		}
	}
	return asked
}

// fix returns where a partition is read from; false if that is where the client begins.
func (m *member) fix(ctx context.Context, at place, committed kgo.EpochOffset, first, end int64) (p position, ok bool) {
	p = position{offset: first, committed: committed.Offset, first: first, end: end}
	if m.cfg.Reset == Latest {
		p.offset = end
	}
	switch {
	case committed.Offset < 0:
		if at.partition >= m.known[at.topic] { // the topic gained it
			p.offset = first
		}
	case committed.Offset > end && committed.Epoch >= 0: // the client asks the brokers where the records were lost
		m.log.ErrorContext(ctx, beyondText+"there, or where Reset says", "topic", at.topic, "partition", at.partition,
			"committed", committed.Offset, "end", end, "alarm", true)
		return p, false
	case committed.Offset >= first && committed.Offset <= end:
		return p, false
	}
	return p, true
}

const beyondText = "the committed offset is beyond the end: the brokers lost records, or the topic was created again: reading continues "

// tellPositions logs which records are skipped.
func (m *member) tellPositions(ctx context.Context, fixed map[place]position) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var begun []string
	for at, p := range fixed {
		switch {
		case p.committed < 0 && p.offset > p.first:
			begun = append(begun, fmt.Sprintf("%s-%d@%d", at.topic, at.partition, p.offset))
		case p.committed < 0:
		case p.committed > p.end:
			m.log.ErrorContext(ctx, beyondText+"where Reset says", "topic", at.topic, "partition", at.partition,
				"committed", p.committed, "end", p.end, "continuesAt", p.offset, "alarm", true)
		case p.offset > p.first:
			m.log.ErrorContext(ctx, deletedText+", and those that exist are skipped, because Reset is Latest", "topic", at.topic,
				"partition", at.partition, "from", p.committed, "to", p.offset-1, "alarm", true)
		default:
			m.log.ErrorContext(ctx, deletedText, "topic", at.topic, "partition", at.partition, "from", p.committed,
				"to", p.offset-1, "alarm", true)
		}
	}
	if len(begun) > 0 {
		m.log.WarnContext(ctx, "no offset is committed: reading begins at the end, because Reset is Latest, and no earlier record is handled",
			"partitions", some(begun))
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
