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

// verdict is the meaning of a record's error.
type verdict int

const (
	published    verdict = iota
	batchRefused         // because of one of its records
	topicRefused
	unknown // the record may have been published
)

// The errors about a record batch and about a topic.
var (
	batchErrors = [...]error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord,
		kerr.InvalidTimestamp, kerr.UnsupportedForMessageFormat}
	topicErrors = [...]error{kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InvalidTopicException,
		kerr.TopicAuthorizationFailed}
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

// rejectUnknown fails the events of topics that can't be written to and returns the others. Without this
// check, an event of a missing topic would delay its wave until the client gives up the topic.
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
		case s.heldBack(i):
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

// look returns the topics that can't be written to, with the reasons, and stores the maximum batch size of
// the others. It does not create topics.
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
		c.ResourceType, c.ResourceName, c.ConfigNames = kmsg.ConfigResourceTypeTopic, topic,
			[]string{maxMessageBytes}
		configs.Resources = append(configs.Resources, c)
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		p.dropLate(ctx)
		return nil, fmt.Errorf("%w: requesting the metadata of %d topics: %w", ErrUnavailable, len(topics),
			err)
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
		return nil, fmt.Errorf("%w: requesting the %s of %d topics: %w", ErrUnavailable, maxMessageBytes,
			len(topics), err)
	}
	for i := range found.Resources {
		if topic := found.Resources[i].ResourceName; refused[topic] == nil {
			p.limits[topic] = limit(&found.Resources[i])
		}
	}
	return refused, nil
}

// maxMessageBytes is the topic setting for the maximum size of a record batch.
const maxMessageBytes = "max.message.bytes"

// limit returns the maximum size in bytes of a topic's record batches, or Kafka's default if it is unknown,
// for example without permission.
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
