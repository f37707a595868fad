package esm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/kafkaclient"
)

// cluster sends all requests to the brokers, except those for records.
type cluster struct {
	client       *kgo.Client
	opts         []kgo.Opt
	brokers      string
	topic, group string
}

// Timeouts of requests to the cluster.
const (
	adminTimeout = 10 * time.Second
	// For its first consumer group, a broker creates the topic of offsets, and refuses requests until then.
	groupTimeout = 30 * time.Second
	groupRetry   = 200 * time.Millisecond
)

// dial connects. It returns an error if no broker answers.
func dial(ctx context.Context, brokers []string, opts []kgo.Opt, c *Config) (*cluster, error) {
	opts = append(slices.Clone(opts), kgo.SeedBrokers(brokers...), kgo.ClientID("idemsk-local"),
		kgo.MaxVersions(versions()))
	client, err := kafkaclient.Dial(ctx, brokers, opts...)
	if err != nil {
		return nil, err
	}
	return &cluster{client: client, opts: opts, brokers: strings.Join(brokers, ","), topic: c.topic(),
		group: c.ConsumerGroup}, nil
}

// versions excludes the versions of requests that identify topics by their IDs, because the mapping uses
// names.
func versions() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.OffsetCommit), 9)
	v.SetMaxKeyVersion(int16(kmsg.OffsetFetch), 9)
	return v
}

func (k *cluster) close() { k.client.Close() }

// partitions returns the numbers of the topic's partitions, in ascending order.
func (k *cluster) partitions(ctx context.Context) ([]int32, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, k.client) // of all topics
	if err != nil {
		return nil, fmt.Errorf("asking %s for its topics: %w", k.brokers, err)
	}
	var names []string
	for _, t := range resp.Topics {
		name := ""
		if t.Topic != nil {
			name = *t.Topic
		}
		if name != k.topic {
			if !t.IsInternal {
				names = append(names, name)
			}
			continue
		}
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return nil, fmt.Errorf("the topic %s at %s: %w", k.topic, k.brokers, err)
		}
		var numbers []int32
		for _, p := range t.Partitions {
			numbers = append(numbers, p.Partition)
		}
		slices.Sort(numbers)
		return numbers, nil
	}
	return nil, k.unknownTopic(names)
}

const shownTopics = 10

func (k *cluster) unknownTopic(names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("the cluster at %s has no topic %s, and no other topic: create it (idemsk topic create)", k.brokers, k.topic)
	}
	slices.Sort(names)
	more := ""
	if len(names) > shownTopics {
		names, more = names[:shownTopics], ", …"
	}
	return fmt.Errorf("the cluster at %s has no topic %s: create it (idemsk topic create), or name an existing one: %s%s",
		k.brokers, k.topic, strings.Join(names, ", "), more)
}

// Patiently repeats a request about a group, for up to 30 s, while the brokers answer with a retriable error:
// the coordinator of a cluster's first group is not available at once.
func Patiently(ctx context.Context, ask func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, groupTimeout)
	defer cancel()
	for {
		err := ask(ctx)
		var refused *kerr.Error
		if err == nil || ctx.Err() != nil || !errors.As(err, &refused) || !refused.Retriable {
			return err
		}
		Wait(ctx, groupRetry)
	}
}

// checkGroup returns an error if the group has members, because they and the mapping would overwrite each
// other's offsets.
func (k *cluster) checkGroup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{k.group}
	resp, err := req.RequestWith(ctx, k.client)
	if err != nil {
		return fmt.Errorf("asking %s for the consumer group %s: %w", k.brokers, k.group, err)
	}
	for _, g := range resp.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return fmt.Errorf("the consumer group %s: %w", k.group, err)
		}
		if n := len(g.Members); n > 0 {
			return fmt.Errorf("the consumer group %s has %d active members, the first from %s: stop them, or name another group with --consumer-group-id",
				k.group, n, g.Members[0].ClientHost)
		}
	}
	return nil
}

