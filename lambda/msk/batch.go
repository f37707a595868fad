package msk

import (
	"context"
	"errors"
	"fmt"
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
	ahead    int // the number of claims that a unit gathers at a time
	heads    heads
}

// run processes the units and returns when all have ended, or when the time that is left must be kept for the answer
// although some have not: then it returns the records whose handlers ignore that their context has ended.
func (b *batch) run(ctx context.Context) (strays []*job) {
	ended := make(chan *unit, len(b.units))
	started := b.start(ended)
	giveUp, stop := b.giveUp(ctx)
	defer stop()
	for range started {
		select {
		case u := <-ended:
			u.done = true
		case <-giveUp:
			return b.abandon()
		}
	}
	return nil
}

// start starts the units, each when there is a slot for it, so that a batch of many units does not have as many goroutines.
// It returns how many it has started.
//
// A goroutine whose unit has ended takes another one: its stack has grown by then to what a handler and a store's client need.
func (b *batch) start(ended chan<- *unit) (started int) {
	next := make(chan *unit)
	defer close(next)
	for i := range b.units {
		u := &b.units[i]
		if err := b.slots.Acquire(b.ctx, 1); err != nil {
			u.jobs[0].outcome, u.done = notStarted(err), true
			continue
		}
		started++
		u.holds = true
		b.gatherHeads(i)
		select {
		case next <- u:
		default:
			go work(u, next, ended)
		}
	}
	b.heads.wait()
	if started < len(b.units) {
		b.giveBack(func(u *unit) bool { return u.done })
	}
	return started
}

// work runs a unit, and then those that come.
func work(u *unit, next <-chan *unit, ended chan<- *unit) {
	for more := true; more; u, more = <-next {
		u.runToEnd(ended)
	}
}

// runToEnd runs the unit, and tells its end: also of one whose handler ends its goroutine.
func (u *unit) runToEnd(ended chan<- *unit) {
	defer func() { ended <- u }()
	u.run()
}

// giveUp fires an eighth of the margin before the deadline. The session's last context has ended by then, an eighth earlier,
// so that whatever heeds its context has returned.
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
		if u := &b.units[i]; !u.done {
			strays = append(strays, u.abandon()...)
		}
	}
	return strays
}

// abandon gives up the unit: its first record that has not ended, and all behind it, unless it has stopped before that one.
func (u *unit) abandon() (strays []*job) {
	for i, j := range u.jobs {
		if j.ended.Load() {
			continue
		}
		if u.stopped.Load() && u.close(j) {
			return nil
		}
		j.fate = strayed
		for _, behind := range u.jobs[i+1:] {
			behind.fate = behindStray
		}
		return []*job{j}
	}
	return nil
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
