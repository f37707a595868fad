package sqs

import (
	"fmt"
	"strings"

	"github.com/idemsk/idemsk/idem/schedule"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

// Response is the partial batch response for a queue.
// https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
type Response struct {
	BatchItemFailures []BatchItemFailure `json:"batchItemFailures"`
}

// BatchItemFailure identifies a message to be delivered again by its ID.
type BatchItemFailure struct {
	ItemIdentifier string `json:"itemIdentifier"`
}

// answer returns the messages to be delivered again: in every lane, the first message that is not settled and
// all after it. A standard queue may deliver a message twice in a batch: it is named once.
func answer(b *kafka.Batch) (Response, *msk.BatchError) {
	resp := Response{BatchItemFailures: []BatchItemFailure{}}
	batchErr := &msk.BatchError{}
	named := make(map[string]bool)
	for _, lane := range b.Partitions {
		batchErr.Records += len(lane)
		blocked := false
		for i := range lane {
			m := &lane[i]
			if !blocked && !m.Settled() {
				blocked = true
				batchErr.Causes = append(batchErr.Causes, &msk.RecordError{Source: name(m), Err: m.Err()})
			}
			if id := MessageID(m.Record); blocked && !named[id] {
				named[id] = true
				resp.BatchItemFailures = append(resp.BatchItemFailures, BatchItemFailure{id})
			}
		}
	}
	if batchErr.Reported = len(resp.BatchItemFailures); batchErr.Reported == 0 {
		return resp, nil
	}
	return resp, batchErr
}

// name returns the queue and the ID of a message, for errors.
func name(m *kafka.Message) string { return m.Record.Topic + "/" + MessageID(m.Record) }

// overrunError returns an error that names the messages whose handlers have not returned: see package msk.
func overrunError(overruns []*kafka.Message) error {
	names := make([]string, len(overruns))
	for i, m := range overruns {
		names[i] = name(m)
	}
	return fmt.Errorf("sqs: %w: %s; its key stays claimed until the lease ends, and the process must end",
		schedule.ErrOverrun, strings.Join(names, ", "))
}
