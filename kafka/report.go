package kafka

import (
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/batch"
)

// Report has the counts of a batch. Each record is counted once in the fields from Executed to Overruns.
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
	Unprotected      int
	Retried          int // failed and to be retried; also if a dependency is down or the claim was lost
	InFlight         int
	NotStarted       int // too little time, or after a record that is not settled
	CompletionFailed int
	StoreDown        int
	Overruns         int

	Stolen   int // claims taken from an owner whose lease was over; counted in addition to the outcome
	Fenced   int // claims lost while the handler ran; counted in addition to the outcome
	Blocked  int // records that block their partition until the operator fixes the cause; counted in addition to the outcome
	Reported int // records that are to be delivered again, as counted by the host

	RecordAge time.Duration // of the oldest record, by its Kafka timestamp
	// InProgressAge is the greatest time since a key was first claimed, of the keys that the batch could not settle or that it
	// took from an owner whose lease was over.
	InProgressAge time.Duration
	StoreLatency  []time.Duration // one for each claim, and one for each settlement
}

// Report returns the counts of a batch that began at the given time.
func (b *Batch) Report(started time.Time) Report {
	r := Report{Records: len(b.all), Partitions: len(b.Partitions), Took: time.Since(started), StoreLatency: make([]time.Duration, 0, 2*len(b.all))}
	for i := range b.all {
		r.add(&b.all[i], started)
	}
	return r
}

func (r *Report) add(m *Message, started time.Time) {
	if !m.Record.Timestamp.IsZero() {
		r.RecordAge = max(r.RecordAge, started.Sub(m.Record.Timestamp))
	}
	switch {
	case m.State == batch.Overrun:
		r.Overruns++
	case m.State == batch.BehindOverrun:
		r.NotStarted++
	case m.Duplicate:
		r.Duplicates++
	default:
		r.addOutcome(&m.Outcome)
		if first := m.Outcome.FirstClaimed; !first.IsZero() && (m.Outcome.Stolen || !m.Outcome.Kind.Settled()) {
			r.InProgressAge = max(r.InProgressAge, started.Add(r.Took).Sub(first))
		}
		if m.blocked() {
			r.Blocked++
		}
	}
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
	case idem.Unprotected:
		return &r.Unprotected
	case idem.InFlight:
		return &r.InFlight
	case idem.NotStarted, idem.KindUnknown:
		return &r.NotStarted
	case idem.CompletionFailed:
		return &r.CompletionFailed
	case idem.StoreDown:
		return &r.StoreDown
	case idem.Retry, idem.DependencyDown, idem.Fenced, idem.Mismatched, idem.InvalidKey:
	}
	return &r.Retried
}
