package idem

import (
	"context"
	"time"

	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/idem/store"
)

// Observer is told what happens to tasks, for metrics and traces. It must be safe for concurrent use, and
// must neither block nor panic: the task waits for it. An engine without an Observer spends nothing on it.
type Observer interface {
	// Observe is told of an event. ctx has the values of the caller's context, and may have ended.
	Observe(ctx context.Context, e Event)
}

// Event is something that happened to a task.
type Event struct {
	Step observe.Step
	// Task is the task, of an observe.FailedCall the first one. It must not be changed, nor used when Observe has
	// returned.
	Task *Task
	// Attempt is what is known of the attempt. Its Token and Number are 0 if the task has no claim.
	Attempt   Attempt
	StoredKey string // see store.Key; empty if it is not known
	// Took is the time that the step took: see observe.Step.
	Took time.Duration
	// Err is the error of the step, nil if there is none.
	Err error

	State  store.ClaimState // of an observe.Claim
	Stolen bool             // of an observe.Claim: it took the key from an owner whose lease had ended
	Op     store.SettleOp   // of an observe.Settle
	// Outcome is that of an observe.End. It must not be changed, nor used when Observe has returned.
	Outcome   *Outcome
	Duplicate bool          // of an observe.End: the task shares the outcome of another one in progress
	Age       time.Duration // of an observe.End: since the message was produced; 0 if unknown
	Tasks     int           // of an observe.FailedCall: those of the call
}

// End returns the event that a task ended with the outcome.
func (out *Outcome) End(task *Task) Event {
	return Event{Step: observe.End, Task: task, Attempt: out.attempt(task), StoredKey: out.Key, Outcome: out,
		Err: out.Err}
}

func (out *Outcome) attempt(task *Task) Attempt {
	return Attempt{Key: task.Key, Token: out.Token, Number: out.Attempt, Source: task.Source}
}

// tell tells the observer what happened to a claim's task.
func (s *session) tell(claim *claim, e Event) {
	if s.engine.cfg.Observer == nil {
		return
	}
	e.Task, e.Attempt, e.StoredKey = &claim.Task, claim.attempt(), claim.key
	s.engine.cfg.Observer.Observe(s.ctx, e)
}

// began returns the time for ended. Without an observer it is zero, and costs nothing.
func (s *session) began() (now time.Time) {
	if s.engine.cfg.Observer != nil {
		now = time.Now()
	}
	return now
}

// ended tells the observer that the handler or the dead-letter sink has returned, or that the lease has
// ended.
func (s *session) ended(step observe.Step, task *Task, attempt Attempt, stored string, began time.Time,
	err error) {
	if !began.IsZero() {
		s.engine.cfg.Observer.Observe(s.ctx, Event{
			Step: step, Task: task, Attempt: attempt, StoredKey: stored, Took: time.Since(began), Err: err,
		})
	}
}
