package msk

import (
	"fmt"
	"strings"

	"github.com/idemsk/idemsk/idem/batch"
	"github.com/idemsk/idemsk/kafka"
)

// Response is the partial batch response of a Kafka event source mapping. Its identifiers are objects, unlike those of
// SQS and the streams.
// https://docs.aws.amazon.com/lambda/latest/dg/services-msk-configure.html
type Response struct {
	BatchItemFailures []BatchItemFailure `json:"batchItemFailures"`
}

// BatchItemFailure names a record to be delivered again.
type BatchItemFailure struct {
	ItemIdentifier ItemIdentifier `json:"itemIdentifier"`
}

// ItemIdentifier is a record's place; Partition is the event's map key, "<topic>-<number>".
type ItemIdentifier struct {
	Partition string `json:"partition"`
	Offset    int64  `json:"offset"`
}

// answer collects what is to be delivered again: in every partition, the first record that is not settled and all behind it.
func answer(event *Event, b *kafka.Batch) (Response, *BatchError) {
	resp := Response{BatchItemFailures: []BatchItemFailure{}}
	batchErr := &BatchError{}
	for p, messages := range b.Partitions {
		batchErr.Records += len(messages)
		blocked := false
		for i := range messages {
			m := &messages[i]
			if !blocked && !m.Settled() {
				blocked = true
				batchErr.Causes = append(batchErr.Causes, &RecordError{Source: m.Record.Source(), Err: m.Err()})
			}
			if blocked {
				resp.BatchItemFailures = append(resp.BatchItemFailures, BatchItemFailure{ItemIdentifier{Partition: event.Partitions[p].ID, Offset: m.Record.Offset}})
			}
		}
	}
	batchErr.Reported = len(resp.BatchItemFailures)
	if batchErr.Reported == 0 {
		return resp, nil
	}
	return resp, batchErr
}

// BatchError says that records of a batch are not settled, and makes the invocation fail.
type BatchError struct {
	Records  int // of the batch
	Reported int // not settled, or behind one that is not
	// Causes are why, one for each partition that has such records: the first one's.
	Causes []error
}

// maxCauses bounds the causes in the message of a BatchError.
const maxCauses = 5

// Error tells how many records are to be delivered again, and the first causes.
func (e *BatchError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "msk: %d of %d records are to be delivered again", e.Reported, e.Records)
	for i, cause := range e.Causes {
		if i == maxCauses {
			fmt.Fprintf(&b, "; and %d more partitions", len(e.Causes)-maxCauses)
			break
		}
		fmt.Fprintf(&b, "; %v", cause)
	}
	return b.String()
}

// Unwrap returns the causes.
func (e *BatchError) Unwrap() []error { return e.Causes }

// overrunError names the records whose handlers have not returned. Their keys stay taken until the lease ends. The process must
// not take another invocation: a sandbox that is frozen and thawed would go on with them. Package app ends it.
func overrunError(overruns []*kafka.Message) error {
	var sources []string
	for _, m := range overruns[:min(len(overruns), maxCauses)] {
		sources = append(sources, m.Record.Source())
	}
	if more := len(overruns) - len(sources); more > 0 {
		sources = append(sources, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("msk: %w: %s; its key stays taken until the lease ends, and this process has to end", batch.ErrOverrun, strings.Join(sources, ", "))
}

// RecordError names the record that an error is about.
type RecordError struct {
	Source string // topic-partition@offset
	Err    error
}

// Error names the record first.
func (e *RecordError) Error() string { return e.Source + ": " + e.Err.Error() }

// Unwrap returns the error.
func (e *RecordError) Unwrap() error { return e.Err }
