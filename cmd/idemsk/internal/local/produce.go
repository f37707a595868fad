package local

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const produceTimeout = 30 * time.Second

// newProducer returns a client that produces to the topic.
func newProducer(o *Options, brokers []string) (*kgo.Client, error) {
	client, err := kgo.NewClient(append(slices.Clone(o.Kafka), kgo.SeedBrokers(brokers...),
		kgo.ClientID("idemsk-local-producer"),
		kgo.DefaultProduceTopic(o.ESM.Topics[0]), kgo.RecordDeliveryTimeout(produceTimeout))...)
	if err != nil {
		return nil, fmt.Errorf("the Kafka client: %w", err)
	}
	return client, nil
}

// producePayments writes generated payments to the topic. Kafka's partitioner selects the partition by the
// record's key.
func producePayments(ctx context.Context, o *Options, brokers []string) error {
	topic := o.ESM.Topics[0]
	client, err := newProducer(o, brokers)
	if err != nil {
		return err
	}
	defer client.Close()
	first := kgo.AbortingFirstErrPromise(client)
	for m, err := range o.generated().Messages(topic) {
		if err != nil {
			return err
		}
		r := &kgo.Record{Key: m.Key, Value: m.Value}
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader(h))
		}
		client.Produce(ctx, r, first.Promise())
	}
	if err := first.Err(); err != nil {
		return fmt.Errorf("producing to %s: %w", topic, err)
	}
	return nil
}
