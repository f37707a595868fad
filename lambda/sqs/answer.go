package sqs

import (
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

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

// answer returns the messages to be delivered again. A standard queue may deliver a message twice in a batch: it
// is named once. With outcomes, the response also has the outcome of each message.
func answer(b *kafka.Batch, outcomes bool) (Response, *msk.BatchError) {
	resp := Response{BatchItemFailures: []BatchItemFailure{}}
	if outcomes {
		for m := range b.Messages() {
			resp.Outcomes = append(resp.Outcomes, MessageOutcome{MessageID(m.Record), m.Outcome.Kind.String()})
		}
	}
	named := make(map[string]bool)
	batchErr := msk.Unsettled(b, name, func(m *kafka.Message) {
		if id := MessageID(m.Record); !named[id] {
			named[id] = true
			resp.BatchItemFailures = append(resp.BatchItemFailures, BatchItemFailure{id})
		}
	})
	return resp, batchErr
}

// name returns the queue and the ID of a message, for errors.
func name(m *kafka.Message) string { return m.Record.Topic + "/" + MessageID(m.Record) }
