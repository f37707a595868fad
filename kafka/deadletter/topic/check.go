package topic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// errCompacted means that Kafka would remove letters.
var errCompacted = errors.New("the topic is compacted: of the letters of one Kafka key only the last would stay: set cleanup.policy=delete")

// cleanupPolicy is the topic setting for what happens to old records.
const cleanupPolicy = "cleanup.policy"

// check returns an error if the topic does not exist or is compacted. It asks the brokers until they have
// said that it is not. A client that may not read the topic's settings trusts them.
func (t *Topic) check(ctx context.Context) error {
	t.mu.Lock()
	kept := t.kept
	t.mu.Unlock()
	if kept {
		return nil
	}
	req := kmsg.NewPtrDescribeConfigsRequest()
	topic := kmsg.NewDescribeConfigsRequestResource()
	topic.ResourceType, topic.ResourceName, topic.ConfigNames = kmsg.ConfigResourceTypeTopic, t.name,
		[]string{cleanupPolicy}
	req.Resources = append(req.Resources, topic)
	resp, err := req.RequestWith(ctx, t.client)
	if err != nil {
		return fmt.Errorf("reading its %s: %w", cleanupPolicy, err)
	}
	for i := range resp.Resources {
		if err := judge(&resp.Resources[i]); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = true
	return nil
}

// Check returns an error if an operator must act before a letter can be sent: the topic does not exist, is
// compacted or not permitted, or the brokers refuse the credentials. It does not find out whether the client
// may write. Brokers that do not answer now may answer before the first letter: that is no error.
func (t *Topic) Check(ctx context.Context) error {
	err := t.find(ctx)
	if err == nil {
		err = t.check(ctx)
	}
	for _, operator := range []error{
		errCompacted, kerr.UnknownTopicOrPartition, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed,
		kerr.SaslAuthenticationFailed,
	} {
		if errors.Is(err, operator) {
			return fmt.Errorf("topic: the topic %s for dead letters: %w%s", t.name, err, hint(err))
		}
	}
	return nil
}

// find returns the error that the brokers have for the topic.
func (t *Topic) find(ctx context.Context) error {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation, _ = t.client.OptValue(kgo.AllowAutoTopicCreation).(bool)
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &t.name
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, t.client)
	if err != nil {
		return err
	}
	for i := range resp.Topics {
		if err := kerr.ErrorForCode(resp.Topics[i].ErrorCode); err != nil {
			return err
		}
	}
	return nil
}

func judge(topic *kmsg.DescribeConfigsResponseResource) error {
	if err := kerr.ErrorForCode(topic.ErrorCode); err != nil &&
		!errors.Is(err, kerr.TopicAuthorizationFailed) {
		return fmt.Errorf("reading its %s: %w", cleanupPolicy, err)
	}
	for _, c := range topic.Configs {
		if c.Name == cleanupPolicy && c.Value != nil && strings.Contains(*c.Value, "compact") {
			return errCompacted
		}
	}
	return nil
}

// hint returns the remedy for an error of Kafka. Until the error is fixed, records whose letters can't be
// sent block their partitions.
func hint(err error) string {
	var network net.Error
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return " (the cluster has no such topic: create it, with cleanup.policy=delete)"
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return " (the client may not write to the topic: with IAM it needs kafka-cluster:DescribeTopic and kafka-cluster:WriteData, " +
			"otherwise the ACLs Describe and Write)"
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return " (the client may not write idempotently: with IAM it needs kafka-cluster:WriteDataIdempotently)"
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return " (the brokers refuse the credentials)"
	case errors.Is(err, kerr.InvalidRecord):
		return " (a compacted topic refuses letters without a key: set cleanup.policy=delete)"
	case errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, io.EOF), errors.As(err, &network):
		return " (no acknowledgement: can the brokers be reached from here, with the right TLS and SASL, " +
			"and does the topic have as many in-sync replicas as min.insync.replicas wants?)"
	}
	return ""
}
