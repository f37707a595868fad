package consumer

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The survey requests where each partition begins and ends. A fetch does not tell while the partition is
// paused, has nothing to read, or has no leader.
const (
	surveyInterval = 10 * time.Second
	surveyTimeout  = 5 * time.Second
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
	if p.window.open() == 0 {
		first = max(p.next(), p.start)
	}
	if p.end < 0 || !p.placed || p.window.last < 0 && p.start < 0 {
		return -1
	}
	return max(0, p.end-first)
}

// survey updates the starts and the ends of all partitions, and what is wrong with them.
func (m *member) survey(ctx context.Context, client *kgo.Client) {
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	all := m.choose(func(*partition) bool { return true })
	firsts, err := list(ctx, client, listFirst, all)
	if err == nil {
		var ends map[place]listed
		ends, err = list(ctx, client, listEnd, all)
		m.surveyed(ctx, firsts, ends, time.Now())
	}
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		m.seldom.warn(m.log, "survey", "the starts and the ends of the partitions are not known: their lag is unknown or out of date", "error", err)
	}
	m.lookUp(ctx, client)
	m.alarm(ctx, time.Now())
}

// surveyed takes note of a survey.
func (m *member) surveyed(ctx context.Context, firsts, ends map[place]listed, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at, p := range m.partitions {
		first, known := firsts[at]
		end, alsoKnown := ends[at]
		if !known || !alsoKnown { // it was assigned meanwhile
			continue
		}
		err := cmp.Or(first.err, end.err)
		if p.faults.listing.note(err, now); err != nil {
			p.gone = p.gone || unknownTopic(err)
			continue
		}
		if p.start = first.offset; p.placed && p.from < 0 {
			p.from = p.start
		}
		p.endsAt(end.offset)
		if p.deleted.lasts(p, now) {
			m.tellDeleted(ctx, at, p, p.start)
		}
	}
}

// endsAt takes note of where a partition ends by a survey. An earlier end than before can be that of a former
// leader: the next survey confirms it, if the brokers have lost records.
func (p *partition) endsAt(end int64) {
	switch {
	case end >= p.end, p.beyond == p.end:
		p.end, p.beyond = end, -1
	default:
		p.beyond = p.end
	}
}

// listed is an offset of a partition, or the error of its leader.
type listed struct {
	offset int64
	err    error
}

// list requests an offset of some partitions. It returns an error if no broker answers. If only some do not
// answer, the partitions of the others have the errors.
func list(ctx context.Context, client *kgo.Client, timestamp int64, of map[string][]int32) (map[place]listed,
	error) {
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
	found := make(map[place]listed)
	if len(req.Topics) == 0 {
		return found, nil
	}
	shards, err := await(ctx, func() ([]kgo.ResponseShard, error) { return client.RequestSharded(ctx, req), nil })
	if err != nil {
		return nil, err
	}
	answered := false
	for i := range shards {
		var ofBroker *kerr.Error
		if shards[i].Err == nil || errors.As(shards[i].Err, &ofBroker) {
			answered = true
		} else {
			err = shards[i].Err
		}
		addListed(found, &shards[i])
	}
	if !answered {
		return nil, err
	}
	return found, nil
}

// addListed adds the answer of a broker, or its error for each partition that it was asked for.
func addListed(to map[place]listed, shard *kgo.ResponseShard) {
	if shard.Err != nil {
		req, _ := shard.Req.(*kmsg.ListOffsetsRequest)
		for i := range req.Topics {
			for _, p := range req.Topics[i].Partitions {
				to[place{req.Topics[i].Topic, p.Partition}] = listed{err: shard.Err}
			}
		}
		return
	}
	resp, _ := shard.Resp.(*kmsg.ListOffsetsResponse)
	for i := range resp.Topics {
		for _, p := range resp.Topics[i].Partitions {
			to[place{resp.Topics[i].Topic, p.Partition}] = listed{p.Offset, kerr.ErrorForCode(p.ErrorCode)}
		}
	}
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
