package telemetry

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/sqs"
)

// placeOf returns the messaging system of a record, Kafka or SQS, and where in it the record is.
func placeOf(r *kafka.Record) []attribute.KeyValue {
	if id := sqs.MessageID(r); id != "" {
		return []attribute.KeyValue{semconv.MessagingSystemAWSSQS, semconv.MessagingDestinationName(r.Topic),
			semconv.MessagingMessageID(id)}
	}
	return []attribute.KeyValue{semconv.MessagingSystemKafka, semconv.MessagingDestinationName(r.Topic),
		semconv.MessagingDestinationPartitionID(strconv.Itoa(int(r.Partition))),
		semconv.MessagingKafkaOffset(int(r.Offset))}
}

// systemOf returns the messaging system of a batch, which is that of its first record.
func systemOf(partitions [][]kafka.Record) attribute.KeyValue {
	if len(partitions) > 0 && len(partitions[0]) > 0 && sqs.MessageID(&partitions[0][0]) != "" {
		return semconv.MessagingSystemAWSSQS
	}
	return semconv.MessagingSystemKafka
}

// systemKey is the key of the messaging system in the context of a batch.
type systemKey struct{}

// systemIn returns the messaging system of the batch of a context. A consumer process has no batches, and
// reads Kafka.
func systemIn(ctx context.Context) attribute.KeyValue {
	if system, ok := ctx.Value(systemKey{}).(attribute.KeyValue); ok {
		return system
	}
	return semconv.MessagingSystemKafka
}
