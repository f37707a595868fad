package local

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/stream"
)

const (
	produceTimeout = 30 * time.Second
	produceBatch   = 1000 // records that the stream makes at once: how far a copy may be from its original
)

// produce writes generated payments to the topic; Kafka's own partitioner places them by their keys.
func produce(ctx context.Context, o *Options, brokers []string) error {
	topic := o.ESM.Topics[0]
	client, err := kgo.NewClient(append(slices.Clone(o.Kafka), kgo.SeedBrokers(brokers...), kgo.ClientID("idemsk-local-producer"),
		kgo.DefaultProduceTopic(topic), kgo.RecordDeliveryTimeout(produceTimeout))...)
	if err != nil {
		return fmt.Errorf("the Kafka client: %w", err)
	}
	defer client.Close()
	payments := stream.Config{Records: o.Produce, Partitions: 1, BatchSize: produceBatch, Seed: o.Seed, Copies: o.Copies}
	for batch, err := range payments.Batches() {
		if err != nil {
			return err
		}
		for _, p := range batch.Partitions {
			for i := range p.Records {
				m, err := p.Records[i].Message()
				if err != nil {
					return err
				}
				r := &kgo.Record{Key: slices.Clone(m.Key), Value: m.Value}
				for _, h := range m.Headers {
					r.Headers = append(r.Headers, kgo.RecordHeader(h))
				}
				client.TryProduce(ctx, r, nil)
			}
		}
		if err := client.Flush(ctx); err != nil {
			return fmt.Errorf("producing to %s: %w", topic, err)
		}
	}
	return nil
}
