package msk

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/idemsk/idemsk/idem"
)

// batch is one event at work.
type batch struct {
	consumer *Consumer
	session  *idem.Session
	ctx      context.Context // of the session's handlers
	slots    *semaphore.Weighted
	jobs     []job // all records, in the event's order
	units    []unit
}

// unit is a sequence of records that are processed one after another.
type unit struct {
	jobs     []*job
	progress atomic.Int64 // the number of its jobs that have ended: their outcomes may be read
	done     bool         // the unit has ended, as run knows
}

// run processes the units and returns when all have ended, or when the time that is left must be kept for the answer
// although some have not: then it returns the records whose handlers ignore that their context has ended.
func (b *batch) run(ctx context.Context) (strays []*job) {
	ended := make(chan *unit, len(b.units))
	for i := range b.units {
		go func(u *unit) {
			defer func() { ended <- u }()
			b.runUnit(u)
		}(&b.units[i])
	}
	giveUp, stop := b.giveUp(ctx)
	defer stop()
	for range b.units {
		select {
		case u := <-ended:
			u.done = true
		case <-giveUp:
			return b.abandon()
		}
	}
	return nil
}

// giveUp fires when the session's own time, a quarter of the margin before the deadline, has been over for half of what it
// left.
func (b *batch) giveUp(ctx context.Context) (<-chan time.Time, func()) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil, func() {}
	}
	timer := time.NewTimer(time.Until(deadline) - b.consumer.engine.Config().DeadlineMargin/8)
	return timer.C, func() { timer.Stop() }
}

// abandon gives up the units that have not ended yet. They still run, so that what has not ended before now is not looked
// at from here on.
func (b *batch) abandon() (strays []*job) {
	for i := range b.units {
		u := &b.units[i]
		n := int(u.progress.Load())
		if u.done || n == len(u.jobs) || n > 0 && !u.jobs[n-1].outcome.Kind.Settled() {
			continue // there is nothing more that it would do
		}
		u.jobs[n].fate = strayed
		strays = append(strays, u.jobs[n])
		for _, j := range u.jobs[n+1:] {
			j.fate = behindStray
		}
	}
	return strays
}

// runUnit processes a unit up to the first record that is not settled: what comes behind it must not overtake it.
func (b *batch) runUnit(u *unit) {
	for _, j := range u.jobs {
		j.outcome.Kind, j.outcome.Err = idem.Retry, errExited // if the handler never comes back here
		j.outcome = b.runJob(j)
		u.progress.Add(1)
		if !j.outcome.Kind.Settled() {
			return
		}
	}
}

// runJob processes a record, or takes the outcome of another one of the batch that makes the same request.
func (b *batch) runJob(j *job) idem.Outcome {
	if j.group == nil {
		return b.process(j)
	}
	r := request{fingerprint: j.task.Fingerprint, redrive: j.task.Redrive} // before the job may be rejected
	out, ok, err := j.group.enter(b.ctx, r)
	switch {
	case err != nil:
		return notStarted(err)
	case ok:
		j.coalesced = true
		return out
	}
	out.Kind, out.Err = idem.Retry, errExited
	// What a record is rejected for is its own. Deferred for handlers that end their goroutine.
	defer func() { j.group.leave(r, out, j.rejected == nil) }()
	out = b.process(j)
	return out
}

func notStarted(err error) idem.Outcome {
	return idem.Outcome{Kind: idem.NotStarted, Err: fmt.Errorf("%w: %w", idem.ErrDeadlineNear, err)}
}

var errExited = errors.New("the handler ended its goroutine (runtime.Goexit): the key stays taken until its lease is over")

func (b *batch) process(j *job) idem.Outcome {
	if j.unprotected {
		return b.withSlots(1, func() idem.Outcome { return b.session.RunUnprotected(&j.task) })
	}
	out := b.claimAndRun(j)
	if out.Kind == idem.Mismatched || out.Kind == idem.InvalidKey {
		j.reject(out.Err)
		out = b.claimAndRun(j)
	}
	return b.explain(out)
}

