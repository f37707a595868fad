// Package topic is the Kafka of the peers that are consumer processes: a topic in the peer's process, into
// which it produces the records of an event when the event is delivered.
package topic

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/aws/aws-lambda-go/events"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/test/bench/internal/event"
)

// Name is the name of the topic, and Group that of the consumer group.
const (
	Name  = "payments"
	Group = "bench"
)

// Topic is a topic with the partitions of an event.
type Topic struct {
	Brokers  []string
	cluster  *kfake.Cluster
	producer *kgo.Client
	records  []*kgo.Record // of the event that was prepared
	produced int64         // records, since the start
}

// New starts a Kafka with an empty topic. It ends with the process.
func New() (*Topic, error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(event.Partitions, Name))
	if err != nil {
		return nil, fmt.Errorf("starting Kafka: %w", err)
	}
	t := &Topic{Brokers: cluster.ListenAddrs(), cluster: cluster}
	t.producer, err = kgo.NewClient(kgo.SeedBrokers(t.Brokers...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression())) // the clients for other languages lack some codecs
	return t, err
}

// Prepare implements peer.Preparer: it decodes the records of an event.
func (t *Topic) Prepare(_ context.Context, payload []byte) error {
	var e events.KafkaEvent
	if err := json.Unmarshal(payload, &e); err != nil {
		return fmt.Errorf("decoding the event: %w", err)
	}
	t.records = nil
	for _, records := range e.Records {
		for i := range records {
			r, err := record(&records[i])
			if err != nil {
				return err
			}
			t.records = append(t.records, r)
		}
	}
	return nil
}

func record(r *events.KafkaRecord) (*kgo.Record, error) {
	key, err := base64.StdEncoding.DecodeString(r.Key)
	if err != nil {
		return nil, fmt.Errorf("decoding a key: %w", err)
	}
	value, err := base64.StdEncoding.DecodeString(r.Value)
	if err != nil {
		return nil, fmt.Errorf("decoding a value: %w", err)
	}
	out := &kgo.Record{Topic: Name, Partition: int32(r.Partition), Key: key, Value: value}
	for _, header := range r.Headers {
		for name, value := range header {
			out.Headers = append(out.Headers, kgo.RecordHeader{Key: name, Value: value})
		}
	}
	return out, nil
}

// Produce appends the records of the event that was prepared to the topic, and returns how many there are.
func (t *Topic) Produce(ctx context.Context) (int, error) {
	t.produced += int64(len(t.records))
	return len(t.records), t.producer.ProduceSync(ctx, t.records...).FirstErr()
}

// Uncommitted returns how many of the records that were produced the group has not committed.
func (t *Topic) Uncommitted() int64 {
	left := t.produced
	if info := t.cluster.GroupInfo(Group); info != nil {
		for _, commit := range info.Commits[Name] {
			left -= commit.Offset
		}
	}
	return left
}
