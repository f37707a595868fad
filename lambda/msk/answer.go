package msk

import "github.com/idemsk/idemsk/kafka"

// Response is the partial batch response of a Kafka event source mapping. Its identifiers are objects, unlike
// those of SQS, Kinesis and DynamoDB Streams.
// https://docs.aws.amazon.com/lambda/latest/dg/services-msk-configure.html
type Response struct {
	BatchItemFailures []BatchItemFailure `json:"batchItemFailures"`
	// Outcomes has the outcome of each record, if the event asks for it (Event.Outcomes).
	Outcomes []RecordOutcome `json:"idemskOutcomes,omitempty"`
}

// RecordOutcome is the outcome of a record: the name of an idem.Kind.
type RecordOutcome struct {
	ItemIdentifier

	Outcome string `json:"outcome"`
}

// BatchItemFailure identifies a record to be delivered again.
type BatchItemFailure struct {
	ItemIdentifier ItemIdentifier `json:"itemIdentifier"`
}

// ItemIdentifier is a record's place; Partition is the event's map key, "<topic>-<number>".
type ItemIdentifier struct {
	Partition string `json:"partition"`
	Offset    int64  `json:"offset"`
}

// place returns the identifier of a record.
func place(m *kafka.Message) ItemIdentifier {
	return ItemIdentifier{Partition: m.Record.PartitionID(), Offset: m.Record.Offset}
}

func source(m *kafka.Message) string { return m.Record.Source() }
