package schedule

import (
	"context"
	"errors"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// Item is one message of a run or of a stream. The caller sets Task and, if needed, Lane and Substitute.
// The scheduler sets the other fields.
type Item struct {
	// Lane is the name of the item's lane in a Stream. Run takes the items in lanes.
	Lane string
	// Task is the task to run. Its Source names the message in errors.
	Task idem.Task
	// Substitute returns another task if the key of Task is refused. If it is nil, the item ends with its
	// outcome.
	Substitute Substitute

	// State reports whether the outcome is known. It is not set before the run has ended.
	State State
	// Outcome is the item's outcome. Its Kind is idem.Behind if the item was not tried, because an earlier item of
	// its lane was not settled.
	Outcome idem.Outcome
	// Duplicate reports that the outcome is that of another item of the batch, with the same key and the same
	// request.
	Duplicate bool

	claim    idem.Claim      // of the driver, except for its Task
	ctx      context.Context // of the handler, in a call of a BulkHandler
	refused  bool            // its key was refused, and Substitute is consulted; Outcome has the reason
	replaced bool            // Substitute's task replaced Task
	progress
}

// progress is where an item is between its addition and its end, in a machine.
type progress struct {
	lane   *lane
	number uint64 // its place among the items of its machine
	phase  phase
	answer answer    // to its last claim, which the driver sets
	sent   time.Time // when its claim was sent

	takesOver  bool // its next claim takes the key from an owner whose lease is over
	tries      int
	notBefore  time.Time // when it may be tried again
	held       bool      // it waits because of an outage
	unreported bool      // the caller was not told of its last outcome yet
	removed    bool      // nothing is told of it any more

	open     bool // it is in lane.open
	returned bool // its handler has returned
	known    bool // its outcome is known
	// it returns to its lane without an outcome, for example with another task (Item.Substitute)
	again   bool
	key     string // the key that it uses
	sharers []*Item
	waiting []*lane // lanes whose next item has its key, and does not share its outcome yet
}

// phase is where an item is between its addition and its end.
type phase uint8

const (
	queued    phase = iota // its claim has not been sent, or was released
	claiming               // its claim is in progress
	claimed                // its claim was answered
	releasing              // its claim is being released
	sharing                // it takes the outcome of the item that uses its key
	shared                 // it has that outcome
	begun                  // its handler was called, or it was settled without
)

// answer is the answer to a claim.
type answer struct {
	state   store.ClaimState
	delayed bool // the key has a delay that has not passed
	down    bool // the store did not answer, and the handler must not be called
	open    bool // the store did not answer, and the engine fails open
	failed  bool // its last attempt failed: a bulk handler is called for it alone
	beside  bool // of a key whose owner's lease is over: it may be handled beside others
}

// Substitute finds another task for a message whose key was refused.
type Substitute interface {
	// SubstituteFor returns the task to execute instead of the one that ended with this outcome. It usually
	// sends the message to the dead letters under another key. If it returns false, the outcome stands. It is
	// called at most once, for the kinds idem.Mismatched (the key was used before for another request),
	// idem.InvalidKey and idem.ReplayedFailed.
	SubstituteFor(out *idem.Outcome) (idem.Task, bool)
}

// State describes how a run left an item.
type State uint8

// The states of an item.
const (
	// Ended: it has ended or was not tried, see Outcome.
	Ended State = iota
	// Overrun: its handler had not returned when the run ended. No other field of the item may be read.
	Overrun
	// BehindOverrun: it was not tried, because the handler of an earlier item of its lane has not returned.
	BehindOverrun
)

// Context returns the context of an item in a call of a BulkHandler. idem.AttemptFrom returns the item's
// attempt from it, and a store's TxFrom the transaction that commits with its completion. It ends with the
// cause idem.ErrLeaseLost if the claim is lost.
func (it *Item) Context() context.Context { return it.ctx }

// SameLane reports whether the item is in the same lane as another one of a call of a BulkHandler.
func (it *Item) SameLane(other *Item) bool { return it.lane == other.lane }

// Settled reports whether the message needs no further delivery.
func (it *Item) Settled() bool { return it.State == Ended && it.Outcome.Kind.Settled() }

// Err returns why the item is not settled.
func (it *Item) Err() error {
	switch {
	case it.State == Overrun:
		return ErrOverrun
	case it.State == Ended && it.Outcome.Err != nil:
		return it.Outcome.Err
	}
	return ErrBehind
}

// heldBack reports whether an outage of what the handler needs has held the item back.
func (it *Item) heldBack() bool {
	return it.Outcome.Kind == idem.NotStarted && errors.Is(it.Outcome.Err, idem.ErrHandlerDown)
}

// inFlight reports whether another owner has the item's key.
func (it *Item) inFlight() bool {
	return it.answer.state == store.ClaimInFlight || it.answer.state == store.ClaimLeaseOver
}

// ahead reports whether the item has a claim that was sent before its turn, which ages.
func (it *Item) ahead() bool { return it.phase == claiming || it.phase == claimed }

// callable reports whether a bulk handler is called for the item. The handlers of a task that replaced another
// one and of a rejected task are called without it.
func (it *Item) callable() bool {
	return (it.answer.state == store.Claimed || it.answer.open) && !it.replaced && !it.claim.Task.Rejected
}

// refuse reports whether the outcome means that the key was refused and Substitute must be consulted. It then
// stores the outcome.
func (it *Item) refuse(out *idem.Outcome) bool {
	switch {
	case it.Substitute == nil || it.refused:
	case out.Kind == idem.Mismatched || out.Kind == idem.InvalidKey || out.Kind == idem.ReplayedFailed:
		it.Outcome, it.refused = *out, true
		return true
	}
	return false
}

// replace replaces the task by Substitute's; false if the outcome stands.
func (it *Item) replace() bool {
	task, ok := it.Substitute.SubstituteFor(&it.Outcome)
	if ok {
		it.replaced, it.claim = true, idem.Claim{Task: task}
	}
	return ok
}
