package msk

import (
	"fmt"
	"strings"

	"github.com/idemsk/idemsk/idem/schedule"
	"github.com/idemsk/idemsk/kafka"
)

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

// answer returns the records to be delivered again: in every partition, the first record that is not settled
// and all after it.
//
// With outcomes, the response also has the outcome of each record.
func answer(b *kafka.Batch, outcomes bool) (Response, *BatchError) {
	resp := Response{BatchItemFailures: []BatchItemFailure{}}
	batchErr := &BatchError{}
	for _, messages := range b.Partitions {
		batchErr.Records += len(messages)
		blocked := false
		for i := range messages {
			m := &messages[i]
			place := ItemIdentifier{Partition: m.Record.PartitionID(), Offset: m.Record.Offset}
			if outcomes {
				resp.Outcomes = append(resp.Outcomes, RecordOutcome{place, m.Outcome.Kind.String()})
			}
			if !blocked && !m.Settled() {
				blocked = true
				batchErr.Causes = append(batchErr.Causes,
					&RecordError{Source: m.Record.Source(), Err: m.Err()})
			}
			if blocked {
				resp.BatchItemFailures = append(resp.BatchItemFailures, BatchItemFailure{place})
			}
		}
	}
	batchErr.Reported = len(resp.BatchItemFailures)
	if batchErr.Reported == 0 {
		return resp, nil
	}
	return resp, batchErr
}

// BatchError means that records of a batch are not settled. It makes the invocation fail.
type BatchError struct {
	Records  int // of the batch
	Reported int // the records that are not settled, and those after them
	// Causes has the error of the first unsettled record of each partition.
	Causes []error
}

// maxCauses is the maximum number of causes in the message of a BatchError.
const maxCauses = 5

// Error returns the number of records to be delivered again, and the first causes.
func (e *BatchError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d records are to be delivered again", e.Reported, e.Records)
	for i, cause := range e.Causes {
		if i == maxCauses {
			fmt.Fprintf(&b, "; and %d more", len(e.Causes)-maxCauses)
			break
		}
		fmt.Fprintf(&b, "; %v", cause)
	}
	return b.String()
}

// Unwrap returns the causes.
func (e *BatchError) Unwrap() []error { return e.Causes }

// overrunError returns an error that names the records whose handlers have not returned. Their keys stay
// claimed until the lease ends. The process must not handle another invocation, because these handlers would
// continue when a frozen sandbox is thawed. Package app ends it.
func overrunError(overruns []*kafka.Message) error {
	var sources []string
	for _, m := range overruns[:min(len(overruns), maxCauses)] {
		sources = append(sources, m.Record.Source())
	}
	if more := len(overruns) - len(sources); more > 0 {
		sources = append(sources, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("msk: %w: %s; its key stays claimed until the lease ends, and the process must end",
		schedule.ErrOverrun, strings.Join(sources, ", "))
}

// RecordError is an error of one record.
type RecordError struct {
	Source string // topic-partition@offset
	Err    error
}

// Error returns the record's place and the error.
func (e *RecordError) Error() string { return e.Source + ": " + e.Err.Error() }

// Unwrap returns the error.
func (e *RecordError) Unwrap() error { return e.Err }
