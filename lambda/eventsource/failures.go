package eventsource

import (
	"fmt"
	"strings"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// unsettled calls again for the records to be delivered again: in every lane, the first record that is
// not settled and all after it. It returns nil if there are none. name returns the name of a record in errors.
func unsettled(b *kafka.Batch, name func(*kafka.Message) string, again func(*kafka.Message)) *BatchError {
	batchErr := &BatchError{}
	for _, messages := range b.Partitions {
		batchErr.Records += len(messages)
		blocked := false
		for i := range messages {
			m := &messages[i]
			settled := m.Settled()
			if !settled {
				batchErr.unsettled++
			}
			if !blocked && !settled {
				blocked = true
				batchErr.Causes = append(batchErr.Causes, &RecordError{Source: name(m), Err: m.Err()})
			}
			if blocked {
				again(m)
				batchErr.Reported++
			}
		}
	}
	if batchErr.Reported == 0 {
		return nil
	}
	return batchErr
}

// BatchError means that records of a batch are not settled. It makes the invocation fail.
type BatchError struct {
	Records  int // of the batch
	Reported int // the records that are not settled, and those after them
	// Causes has the error of the first unsettled record of each partition.
	Causes []error

	unsettled int // of the reported
}

// maxCauses is the maximum number of causes in the message of a BatchError.
const maxCauses = 5

// Error returns the number of records to be delivered again, and the first causes.
func (e *BatchError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d records are to be delivered again", e.Reported, e.Records)
	if behind := e.Reported - e.unsettled; behind > 0 {
		fmt.Fprintf(&b, " (%d because they come after one that is not settled)", behind)
	}
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
func overrunError(overruns []*kafka.Message, name func(*kafka.Message) string) error {
	var names []string
	for _, m := range overruns[:min(len(overruns), maxCauses)] {
		names = append(names, name(m))
	}
	if more := len(overruns) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%w: %s; its key stays claimed until the lease ends, and the process must end",
		idem.ErrOverrun, strings.Join(names, ", "))
}

// RecordError is an error of one record.
type RecordError struct {
	Source string // topic-partition@offset, or the queue and the message
	Err    error
}

// Error returns the record's place and the error.
func (e *RecordError) Error() string { return e.Source + ": " + e.Err.Error() }

// Unwrap returns the error.
func (e *RecordError) Unwrap() error { return e.Err }