// claimAndRun claims a record's key, waiting while it is in flight elsewhere, and runs it. A key whose owner's lease is
// over is claimed again, and run, with nothing else in flight: if the record kills the process, no other is charged for it.
func (b *batch) claimAndRun(j *job) idem.Outcome {
	tickets := [1]idem.Ticket{{Task: j.task}}
	t := &tickets[0]
	alone := false
	for {
		n := int64(1)
		if alone {
			n = int64(b.consumer.cfg.Concurrency)
		}
		t.TakeOver = alone
		out := b.withSlots(n, func() idem.Outcome {
			b.session.Claim(tickets[:])
			if s := t.State(); s == idem.ClaimInFlight || (s == idem.ClaimLeaseOver && !alone) {
				return idem.Outcome{}
			}
			return b.session.Run(t)
		})
		switch {
		case out.Kind == idem.NotStarted && t.State() == idem.ClaimInFlight: // its time ran out while it waited for the key
			return b.session.Run(t)
		case out.Kind != idem.KindUnknown:
			return out
		}
		alone = t.State() == idem.ClaimLeaseOver
		if !alone && !b.session.Wait(t) { // without a slot: others get on meanwhile
			return b.session.Run(t)
		}
	}
}

// withSlots calls f while holding n of the slots.
func (b *batch) withSlots(n int64, f func() idem.Outcome) idem.Outcome {
	if err := b.slots.Acquire(b.ctx, n); err != nil {
		return notStarted(err)
	}
	defer b.slots.Release(n)
	return f()
}

// explain adds to an outcome what somebody has to know who reads of it: that a record which would have been given up by now
// is not, and that the result of a completed one is not kept.
func (b *batch) explain(out idem.Outcome) idem.Outcome {
	cfg := b.consumer.engine.Config()
	if out.Kind == idem.Executed && cfg.MaxResult >= 0 && len(out.Result) > cfg.MaxResult {
		out.Err = fmt.Errorf("%w: it has %d bytes, the limit is %d; duplicates get none", idem.ErrResultNotStored, len(out.Result), cfg.MaxResult)
	}
	exhausted := out.Kind == idem.Retry && cfg.MaxAttempts > 0 && out.Attempt >= cfg.MaxAttempts
	if exhausted && b.consumer.cfg.DeadLetters == nil && !errors.Is(out.Err, idem.ErrNoDeadLetters) {
		out.Err = fmt.Errorf("%w: attempt %d, where %d would have been the last: %w", idem.ErrNoDeadLetters, out.Attempt, cfg.MaxAttempts, out.Err)
	}
	return out
}

// answer collects what is to be delivered again: in every partition, the first record that is not settled and all behind
// it.
func (b *batch) answer(event *Event) (Response, *BatchError) {
	resp := Response{BatchItemFailures: []BatchItemFailure{}}
	batchErr := &BatchError{Records: len(b.jobs)}
	next := 0
	for p := range event.Partitions {
		part := &event.Partitions[p]
		blocked := false
		for range part.Records {
			j := &b.jobs[next]
			next++
			if !blocked && !j.settled() {
				blocked = true
				batchErr.Causes = append(batchErr.Causes, &RecordError{Source: j.source, Err: j.why()})
			}
			if j.reported = blocked; blocked {
				resp.BatchItemFailures = append(resp.BatchItemFailures, BatchItemFailure{ItemIdentifier{Partition: part.ID, Offset: j.record.Offset}})
			}
		}
	}
	batchErr.Reported = len(resp.BatchItemFailures)
	if batchErr.Reported == 0 {
		return resp, nil
	}
	return resp, batchErr
}

// errBehind is why a record was not tried that is not at fault.
var errBehind = errors.New("not tried: an earlier record of its unit is not settled")
