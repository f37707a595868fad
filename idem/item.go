package idem

import (
	"context"
	"errors"
	"fmt"

	"github.com/idemsk/idemsk/idem/internal/machine"
)

// Item is one message of a run or of a stream. The caller sets Task and, if needed, Lane and Substitute.
// The scheduler sets the other fields.
type Item struct {
	// Lane is the name of the item's lane in a Stream. Run takes the items in lanes.
	Lane string
	// Task is the task to run. Its Source names the message in errors.
	Task Task
	// Substitute returns another task if the key of Task is refused. If it is nil, the item ends with its
	// outcome.
	Substitute Substitute

	// State reports whether the outcome is known. It is not set before the run has ended.
	State ItemState
	// Outcome is the item's outcome. Its Kind is Behind if the item was not tried, because an earlier item of
	// its lane was not settled.
	Outcome Outcome
	// Duplicate reports that the outcome is that of another item of the batch, with the same key and the same
	// request.
	Duplicate bool

	claim   claim           // of the driver, except for its Task
	ctx     context.Context // of the handler, in a call of a BulkHandler
	refused bool            // its key was refused, and Substitute is consulted; Outcome has the reason
	place   machine.Item
}

// itemOf returns what the driver has for an item of its machine.
func itemOf(place *machine.Item) *Item {
	it, _ := place.Value.(*Item)
	return it
}

// enter sets what a machine needs to know of an item that is added.
func (it *Item) enter() *machine.Item {
	it.claim.Task = it.Task
	it.place = machine.Item{Value: it, Lane: it.Lane}
	it.identify()
	return &it.place
}

// identify tells the machine which key is claimed, and for what.
func (it *Item) identify() {
	t := &it.Task
	it.place.Key, it.place.Rejected = it.claim.Task.Key, it.claim.Task.Rejected
	it.place.Request = machine.Request{Fingerprint: t.Fingerprint, Redrive: t.RedriveToken, Unknown: t.OutcomeUnknown}
}

// Substitute finds another task for a message whose key was refused.
type Substitute interface {
	// SubstituteFor returns the task to execute instead of the one that ended with this outcome. It usually
	// sends the message to the dead letters under another key. If it returns false, the outcome stands. It is
	// called at most once, for the kinds Mismatched (the key was used before for another request),
	// InvalidKey and ReplayedFailed.
	SubstituteFor(out *Outcome) (Task, bool)
}

// ItemState describes how a run left an item.
type ItemState uint8

// The states of an item.
const (
	// ItemEnded: it has ended or was not tried, see Outcome.
	ItemEnded ItemState = iota
	// ItemOverrun: its handler had not returned when the run ended. No other field of the item may be read.
	ItemOverrun
	// ItemBehindOverrun: it was not tried, because the handler of an earlier item of its lane has not returned.
	ItemBehindOverrun
)

// Context returns the context of an item in a call of a BulkHandler. AttemptFrom returns the item's
// attempt from it, and a store's TxFrom the transaction that commits with its completion. It ends with the
// cause ErrLeaseLost if the claim is lost.
func (it *Item) Context() context.Context { return it.ctx }

// SameLane reports whether the item is in the same lane as another one of a call of a BulkHandler.
func (it *Item) SameLane(other *Item) bool { return it.place.In() == other.place.In() }

// Settled reports whether the message needs no further delivery.
func (it *Item) Settled() bool { return it.State == ItemEnded && it.Outcome.Kind.Settled() }

// Err returns why the item is not settled.
func (it *Item) Err() error {
	switch {
	case it.State == ItemOverrun:
		return ErrOverrun
	case it.State == ItemEnded && it.Outcome.Err != nil:
		return it.Outcome.Err
	}
	return ErrBehind
}

// end notes how the item ended, for the machine.
func (it *Item) end() {
	down := errors.Is(it.Outcome.Err, ErrHandlerDown)
	it.place.RetryIn = it.Outcome.RetryIn
	switch kind := it.Outcome.Kind; {
	case kind.Settled():
		it.place.End = machine.EndSettled
	case kind == Behind:
		it.place.End = machine.EndBehind
	case down && kind == NotStarted:
		it.place.End = machine.EndHeldBack
	case down:
		it.place.End = machine.EndInOutage
	default:
		it.place.End = machine.EndFailed
	}
}

// close sets the outcome of an item of a batch that ended without a call or a settlement. over is why the time of
// handlers has ended.
func (it *Item) close(over error) {
	switch {
	case it.State != ItemEnded:
	case it.place.End == machine.EndLate:
		it.Outcome = Outcome{Kind: NotStarted, Err: fmt.Errorf("%w: %w", ErrDeadlineNear, over)}
	case it.place.End == machine.EndBehind && it.Outcome.Kind == KindUnknown:
		it.Outcome.Kind = Behind
	}
}

// refuse reports whether the outcome means that the key was refused and Substitute must be consulted. It then
// stores the outcome.
func (it *Item) refuse(out *Outcome) bool {
	switch {
	case it.Substitute == nil || it.refused:
	case out.Kind == Mismatched || out.Kind == InvalidKey || out.Kind == ReplayedFailed:
		it.Outcome, it.refused = *out, true
		return true
	}
	return false
}

// replace replaces the task by Substitute's; false if the outcome stands.
func (it *Item) replace() bool {
	task, ok := it.Substitute.SubstituteFor(&it.Outcome)
	if ok {
		it.claim, it.place.Replaced = claim{Task: task}, true
		it.identify()
	}
	return ok
}

// retask lets an item be tried with the task that the caller has set when it was told of a try. The key of a
// rejected task may be that of the task that follows it, whose claim then knows what was sent for the key.
func (it *Item) retask() {
	if it.place.Replaced {
		return
	}
	if it.Task.Key != it.claim.Task.Key {
		it.claim = claim{}
	}
	it.claim.Task = it.Task
	it.identify()
}
