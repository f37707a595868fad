package redrive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/lambda/msk"
)

// Kafka is a cluster: a destination, and the place to look for what was left out of letters.
type Kafka struct {
	client  *kgo.Client
	opts    []kgo.Opt
	brokers string
}

var (
	_ Destination = (*Kafka)(nil)
	_ Reader      = (*Kafka)(nil)
)

// Times for the cluster to answer.
const (
	pingTimeout    = 10 * time.Second
	produceTimeout = 30 * time.Second
	readTimeout    = 30 * time.Second
)

// Dial connects to a cluster. The caller closes it.
func Dial(ctx context.Context, brokers []string, security Security) (*Kafka, error) {
	secured, err := security.Options()
	if err != nil {
		return nil, err
	}
	k := &Kafka{brokers: strings.Join(brokers, ",")}
	k.opts = slices.Concat(secured, []kgo.Opt{kgo.SeedBrokers(brokers...), kgo.ClientID("idemsk-redrive")})
	// To the partition it was in, whatever partitioner its producer has; and acknowledged by all replicas, which is the default.
	k.client, err = kgo.NewClient(k.with(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordDeliveryTimeout(produceTimeout))...)
	if err != nil {
		return nil, fmt.Errorf("the Kafka client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := k.client.Ping(ctx); err != nil {
		k.client.Close()
		return nil, fmt.Errorf("no Kafka broker answers at %s: check the addresses, the network, and --tls and --sasl: %w", k.brokers, err)
	}
	return k, nil
}

func (k *Kafka) with(opts ...kgo.Opt) []kgo.Opt { return slices.Concat(k.opts, opts) }

// Close ends the connections.
func (k *Kafka) Close() { k.client.Close() }

func (k *Kafka) String() string { return "Kafka at " + k.brokers }

// Send implements Destination. The record gets a new timestamp: with its old one, retention could delete it at once, and
// an event source with a record age limit would pass it over.
func (k *Kafka) Send(ctx context.Context, l *msk.DeadLetter) (where string, err error) {
	rec := &kgo.Record{Topic: l.Topic, Partition: l.Partition, Key: l.Key, Value: l.Value}
	for _, h := range headers(l) {
		rec.Headers = append(rec.Headers, kgo.RecordHeader(h))
	}
	out, err := k.client.ProduceSync(ctx, rec).First()
	if err != nil {
		return "", fmt.Errorf("producing to %s, partition %d: %w%s", l.Topic, l.Partition, err, produceHint(err))
	}
	at := msk.DeadLetter{Topic: out.Topic, Partition: out.Partition, Offset: out.Offset}
	return at.Source(), nil
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
func (k *Kafka) Fill(ctx context.Context, l *msk.DeadLetter) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	rec, err := k.read(ctx, l)
	if err != nil {
		return err
	}
	keyKnown := len(l.Key) > 0
	if l.ValueOmitted > 0 && len(rec.Value) != l.ValueOmitted || keyKnown && !bytes.Equal(rec.Key, l.Key) {
		return fmt.Errorf("what is at %s now is another record: the topic was made anew", l.Source())
	}
	l.Key, l.Value, l.Headers = rec.Key, rec.Value, nil
	for _, h := range rec.Headers {
		l.Headers = append(l.Headers, msk.DeadHeader(h))
	}
	return nil
}

// read reads the one record at a letter's place.
func (k *Kafka) read(ctx context.Context, l *msk.DeadLetter) (*kgo.Record, error) {
	place := map[string]map[int32]kgo.Offset{l.Topic: {l.Partition: kgo.NewOffset().At(l.Offset)}}
	client, err := kgo.NewClient(k.with(
		kgo.ConsumePartitions(place), kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.MaxConcurrentFetches(1))...)
	if err != nil {
		return nil, fmt.Errorf("the Kafka client: %w", err)
	}
	defer client.Close()
	for {
		fetches := client.PollRecords(ctx, 1)
		for _, rec := range fetches.Records() {
			if rec.Offset == l.Offset {
				return rec, nil
			}
			return nil, fmt.Errorf("%s is not there any more: retention or compaction has removed it", l.Source())
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("reading %s: no answer in time (is the topic there, and the offset not beyond its end?): %w",
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
