package kafka

import (
	"errors"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/observe"
)

// Report has the counts of a batch, or those that Add has counted. Each try of a record is counted once in
// the fields from Executed to Overruns.
type Report struct {
	Records    int
	Partitions int
	Took       time.Duration

	Executed         int
	Replayed         int
	ReplayedFailed   int
	Duplicates       int // shared the outcome of another record of the batch
	DeadLettered     int
	FailedOpen       int
	Retried          int // failed and to be retried; also if a dependency is down or the claim was lost
	InFlight         int
	NotStarted       int // too little time, or after a record that is not settled
	CompletionFailed int
	StoreDown        int
	Overruns         int

	Stolen int // claims taken from an owner whose lease was over; counted in addition to the outcome
	Fenced int // claims lost while the handler ran; counted in addition to the outcome
	// records that block their partition until the operator fixes the cause; counted in addition to the
	// outcome
	Blocked  int
	Reported int // records that are to be delivered again, as counted by the host
	// records that failed or were not tried during an outage of what the handler needs; counted in addition
	// to the outcome
	HandlerDown int
	// FailedCalls counts calls of several records that failed as a whole, and FailedCallRecords their records. What
	// the handler did for these may have taken place twice.
	FailedCalls       int
	FailedCallRecords int

	RecordAge time.Duration // of the oldest record, by its Kafka timestamp
	// InProgressAge is the greatest time since a key was first claimed, of the keys that the batch could not
	// settle or that it took from an owner whose lease was over.
	InProgressAge time.Duration
	StoreLatency  []time.Duration // one for each claim, and one for each settlement
}

// Report returns the counts of the batch.
func (b *Batch) Report() Report {
	r := Report{Partitions: len(b.Partitions), Took: time.Since(b.began),
		FailedCalls: int(b.calls.failed.Load()), FailedCallRecords: int(b.calls.records.Load())}
	for m := range b.Messages() {
		e := m.end(b.began)
		r.Add(&e)
	}
	return r
}

// Add counts the event of a record whose try has ended, or of a call that failed as a whole. It ignores all other
// steps. The store's latencies are appended to StoreLatency.
func (r *Report) Add(e *idem.Event) {
	if e.Step == observe.FailedCall {
		r.FailedCalls++
		r.FailedCallRecords += e.Tasks
		return
	}
	if e.Step != observe.End && e.Step != observe.Overrun {
		return
	}
	r.Records++
	r.RecordAge = max(r.RecordAge, e.Age)
	if e.Step == observe.Overrun {
		r.Overruns++
		return
	}
	r.addEnd(e)
}

func (r *Report) addEnd(e *idem.Event) {
	out := e.Outcome
	if e.Duplicate {
		r.Duplicates++
		return
	}
	r.addOutcome(out)
	if !out.FirstClaimed.IsZero() && (out.Stolen || !out.Kind.Settled()) {
		r.InProgressAge = max(r.InProgressAge, time.Since(out.FirstClaimed))
	}
	if isBlocked(out) {
		r.Blocked++
	}
	if errors.Is(out.Err, idem.ErrHandlerDown) {
		r.HandlerDown++
	}
}

// end returns the event that the try of a message has ended. began is the time at which its age counts.
func (m *Message) end(began time.Time) (e idem.Event) {
	switch m.State {
	case idem.ItemOverrun:
		e = idem.Event{Step: observe.Overrun, Task: &m.Task,
			Attempt: idem.Attempt{Key: m.Task.Key, Source: m.Task.Source}, Err: idem.ErrOverrun}
	case idem.ItemBehindOverrun:
		e = (&idem.Outcome{Kind: idem.NotStarted, Err: idem.ErrBehind}).End(&m.Task)
	case idem.ItemEnded:
		e = m.Outcome.End(&m.Task)
		e.Duplicate = m.Duplicate
	}
	if !m.Record.Timestamp.IsZero() {
		e.Age = began.Sub(m.Record.Timestamp)
	}
	return e
}

func (r *Report) addOutcome(out *idem.Outcome) {
	*r.counter(out.Kind)++
	if out.Stolen {
		r.Stolen++
	}
	if out.Fenced {
		r.Fenced++
	}
	if out.ClaimTook > 0 {
		r.StoreLatency = append(r.StoreLatency, out.ClaimTook)
	}
	if out.SettleTook > 0 {
		r.StoreLatency = append(r.StoreLatency, out.SettleTook)
	}
}

// counter returns the counter of an outcome.
func (r *Report) counter(k idem.Kind) *int {
	switch k {
	case idem.Executed:
		return &r.Executed
	case idem.Replayed:
		return &r.Replayed
	case idem.ReplayedFailed:
		return &r.ReplayedFailed
	case idem.DeadLettered:
		return &r.DeadLettered
	case idem.FailedOpen:
		return &r.FailedOpen
	case idem.InFlight:
		return &r.InFlight
	case idem.NotStarted, idem.Behind:
		return &r.NotStarted
	case idem.CompletionFailed:
		return &r.CompletionFailed
	case idem.StoreDown:
		return &r.StoreDown
	case idem.Retry, idem.DependencyDown, idem.Fenced, idem.Mismatched, idem.InvalidKey, idem.KindUnknown:
	}
	return &r.Retried
}
