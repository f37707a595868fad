package msk

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idemsk/idemsk/idem"
)

// unit is a sequence of records whose handlers are called one after another.
type unit struct {
	batch   *batch
	jobs    []*job
	holds   bool           // a slot, for its first record
	stopped atomic.Bool    // a record is not settled: what comes behind must not overtake it
	pending sync.WaitGroup // records whose completion is on its way
	done    bool           // the unit has ended, as the batch knows

	mu     sync.Mutex // guards claimed and begun of its jobs
	closed bool       // none begins any more: the batch reads what is known; guarded by mu
	pace   pace
}

// run processes the unit up to the first record that is not settled, gives back what was claimed behind it, and returns
// when nothing of it is left under way.
func (u *unit) run() {
	defer u.pending.Wait()
	defer u.giveBack()
	if len(u.jobs) > 1 {
		u.pace.since = time.Now()
	}
	for i, j := range u.jobs {
		if u.stopped.Load() {
			return
		}
		switch {
		case j.group == nil && !j.unprotected:
			u.runGathered(i)
		case !u.begin(j):
			return
		case j.group != nil:
			u.end(j, u.runGrouped(j))
		default:
			u.end(j, u.runUnprotected(j))
		}
	}
}

var errExited = errors.New("the handler ended its goroutine (runtime.Goexit): the key stays taken until its lease is over")

// begin reports whether a record may begin: not if the batch has given the unit up before.
func (u *unit) begin(j *job) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	j.begun = true
	j.outcome.Kind, j.outcome.Err = idem.Retry, errExited // if the handler never comes back here
	return true
}

// close has a record, and those behind it, not begin any more. It is false if the record has begun.
func (u *unit) close(j *job) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = !j.begun
	return u.closed
}

func (u *unit) end(j *job, out idem.Outcome) {
	j.outcome = u.batch.explain(out)
	if !out.Kind.Settled() {
		u.stopped.Store(true)
	}
	j.ended.Store(true)
}

func notStarted(err error) idem.Outcome {
	return idem.Outcome{Kind: idem.NotStarted, Err: fmt.Errorf("%w: %w", idem.ErrDeadlineNear, err)}
}

func (u *unit) runUnprotected(j *job) idem.Outcome {
	return u.withSlots(1, func() idem.Outcome { return u.batch.session.RunUnprotected(&j.ticket.Task) })
}

// runGrouped processes a record, or takes the outcome of another one of the batch that makes the same request. No claims
// are gathered across it: while it waits for its turn, the unit holds none that it has not begun.
func (u *unit) runGrouped(j *job) idem.Outcome {
	u.letGo() // others get on meanwhile

	r := request{fingerprint: j.ticket.Task.Fingerprint, redrive: j.ticket.Task.Redrive} // before the job may be rejected
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

// runGathered processes a record whose claim may have been gathered ahead with others, and leaves its completion to be
// gathered.
func (u *unit) runGathered(i int) {
	j := u.jobs[i]
	if err := u.acquire(1); err != nil {
		u.end(j, notStarted(err))
		return
	}
	if !u.begin(j) {
		u.batch.slots.Release(1)
		return
	}
	u.gather(i)
	if byItself(&j.ticket) {
		u.giveBack() // nobody shall wait for what this unit has not begun
		u.batch.slots.Release(1)
		u.end(j, u.process(j))
		return
	}
	if err := u.start(j); err != nil {
		u.giveBack()
		u.end(j, u.processRejected(j, err))
	}
}

// start runs a claimed record, and gives the unit's slot back when its handler has returned. Its outcome comes with that, or
// later; or it can't be handled under its key, and why is returned.
func (u *unit) start(j *job) error {
	defer u.batch.slots.Release(1)
	u.pending.Add(1)
	returned := false
	began := time.Now()
	defer func() {
		u.batch.consumer.typical.note(time.Since(began))
		if !returned { // the handler has ended its goroutine
			u.pending.Done()
		}
	}()
	u.batch.session.RunAsync(&j.ticket, func(out idem.Outcome) {
		defer u.pending.Done()
		if err := unfit(j, &out); err != nil { // before RunAsync returns
			j.unfit = err
			return
		}
		u.end(j, out)
	})
	returned = true
	return j.unfit
}

// byItself reports whether a record has to wait for its key, or to be claimed anew under another one.
func byItself(t *idem.Ticket) bool {
	switch t.State() {
	case idem.ClaimInFlight, idem.ClaimLeaseOver:
		return true
	case idem.ClaimUnknown:
		return errors.Is(t.Err(), idem.ErrFingerprintMismatch) || errors.Is(t.Err(), idem.ErrInvalidKey)
	case idem.Claimed, idem.ClaimCompleted, idem.ClaimFailed:
	}
	return false
}

// process takes a record from its claim, which may have been made, to its outcome.
func (u *unit) process(j *job) idem.Outcome {
	out := u.claimAndRun(j)
	if err := unfit(j, &out); err != nil {
		return u.processRejected(j, err)
	}
	return out
}

// processRejected processes a record that can't be handled under its key.
func (u *unit) processRejected(j *job, err error) idem.Outcome {
	j.reject(err)
	j.claimed = false
	return u.claimAndRun(j)
}

// claimAndRun claims a record's key, waiting while it is in flight elsewhere, and runs it. A key whose owner's lease is
// over is claimed again, and run, with nothing else in flight or claimed: if the record kills the process, no other is
// charged for it.
func (u *unit) claimAndRun(j *job) idem.Outcome {
	session, t := u.batch.session, &j.ticket
	if j.claimed && t.State() == idem.ClaimUnknown {
		return session.Run(t)
	}
	alone := false
	for claimed := j.claimed; ; claimed = false {
		if !claimed {
			out := u.tryOnce(t, alone)
			switch {
			case out.Kind == idem.NotStarted && t.State() == idem.ClaimInFlight: // its time ran out while it waited for the key
				return session.Run(t)
			case out.Kind != idem.KindUnknown:
				return out
			}
		}
		alone = t.State() == idem.ClaimLeaseOver
		if !alone && !session.Wait(t) { // without a slot: others get on meanwhile
			return session.Run(t)
		}
	}
}

// tryOnce claims a ticket and runs it, unless that has to wait: then the outcome is none.
func (u *unit) tryOnce(t *idem.Ticket, alone bool) idem.Outcome {
	tickets := [1]*idem.Ticket{t}
	t.TakeOver = alone
	return u.withSlots(u.slots(alone), func() idem.Outcome {
		if alone {
			u.batch.empty()
		}
		u.batch.session.Claim(tickets[:])
		if s := t.State(); s == idem.ClaimInFlight || (s == idem.ClaimLeaseOver && !alone) {
			return idem.Outcome{}
		}
		return u.batch.session.Run(t)
	})
}

// slots is how many a record takes.
func (u *unit) slots(alone bool) int64 {
	if alone {
		return int64(u.batch.consumer.cfg.Concurrency)
	}
	return 1
}

// withSlots calls f while the unit holds n of the slots.
func (u *unit) withSlots(n int64, f func() idem.Outcome) idem.Outcome {
	if err := u.acquire(n); err != nil {
		return notStarted(err)
	}
	defer u.batch.slots.Release(n)
	return f()
}

// acquire takes n slots; the first record is always begun with one.
func (u *unit) acquire(n int64) error {
	if u.holds && n == 1 {
		u.holds = false
		return nil
	}
	u.letGo()
	return u.batch.slots.Acquire(u.batch.ctx, n)
}

// letGo gives the unit's slot back.
func (u *unit) letGo() {
	if u.holds {
		u.holds = false
		u.batch.slots.Release(1)
	}
}
