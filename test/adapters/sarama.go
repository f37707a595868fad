package adapters

import (
	"github.com/IBM/sarama"

	"github.com/idemsk/idemsk/kafka"
)

// Sarama is a handler for a ConsumerGroup of IBM/sarama. It marks the messages that are settled; sarama commits
// what is marked. Those of a partition that arrive together are handled together.
type Sarama struct{ Processor *kafka.Processor }

// Setup implements sarama.ConsumerGroupHandler.
func (Sarama) Setup(sarama.ConsumerGroupSession) error { return nil }

// Cleanup implements sarama.ConsumerGroupHandler.
func (Sarama) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim implements sarama.ConsumerGroupHandler.
func (s Sarama) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for m := range claim.Messages() {
		records := []kafka.Record{saramaRecord(m)}
		for range min(len(claim.Messages()), 99) {
			m = <-claim.Messages()
			records = append(records, saramaRecord(m))
		}
		if err := SettleAll(session.Context(), s.Processor, [][]kafka.Record{records}); err != nil {
			return err // the session has ended: what is not marked is delivered again
		}
		session.MarkMessage(m, "")
	}
	return nil
}

func saramaRecord(m *sarama.ConsumerMessage) kafka.Record {
	r := kafka.Record{Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp.UTC(),
		Key: m.Key, Value: m.Value}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kafka.Header{Key: string(h.Key), Value: h.Value})
	}
	return r
}
