package adapters

import (
	"context"
	"maps"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/idemsk/idemsk/kafka"
)

// KafkaGo handles the messages that a Reader of segmentio/kafka-go gets for its group, until ctx ends. Messages
// that arrive together are handled together. The Reader needs a GroupID, and a CommitInterval of 0.
func KafkaGo(ctx context.Context, reader *kafkago.Reader, processor *kafka.Processor) error {
	for {
		messages, err := fetch(ctx, reader)
		if err != nil {
			return err
		}
		partitions := make(map[string][]kafka.Record)
		for i := range messages {
			r := kafkaGoRecord(&messages[i])
			partitions[r.PartitionID()] = append(partitions[r.PartitionID()], r)
		}
		if err := SettleAll(ctx, processor, slices.Collect(maps.Values(partitions))); err != nil {
			return err
		}
		if err := reader.CommitMessages(ctx, messages...); err != nil {
			return err
		}
	}
}

// fetch waits for a message, and returns it with those that follow within 5 ms, at most 100.
func fetch(ctx context.Context, reader *kafkago.Reader) ([]kafkago.Message, error) {
	first, err := reader.FetchMessage(ctx)
	if err != nil {
		return nil, err
	}
	messages := []kafkago.Message{first}
	soon, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	for len(messages) < 100 {
		m, err := reader.FetchMessage(soon)
		if err != nil {
			break // the next call returns it, unless the time is over
		}
		messages = append(messages, m)
	}
	return messages, nil
}

func kafkaGoRecord(m *kafkago.Message) kafka.Record {
	r := kafka.Record{Topic: m.Topic, Partition: int32(m.Partition), Offset: m.Offset, Timestamp: m.Time.UTC(),
		Key: m.Key, Value: m.Value}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kafka.Header{Key: h.Key, Value: h.Value})
	}
	return r
}
