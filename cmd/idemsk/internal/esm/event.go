package esm

import "time"

// Kind is what an event tells.
type Kind int

// What an observer is told.
const (
	Invoked     Kind = iota + 1 // an invocation ended; Err says how it failed, if it did
	Named                       // the function named records as failed
	Ignored                     // the function named records as failed, and the mapping ignores that: each is counted once
	Misanswered                 // an answer could not be read: Err is an *AnswerError
	Bisected                    // a batch was split in two
	GivenUp                     // records were given up; Condition says why, and each is counted once
	Filtered                    // records were dropped by FilterCriteria
	Redelivered                 // a batch that was done with is delivered again, as a fault
	Unavailable                 // the function could not be invoked, and will be tried again
	Committed                   // offsets were committed; Records are those of the batch that were neither given up nor ignored
	Enabled                     // the mapping reads again
	Disabled                    // the mapping reads no more
)

// Event is something that happened in a mapping.
type Event struct {
	Kind      Kind
	Poller    int           // its number, or NoPoller
	Batch     string        // names the batch, for people
	Records   int           // that it is about
	Bytes     int           // of the payload, of Invoked
	Duration  time.Duration // of Invoked
	Condition string        // of GivenUp
	Sent      bool          // of GivenUp: the destination has it
	Injected  bool          // of Invoked: it failed by one of the Faults
	Answer    []byte        // of Invoked: what the function answered, if it did not fail
	Err       error
}

// Observer is told what happens, by several goroutines at once. It must not block.
type Observer interface{ Observe(e Event) }

// PartitionState is how far a partition has come.
type PartitionState struct {
	Partition int32
	Poller    int
	Begin     int64 // the offset at which the run began
	Committed int64 // the next offset, as the group has it
	End       int64 // the offset behind the newest record, as it was looked up last
	InFlight  int   // records with the function, or waiting for a retry
}

// NoPoller is the Poller of a partition that no event source reads.
const NoPoller = -1

// Lag is the number of offsets that are not committed yet.
func (s *PartitionState) Lag() int64 { return max(0, s.End-s.Committed) }
