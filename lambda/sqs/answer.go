package sqs

import "github.com/idemsk/idemsk/kafka"

// Response is the partial batch response for a queue.
// https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
type Response struct {
	BatchItemFailures []BatchItemFailure `json:"batchItemFailures"`
	// Outcomes has the outcome of each message, if the event asks for it (Event.Outcomes).
	Outcomes []MessageOutcome `json:"idemskOutcomes,omitempty"`
}

// MessageOutcome is the outcome of a message: the name of an idem.Kind.
type MessageOutcome struct {
	MessageID string `json:"messageId"`
	Outcome   string `json:"outcome"`
}

// BatchItemFailure identifies a message to be delivered again by its ID.
type BatchItemFailure struct {
	ItemIdentifier string `json:"itemIdentifier"`
}

// name returns the queue and the ID of a message, for errors.
func name(m *kafka.Message) string { return m.Record.Topic + "/" + MessageID(m.Record) }
