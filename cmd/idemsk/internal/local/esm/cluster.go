package esm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/kafkaclient"
)

// cluster sends all requests to the brokers, except those for records.
type cluster struct {
	client       *kgo.Client
	admin        *kadm.Client
	opts         []kgo.Opt
	brokers      string
	topic, group string
}

// adminTimeout bounds requests about the topic.
const adminTimeout = 10 * time.Second

// dial connects. It returns an error if no broker answers.
func dial(ctx context.Context, brokers []string, opts []kgo.Opt, c *Config) (*cluster, error) {
	opts = append(slices.Clone(opts), kgo.SeedBrokers(brokers...), kgo.ClientID("idemsk-local"))
	client, err := kafkaclient.Dial(ctx, brokers, opts...)
	if err != nil {
		return nil, err
	}
	return &cluster{client: client, admin: kadm.NewClient(client), opts: opts,
		brokers: strings.Join(brokers, ","), topic: c.topic(), group: c.ConsumerGroup}, nil
}

func (k *cluster) close() { k.client.Close() }

// partitions returns the numbers of the topic's partitions, in ascending order.
func (k *cluster) partitions(ctx context.Context) ([]int32, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	topics, err := k.admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking %s for its topics: %w", k.brokers, err)
	}
	topic, known := topics[k.topic]
	switch {
	case !known:
		topics.FilterInternal()
		return nil, k.unknownTopic(topics.Names())
	case topic.Err != nil:
		return nil, fmt.Errorf("the topic %s at %s: %w", k.topic, k.brokers, topic.Err)
	}
	return topic.Partitions.Numbers(), nil
}

const shownTopics = 10

func (k *cluster) unknownTopic(names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("the cluster at %s has no topic %s, and no other topic: create it (idemsk topic create)", k.brokers, k.topic)
	}
	more := ""
	if len(names) > shownTopics {
		names, more = names[:shownTopics], ", …"
	}
	return fmt.Errorf("the cluster at %s has no topic %s: create it (idemsk topic create), or name an existing one: %s%s",
		k.brokers, k.topic, strings.Join(names, ", "), more)
}

// ends returns the offsets after the last records.
func (k *cluster) ends(ctx context.Context) (offsets, error) {
	return k.offsets(ctx, k.admin.ListEndOffsets)
}

// offsets returns the offsets that list finds in the topic.
func (k *cluster) offsets(ctx context.Context,
	list func(context.Context, ...string) (kadm.ListedOffsets, error)) (offsets, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	listed, err := list(ctx, k.topic)
	if err = errors.Join(err, listed.Error()); err != nil {
		return nil, fmt.Errorf("asking %s for the offsets of %s: %w", k.brokers, k.topic, err)
	}
	found := make(offsets)
	for number, o := range listed[k.topic] {
		found[number] = o.Offset
	}
	return found, nil
}

// start returns the first offsets: those of the group, or else those of the starting position.
func (k *cluster) start(ctx context.Context, c *Config) (offsets, error) {
	list := k.admin.ListStartOffsets
	switch c.StartingPosition {
	case Latest:
		list = k.admin.ListEndOffsets
	case AtTimestamp: // the end, if all records are older
		list = func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
			return k.admin.ListOffsetsAfterMilli(ctx, c.StartingPositionTimestamp.UnixMilli(), topics...)
		}
	}
	committed, err := kafkaclient.Committed(ctx, k.admin, k.group, k.topic)
	if err != nil {
		return nil, err
	}
	begin, err := k.offsets(ctx, list)
	if err != nil {
		return nil, err
	}
	maps.Copy(begin, committed)
	return begin, nil
}

// commit commits the next offsets of the group.
func (k *cluster) commit(ctx context.Context, done offsets) error {
	return kafkaclient.Commit(ctx, k.admin, k.group, k.topic, done)
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
