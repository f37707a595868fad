package batch

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// Item is one message of a run or of a stream. The caller sets Task and, if needed, Lane, Unprotected and
// Substitute. The run sets the other fields.
type Item struct {
	// Lane is the name of the item's lane in a Stream. Run takes the items in lanes, and RunBulk has none.
	Lane string
	// Range is the key of the lease that holds the item in a Stream (idem.Config.ClaimByPartition), empty if
	// none does. The items of a lane have the same. Run and RunBulk take Ranges.
	Range string
	// Position is the place of the message in its Range, if it has one. The items of a Range are added to a
	// Stream in the order of their positions.
	Position int64
	// Task is the task to run. Its Source names the message in errors.
	Task idem.Task
	// Unprotected calls the handler without a claim.
	Unprotected bool
	// Substitute returns another task if the key of Task is refused. If it is nil, the item ends with its
	// outcome.
	Substitute Substitute

	// State reports whether the outcome is known. It is not set before the run has ended.
	State State
	// Outcome is the item's outcome. Its Kind is idem.KindUnknown if the item was not tried, because an
	// earlier item of its lane was not settled.
	Outcome idem.Outcome
	// Duplicate reports that the outcome is that of another item of the batch, with the same key and the same
	// request.
	Duplicate bool

	ctx       context.Context // of the handler, in a call of a BulkHandler
	claim     idem.Claim
	group     *group // nil if no other item of the batch has its key
	within    *held  // the range of the item; nil if it has none
	refused   bool   // its key was refused, and Substitute is consulted; Outcome has the reason
	replaced  bool   // Substitute's task replaced Task
	begun     bool   // only the lane uses its claim from now on; guarded by lane.mu
	claimed   bool   // its claim was sent and not released; guarded by lane.mu until the item is begun
	completed atomic.Bool
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

// reset lets an item that was held back, or that is behind one in its lane, take part in another run.
func (it *Item) reset() {
	it.Outcome, it.Duplicate, it.group, it.begun, it.claimed = idem.Outcome{}, false, nil, false, false
	it.completed.Store(false)
}

// prefetchable reports whether the item's claim may be prefetched.
func (it *Item) prefetchable() bool {
	return it.group == nil && !it.Unprotected && it.ready() && !it.claimed
}

// waits reports whether the item must wait for its key.
func (it *Item) waits() bool {
	s := it.claim.State()
	return s == store.ClaimInFlight || s == store.ClaimLeaseOver
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
		it.replaced, it.claimed, it.claim = true, false, idem.Claim{Task: task}
	}
	return ok
}
