package esm

import "time"

// Kind is the kind of an event.
type Kind int

// The kinds of events.
const (
	Invoked Kind = iota + 1 // an invocation ended; Err is its failure
	Named                   // the function named records as failed
	// the function named records as failed, without ReportBatchItemFailures; each is counted once.
	Ignored
	Misanswered // an answer could not be parsed; Err is an *AnswerError
	Bisected    // a batch was split in two
	GivenUp     // records were given up under Condition; each is counted once
	Filtered    // records were dropped by FilterCriteria
	Redelivered // a finished batch is delivered again by a fault
	Unavailable // the function could not be invoked; this is retried
	// offsets were committed; Records excludes records that were given up or ignored.
	Committed
	Enabled  // the mapping was enabled
	Disabled // the mapping was disabled
)

// Event is something that happened in a mapping.
type Event struct {
	Kind      Kind
	Poller    int           // its number, or NoPoller
	Batch     string        // for messages
	Records   int           // number of records
	Bytes     int           // of the payload, of Invoked
	Duration  time.Duration // of Invoked
	Condition string        // of GivenUp
	Sent      bool          // of GivenUp: the destination has the records
	Injected  bool          // of Invoked: an injected fault failed it
	Answer    []byte        // of Invoked: the payload of a successful answer
	Err       error
}

// PartitionState is the progress of a partition.
type PartitionState struct {
	Partition int32
	Poller    int
	Begin     int64 // the first offset of the run
	Committed int64 // the next offset of the group
	End       int64 // the offset after the newest record, when it was last looked up
	InFlight  int   // records in an invocation, or waiting for a retry
}

// NoPoller is the Poller of a partition that no event source reads.
const NoPoller = -1

// Lag returns the number of offsets that are not committed.
func (s *PartitionState) Lag() int64 { return max(0, s.End-s.Committed) }
