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

// hint returns the remedy for an error of a broker, "" if none is known.
func hint(err error) string {
	for answered, remedy := range map[error]string{
		kerr.TopicAuthorizationFailed: "the principal needs WRITE and DESCRIBE on the topic; with IAM, kafka-cluster:WriteData and DescribeTopic",
		kerr.ClusterAuthorizationFailed: "the principal needs WRITE on a topic, or IDEMPOTENT_WRITE on the cluster; " +
			"with IAM, kafka-cluster:WriteDataIdempotently",
		kerr.SaslAuthenticationFailed: "the user or the password is wrong; with IAM, the role needs kafka-cluster:Connect",
		kerr.UnknownTopicOrPartition:  "create the topic: a relay creates none",
		kerr.MessageTooLarge:          "raise the topic's max.message.bytes, or publish a reference to the data",
		kerr.InvalidRecord:            "does the topic have cleanup.policy=compact, and the event no key?",
	} {
		if errors.Is(err, answered) {
			return " (" + remedy + ")"
		}
	}
	return ""
}

// rejectUnknown fails the events of topics that can't be written to and returns the others. Without this
// check, an event of a missing topic would delay its wave until the client gives up the topic.
func (s *sending) rejectUnknown(ctx context.Context, events []int) []int {
	topics, refused := s.newTopics(events)
	err := s.p.look(ctx, topics, refused)
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
			s.fail(i, fmt.Errorf("%w: %w", ErrRejected, err))
		default:
			good = append(good, i)
		}
	}
	return good
}

// newTopics returns the topics that look has not found yet, and why it is not to look for some: a broker
// closes the connection on a request with a name that is too long for it.
func (s *sending) newTopics(events []int) (topics []string, refused map[string]error) {
	refused = make(map[string]error)
	for _, i := range events {
		e := &s.events[i]
		if s.p.limits[e.Topic] != 0 || refused[e.Topic] != nil || slices.Contains(topics, e.Topic) {
			continue
		}
		if err := e.CheckTopic(); err != nil {
			refused[e.Topic] = err
			continue
		}
		topics = append(topics, e.Topic)
	}
	return topics, refused
}

// look adds the topics that can't be written to, with the reasons, to refused, and stores the maximum batch
// size of the others. It does not create topics.
func (p *Producer) look(ctx context.Context, topics []string, refused map[string]error) error {
	client, err := p.open()
	if err != nil || len(topics) == 0 {
		return err
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
		return fmt.Errorf("%w: requesting the metadata of %d topics: %w%s", ErrUnavailable, len(topics), err,
			hint(err))
	}
	for _, t := range resp.Topics {
		answer := produced{err: kerr.ErrorForCode(t.ErrorCode)}
		if t.Topic != nil && answer.judge() == topicRefused {
			refused[*t.Topic] = fmt.Errorf("topic %q: %w%s", *t.Topic, answer.err, hint(answer.err))
		}
	}
	found, err := configs.RequestWith(ctx, client)
	if err != nil {
		p.dropLate(ctx)
		return fmt.Errorf("%w: requesting the %s of %d topics: %w%s", ErrUnavailable, maxMessageBytes,
			len(topics), err, hint(err))
	}
	for i := range found.Resources {
		if topic := found.Resources[i].ResourceName; refused[topic] == nil {
			p.limits[topic] = limit(&found.Resources[i])
		}
	}
	return nil
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