// committed returns the group's offsets.
func (k *cluster) committed(ctx context.Context) (offsets, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = k.group
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = k.group
	req.Groups = append(req.Groups, group)
	resp, err := req.RequestWith(ctx, k.client)
	if err != nil {
		return nil, fmt.Errorf("asking %s for the offsets of the consumer group %s: %w", k.brokers, k.group,
			err)
	}
	done := make(offsets)
	note := func(topic string, partition int32, offset int64) {
		if topic == k.topic && offset >= 0 {
			done[partition] = offset
		}
	}
	errs := []error{kerr.ErrorForCode(resp.ErrorCode)}
	for _, t := range resp.Topics { // of old brokers
		for _, p := range t.Partitions {
			note(t.Topic, p.Partition, p.Offset)
		}
	}
	for _, g := range resp.Groups {
		errs = append(errs, kerr.ErrorForCode(g.ErrorCode))
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				note(t.Topic, p.Partition, p.Offset)
			}
		}
	}
	if err := errors.Join(errs...); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		// a new group has none
		return nil, fmt.Errorf("the offsets of the consumer group %s: %w", k.group, err)
	}
	return done, nil
}

// Timestamps that stand for a partition's ends.
const (
	atEnd   = -1
	atStart = -2
)

// offsetsAt are the offsets of the first records at a time (epoch ms, or an end); -1 where there is none.
func (k *cluster) offsetsAt(ctx context.Context, partitions []int32, at int64) (offsets, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = k.topic
	for _, number := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = number, at
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	found := make(offsets, len(partitions))
	for _, shard := range k.client.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return nil, fmt.Errorf("asking %s for the offsets of %s: %w", k.brokers, k.topic, shard.Err)
		}
		resp, _ := shard.Resp.(*kmsg.ListOffsetsResponse) // the answer to this request
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("the offsets of %s-%d: %w", k.topic, p.Partition, err)
				}
				found[p.Partition] = p.Offset
			}
		}
	}
	return found, nil
}

// start returns the first offsets: those of the group, or else those of the starting position.
func (k *cluster) start(ctx context.Context, c *Config, partitions []int32) (offsets, error) {
	var begin offsets
	err := Patiently(ctx, func(ctx context.Context) (err error) { begin, err = k.committed(ctx); return err })
	if err != nil {
		return nil, err
	}
	var unset []int32
	for _, p := range partitions {
		if _, ok := begin[p]; !ok {
			unset = append(unset, p)
		}
	}
	if len(unset) == 0 {
		return begin, nil
	}
	at, err := k.offsetsAt(ctx, unset, c.startingTime())
	if err != nil {
		return nil, err
	}
	ends, err := k.offsetsAt(ctx, unset, atEnd)
	if err != nil {
		return nil, err
	}
	for _, p := range unset {
		if begin[p] = at[p]; at[p] < 0 { // all records are older
			begin[p] = ends[p]
		}
	}
	return begin, nil
}

// startingTime returns the starting position as a timestamp of Kafka's ListOffsets.
func (c *Config) startingTime() int64 {
	switch c.StartingPosition {
	case Latest:
		return atEnd
	case AtTimestamp:
		return c.StartingPositionTimestamp.UnixMilli()
	}
	return atStart
}

// commit commits the next offsets of the group.
func (k *cluster) commit(ctx context.Context, done offsets) error {
	return Patiently(ctx, func(ctx context.Context) error { return k.tryCommit(ctx, done) })
}

func (k *cluster) tryCommit(ctx context.Context, done offsets) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = k.group, -1 // not a member of the group
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = k.topic
	for number, next := range done {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch = number, next, -1
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	resp, err := req.RequestWith(ctx, k.client)
	if err != nil {
		return fmt.Errorf("committing offsets of %s for the consumer group %s: %w", k.topic, k.group, err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("committing %s-%d for the consumer group %s: %w%s", k.topic, p.Partition,
					k.group, err, commitHint(err))
			}
		}
	}
	return nil
}

func commitHint(err error) string {
	if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.RebalanceInProgress) ||
		errors.Is(err, kerr.IllegalGeneration) {
		return " (another consumer has joined the group: stop it, or name another group with --consumer-group-id)"
	}
	return ""
}

// consumer returns a client that reads some of the partitions.
func (k *cluster) consumer(begin offsets, partitions []int32) (*kgo.Client, error) {
	at := make(map[int32]kgo.Offset, len(partitions))
	for _, p := range partitions {
		at[p] = kgo.NewOffset().At(begin[p])
	}
	// Control records are read too, because the group reaches the end of a partition only with their offsets.
	client, err := kgo.NewClient(append(slices.Clone(k.opts),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{k.topic: at}), kgo.KeepControlRecords())...)
	if err != nil {
		return nil, fmt.Errorf("the Kafka client: %w", err)
	}
	return client, nil
}
