package msk

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/idemsk/idemsk/idem"
)

// unit is a sequence of records that are processed one after another.
type unit struct {
	batch    *batch
	jobs     []*job
	holds    bool         // a slot, for its first record
	progress atomic.Int64 // the number of its jobs that have ended: their outcomes may be read
	done     bool         // the unit has ended, as the batch knows
}

// run processes the unit up to the first record that is not settled: what comes behind it must not overtake it.
func (u *unit) run() {
	for _, j := range u.jobs {
		j.outcome.Kind, j.outcome.Err = idem.Retry, errExited // if the handler never comes back here
		j.outcome = u.runJob(j)
		u.progress.Add(1)
		if !j.outcome.Kind.Settled() {
			return
		}
	}
}

var errExited = errors.New("the handler ended its goroutine (runtime.Goexit): the key stays taken until its lease is over")

// runJob processes a record, or takes the outcome of another one of the batch that makes the same request.
func (u *unit) runJob(j *job) idem.Outcome {
	if j.group == nil {
		return u.process(j)
	}
	u.letGo() // others get on while it waits for its turn

	r := request{fingerprint: j.task.Fingerprint, redrive: j.task.Redrive} // before the job may be rejected
	out, ok, err := j.group.enter(u.batch.ctx, r)
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
	out = u.process(j)
	return out
}

func notStarted(err error) idem.Outcome {
	return idem.Outcome{Kind: idem.NotStarted, Err: fmt.Errorf("%w: %w", idem.ErrDeadlineNear, err)}
}

func (u *unit) process(j *job) idem.Outcome {
	if j.unprotected {
		return u.withSlots(1, func() idem.Outcome { return u.batch.session.RunUnprotected(&j.task) })
	}
	out := u.claimAndRun(j)
	if out.Kind == idem.Mismatched || out.Kind == idem.InvalidKey {
		j.reject(out.Err)
		out = u.claimAndRun(j)
	}
	return u.batch.explain(out)
}

// claimAndRun claims a record's key, waiting while it is in flight elsewhere, and runs it. A key whose owner's lease is
// over is claimed again, and run, with nothing else in flight: if the record kills the process, no other is charged for it.
func (u *unit) claimAndRun(j *job) idem.Outcome {
	session := u.batch.session
	tickets := [1]idem.Ticket{{Task: j.task}}
	t := &tickets[0]
	alone := false
	for {
		n := int64(1)
		if alone {
			n = int64(u.batch.consumer.cfg.Concurrency)
		}
		t.TakeOver = alone
		out := u.withSlots(n, func() idem.Outcome {
			session.Claim(tickets[:])
			if s := t.State(); s == idem.ClaimInFlight || (s == idem.ClaimLeaseOver && !alone) {
				return idem.Outcome{}
			}
			return session.Run(t)
		})
		switch {
		case out.Kind == idem.NotStarted && t.State() == idem.ClaimInFlight: // its time ran out while it waited for the key
			return session.Run(t)
		case out.Kind != idem.KindUnknown:
			return out
		}
		alone = t.State() == idem.ClaimLeaseOver
		if !alone && !session.Wait(t) { // without a slot: others get on meanwhile
			return session.Run(t)
		}
	}
}

// withSlots calls f while the unit holds n of the slots.
func (u *unit) withSlots(n int64, f func() idem.Outcome) idem.Outcome {
	if u.holds { // the first record is always begun with one
		u.holds = false
	} else if err := u.batch.slots.Acquire(u.batch.ctx, n); err != nil {
		return notStarted(err)
	}
	defer u.batch.slots.Release(n)
	return f()
}

// letGo gives the unit's slot back.
func (u *unit) letGo() {
	if u.holds {
		u.holds = false
		u.batch.slots.Release(1)
	}
}
