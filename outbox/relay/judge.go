package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// verdict is what a record's error means.
type verdict int

const (
	published    verdict = iota
	batchRefused         // for what one of the records in it is
	topicRefused
	unknown // what became of it
)

// What brokers and the client say about a record batch, and about a topic.
var (
	batchErrors = [...]error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.UnsupportedForMessageFormat}
	topicErrors = [...]error{kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed}
)

func (r *produced) judge() verdict {
	is := func(target error) bool { return errors.Is(r.err, target) }
	switch {
	case r.err == nil:
		return published
	case slices.ContainsFunc(batchErrors[:], is):
		return batchRefused
	case slices.ContainsFunc(topicErrors[:], is):
		return topicRefused
	}
	return unknown
}

// rejectUnknown fails the events of topics that can't be written to, and returns the others. Asked for one by one, a topic
// that does not exist would hold up a wave until the client believes it.
func (s *sending) rejectUnknown(ctx context.Context, events []int) []int {
	refused, err := s.p.look(ctx, s.newTopics(events))
	if err != nil {
		for _, i := range events {
			s.fail(i, err)
		}
		return nil
	}
	var good []int
	for _, i := range events {
		topic := s.events[i].Topic
		switch err, bad := refused[topic]; {
		case s.blocked[aggregate{topic, string(s.events[i].Key)}]:
			s.errs[i] = ErrHeldBack
		case bad:
			s.fail(i, fmt.Errorf("%w: topic %q: %w", ErrRejected, topic, err))
		default:
			good = append(good, i)
		}
	}
	return good
}

func (s *sending) newTopics(events []int) []string {
	var topics []string
	for _, i := range events {
		if topic := s.events[i].Topic; s.p.limits[topic] == 0 && !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
	}
	return topics
}

// look asks which of topics can't be written to, and why not, and learns how large a record batch the others take. It does not
// make topics.
func (p *Producer) look(ctx context.Context, topics []string) (refused map[string]error, err error) {
	client, err := p.open()
	if err != nil || len(topics) == 0 {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	configs := kmsg.NewPtrDescribeConfigsRequest()
	for _, topic := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &topic
		req.Topics = append(req.Topics, t)
		c := kmsg.NewDescribeConfigsRequestResource()
		c.ResourceType, c.ResourceName, c.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{maxMessageBytes}
		configs.Resources = append(configs.Resources, c)
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		p.dropLate(ctx)
		return nil, fmt.Errorf("%w: asking for %d topics: %w", ErrUnavailable, len(topics), err)
	}
	refused = make(map[string]error)
	for _, t := range resp.Topics {
		answer := produced{err: kerr.ErrorForCode(t.ErrorCode)}
		if t.Topic != nil && answer.judge() == topicRefused {
			refused[*t.Topic] = answer.err
		}
	}
	found, err := configs.RequestWith(ctx, client)
	if err != nil {
		p.dropLate(ctx)
		return nil, fmt.Errorf("%w: asking for the %s of %d topics: %w", ErrUnavailable, maxMessageBytes, len(topics), err)
	}
	for i := range found.Resources {
		if topic := found.Resources[i].ResourceName; refused[topic] == nil {
			p.limits[topic] = limit(&found.Resources[i])
		}
	}
	return refused, nil
}

// maxMessageBytes is what a topic's largest record batch is called.
const maxMessageBytes = "max.message.bytes"

// limit returns the most bytes that a topic's record batch may have. Who may not know it takes it for Kafka's own default.
func limit(topic *kmsg.DescribeConfigsResponseResource) int {
	for _, c := range topic.Configs {
		if c.Name == maxMessageBytes && c.Value != nil {
			if n, err := strconv.Atoi(*c.Value); err == nil && n > 0 {
				return n
			}
		}
	}
	return waveBytes
}
