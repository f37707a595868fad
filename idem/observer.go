package idem

import (
	"context"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// Observer is told what happens to tasks, for metrics and traces. It must be safe for concurrent use, and must neither block nor panic: the
// task waits for it. An engine without an Observer spends nothing on it.
type Observer interface {
	// Observe is told of an event. ctx has the values of the caller's context, and may have ended.
	Observe(ctx context.Context, e Event)
}

// Observers is a list of observers as one.
type Observers []Observer

// Observe tells each observer.
func (all Observers) Observe(ctx context.Context, e Event) {
	for _, o := range all {
		o.Observe(ctx, e)
	}
}

// Event is something that happened to a task.
type Event struct {
	Step Step
	// Task is the task. It must not be changed, nor used when Observe has returned.
	Task *Task
	// Attempt is what is known of the attempt. Its Token and Number are 0 if the task has no claim.
	Attempt   Attempt
	StoredKey string // see store.Key; empty if it is not known
	// Took is the time that the step took: see Step.
	Took time.Duration
	// Err is the error of the step, nil if there is none.
	Err error

	State     store.ClaimState // of a StepClaim
	Stolen    bool             // of a StepClaim: it took the key from an owner whose lease had ended
	Op        store.SettleOp   // of a StepSettle
	Outcome   *Outcome         // of a StepEnd; it must not be changed, nor used when Observe has returned
	Duplicate bool             // of a StepEnd: the task shares the outcome of another one in progress
	Age       time.Duration    // of a StepEnd: since the message was produced; 0 if unknown
}

// Step says what happened to a task.
type Step uint8

// The steps. A step may occur several times, also after StepEnd if the task is tried again.
const (
	StepUnknown    Step = iota
	StepClaim           // the claim was answered. Took is the time of the request, 0 if none was sent because the circuit breaker is open
	StepWait            // the key is in flight elsewhere, and is claimed again after Took
	StepRelease         // a claim that was sent ahead and is not used is being released
	StepHandle          // the handler has returned. Took is its time
	StepLeaseLost       // the claim was lost while the handler ran or its key was being settled
	StepDeadLetter      // the dead-letter sink has returned. Took is its time
	StepSettle          // the settlement was answered, or was given up. Took is the time since it was handed over
	// StepEnd is the end of a try, with its outcome. It is told by Engine.Do and package kafka. Other callers of a Session have the outcome.
	StepEnd
	StepOverrun // instead of StepEnd: the handler had not returned when its time ended
)

var stepNames = [...]string{"Unknown", "Claim", "Wait", "Release", "Handle", "LeaseLost", "DeadLetter", "Settle", "End", "Overrun"}

// String returns the step's name.
func (s Step) String() string {
	if int(s) >= len(stepNames) {
		return "Unknown"
	}
	return stepNames[s]
}

// EndOf returns the StepEnd of a task with an outcome.
func EndOf(task *Task, out *Outcome) Event {
	return Event{Step: StepEnd, Task: task, Attempt: out.attempt(task), StoredKey: out.Key, Outcome: out, Err: out.Err}
}

func (out *Outcome) attempt(task *Task) Attempt {
	return Attempt{Key: task.Key, Token: out.Token, Number: out.Attempt, Source: task.Source}
}

// tell tells the observer what happened to a claim's task.
func (s *Session) tell(claim *Claim, e Event) {
	if s.engine.cfg.Observer == nil {
		return
	}
	e.Task, e.Attempt, e.StoredKey = &claim.Task, claim.attempt(), claim.key
	s.engine.cfg.Observer.Observe(s.ctx, e)
}

// tellSettled tells the observer the answer to a settlement. The attempt is that of the outcome, because the claim may be spent.
func (s *Session) tellSettled(claim *Claim, out *Outcome, op store.SettleOp, r settled) {
	if s.engine.cfg.Observer == nil {
		return
	}
	s.engine.cfg.Observer.Observe(s.ctx, Event{
		Step: StepSettle, Task: &claim.Task, Attempt: out.attempt(&claim.Task), StoredKey: claim.key, Op: op, Took: r.took, Err: r.err,
	})
}

// began returns the time for ended. Without an observer it is zero, and costs nothing.
func (s *Session) began() (now time.Time) {
	if s.engine.cfg.Observer != nil {
		now = time.Now()
	}
	return now
}

// ended tells the observer that the handler or the dead-letter sink has returned, or that the lease has ended.
func (s *Session) ended(step Step, task *Task, attempt Attempt, stored string, began time.Time, err error) {
	if !began.IsZero() {
		s.engine.cfg.Observer.Observe(s.ctx, Event{
			Step: step, Task: task, Attempt: attempt, StoredKey: stored, Took: time.Since(began), Err: err,
		})
	}
}
