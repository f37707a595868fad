package redrive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/internal/kafkatime"
	"github.com/idemsk/idemsk/internal/mskevent/redriven"
	"github.com/idemsk/idemsk/kafka"
)

// Kafka is a cluster: a destination, and the place to look for what was left out of letters.
type Kafka struct {
	client  *kgo.Client // nil after one that was given up
	opts    []kgo.Opt
	brokers string
	timeout time.Duration
}

var (
	_ Destination = (*Kafka)(nil)
	_ Reader      = (*Kafka)(nil)
)

// DefaultTimeout is how long a cluster may take to confirm a record, or to hand one out. To be reached it has
// a third of that.
const DefaultTimeout = 30 * time.Second

// Cluster says which cluster to connect to.
type Cluster struct {
	Brokers []string
	Options []kgo.Opt     // for encryption and authentication
	Timeout time.Duration // default DefaultTimeout
}

// Dial connects to a cluster. The caller closes it.
func Dial(ctx context.Context, cluster Cluster) (*Kafka, error) {
	k := &Kafka{brokers: strings.Join(cluster.Brokers, ","), timeout: cmp.Or(cluster.Timeout, DefaultTimeout)}
	k.opts = slices.Concat(cluster.Options,
		[]kgo.Opt{kgo.SeedBrokers(cluster.Brokers...), kgo.ClientID("idemsk-redrive")})
	if err := k.open(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, k.timeout/3)
	defer cancel()
	if err := k.client.Ping(ctx); err != nil {
		k.client.Close()
		return nil, fmt.Errorf("no Kafka broker answers at %s: check the addresses, the network, and --tls and --auth: %w", k.brokers, err)
	}
	return k, nil
}

// open makes the client that produces, if there is none: to the partition a record was in, whatever
// partitioner its producer has; and acknowledged by all replicas, which is the default.
func (k *Kafka) open() (err error) {
	if k.client != nil {
		return nil
	}
	if k.client, err = kgo.NewClient(k.with(kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(k.timeout))...); err != nil {
		return fmt.Errorf("the Kafka client: %w", err)
	}
	return nil
}

func (k *Kafka) with(opts ...kgo.Opt) []kgo.Opt { return slices.Concat(k.opts, opts) }

// Close ends the connections.
func (k *Kafka) Close() {
	if k.client != nil {
		k.client.Close()
	}
}

func (k *Kafka) String() string { return "Kafka at " + k.brokers }

// Send implements Destination. The record gets a new timestamp: with its old one, retention could delete it
// at once, and an event source with a record age limit would pass it over.
func (k *Kafka) Send(ctx context.Context, l *kafka.DeadLetter) (where string, err error) {
	if queue := l.Queue(); queue != "" {
		return "", fmt.Errorf("it is a message of the queue %s: idemsk redrive sends it there", queue)
	}
	record := &kgo.Record{Topic: l.Topic, Partition: l.Partition, Key: l.Key, Value: l.Value}
	for _, h := range redriven.Headers(l) {
		record.Headers = append(record.Headers, kgo.RecordHeader(h))
	}
	out, err := k.produce(ctx, record)
	if err != nil {
		return "", fmt.Errorf("producing to %s, partition %d: %w%s", l.Topic, l.Partition, err,
			produceHint(err))
	}
	at := kafka.DeadLetter{Topic: out.Topic, Partition: out.Partition, Offset: out.Offset}
	return at.Source(), nil
}

// produce produces a record. A client that does not know in time what became of it is given up, as an
// idempotent one waits for that for ever: over a connection that fell silent, too.
func (k *Kafka) produce(ctx context.Context, record *kgo.Record) (*kgo.Record, error) {
	if err := k.open(); err != nil {
		return nil, err
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.timeout)
	defer cancel()
	inTime := context.AfterFunc(limit, k.client.Close)
	out, err := k.client.ProduceSync(ctx, record).First()
	if inTime() {
		return out, err
	}
	k.client = nil
	if err != nil {
		err = fmt.Errorf("it was not confirmed within %v, but may have been written: %w", k.timeout, err)
	}
	return out, err
}

func produceHint(err error) string {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return " (the cluster has no such topic, or it has fewer partitions now)"
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return " (this user may not write to the topic)"
	case errors.Is(err, kerr.MessageTooLarge):
		return " (raise the topic's max.message.bytes)"
	}
	return ""
}

// Fill implements Reader.
func (k *Kafka) Fill(ctx context.Context, l *kafka.DeadLetter) error {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	record, err := k.read(ctx, l)
	if err != nil {
		return err
	}
	if !isOf(record, l) {
		return fmt.Errorf("the record at %s is another one: the topic was recreated", l.Source())
	}
	l.Key, l.Value, l.Headers = record.Key, record.Value, nil
	for _, h := range record.Headers {
		l.Headers = append(l.Headers, kafka.DeadHeader(h))
	}
	return nil
}

// isOf reports whether the record at a letter's place is the letter's: a topic that was created again has
// others at the same places, which may have the same size. A key that was left out of the letter, and a time
// that it does not have, tell nothing.
func isOf(record *kgo.Record, l *kafka.DeadLetter) bool {
	sameKey := slices.Contains(l.Omitted, "key") || bytes.Equal(record.Key, l.Key)
	sameTime := l.Timestamp == 0 || kafkatime.Is(record, l.Timestamp)
	return sameKey && sameTime && (l.ValueOmitted == 0 || len(record.Value) == l.ValueOmitted)
}

// read reads the one record at a letter's place.
func (k *Kafka) read(ctx context.Context, l *kafka.DeadLetter) (*kgo.Record, error) {
	place := map[string]map[int32]kgo.Offset{l.Topic: {l.Partition: kgo.NewOffset().At(l.Offset)}}
	client, err := kgo.NewClient(k.with(
		kgo.ConsumePartitions(place), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.MaxConcurrentFetches(1))...)
	if err != nil {
		return nil, fmt.Errorf("the Kafka client: %w", err)
	}
	defer client.Close()
	for {
		fetches := client.PollRecords(ctx, 1)
		for _, record := range fetches.Records() {
			if record.Offset == l.Offset {
				return record, nil
			}
			return nil, fmt.Errorf("%s no longer exists: retention or compaction has removed it", l.Source())
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("reading %s: no response in time (does the topic exist, and is the offset before its end?): %w",
				l.Source(), context.Cause(ctx))
		}
		for _, e := range fetches.Errors() {
			return nil, fmt.Errorf("reading %s: %w%s", l.Source(), e.Err, readHint(e.Err))
		}
	}
}

func readHint(err error) string {
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange):
		return " (retention has removed the record)"
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return " (the cluster has no such topic or partition)"
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return " (this user may not read the topic)"
	}
	return ""
}
