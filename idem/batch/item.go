package batch

import (
	"context"
	"sync/atomic"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/idemsk/idemsk/idem"
)

// Item is one message on its way. The caller sets Task and, where they are needed, Unprotected and Substitute; a run sets the
// other fields.
type Item struct {
	// Task is what is to be done. Its Source names the message in errors.
	Task idem.Task
	// Unprotected calls the handler without a claim.
	Unprotected bool
	// Substitute is asked for another task when the key of Task is refused; nil: the item ends as it is.
	Substitute Substitute

	// State says whether the outcome is known.
	State State
	// Outcome is how the item ended. Its Kind is idem.KindUnknown if the item was not tried, because an earlier one of its lane was
	// not settled.
	Outcome idem.Outcome
	// Duplicate says that the outcome is that of another item of the batch, with the same key and the same request.
	Duplicate bool

	ctx       context.Context // of the handler, in a call of a BulkHandler
	ticket    idem.Claim
	group     *group // nil if no other item of the batch has its key
	refused   bool   // its key was, and Substitute is to be asked, or was; Outcome says why
	replaced  bool   // Substitute's task has taken the place of Task
	begun     bool   // its claim is the lane's own affair from now on; guarded by lane.mu
	claimed   bool   // its claim has been made, and not given back; guarded by lane.mu until the item is begun
	completed atomic.Bool
}

// Substitute finds another task for a message whose key was refused.
type Substitute interface {
	// SubstituteFor returns the task to execute instead of the one that ended so: usually one that sends the message to the dead
	// letters, under another key. false: the outcome stands. It is asked once at most, for the kinds idem.Mismatched (the key was
	// used before for another request), idem.InvalidKey and idem.ReplayedFailed.
	SubstituteFor(out *idem.Outcome) (idem.Task, bool)
}

// State says how a run left an item.
type State uint8

// The states of an item.
const (
	Ended         State = iota // it has ended, or was not tried: see Outcome
	Overrun                    // its handler had not returned when the run had to; nothing else of the item may be read
	BehindOverrun              // it was not tried, as the handler of an earlier item of its lane has not returned
)

// Context returns the context of an item in a call of a BulkHandler: idem.AttemptFrom finds the item's attempt in it, and a store's
// TxFrom what commits with its completion. It ends with the cause idem.ErrLeaseLost when the claim is lost.
func (it *Item) Context() context.Context { return it.ctx }

// Settled reports whether the message needs no further delivery.
func (it *Item) Settled() bool { return it.State == Ended && it.Outcome.Kind.Settled() }

// Err says why the item is not settled.
func (it *Item) Err() error {
	switch {
	case it.State == Overrun:
		return ErrOverrun
	case it.State == Ended && it.Outcome.Err != nil:
		return it.Outcome.Err
	}
	return ErrBehind
}

// prefetchable reports whether the item's claim may be made ahead of its turn.
func (it *Item) prefetchable() bool { return it.group == nil && !it.Unprotected && !it.claimed }

// waits reports whether a claimed item has to wait for its key.
func (it *Item) waits() bool {
	s := it.ticket.State()
	return s == store.ClaimInFlight || s == store.ClaimLeaseOver
}

// refuse reports whether Substitute is to be asked for another task, because of an outcome, which it keeps.
func (it *Item) refuse(out *idem.Outcome) bool {
	switch {
	case it.Substitute == nil || it.refused:
	case out.Kind == idem.Mismatched || out.Kind == idem.InvalidKey || out.Kind == idem.ReplayedFailed:
		it.Outcome, it.refused = *out, true
		return true
	}
	return false
}

// replace puts Substitute's task in the place of one whose key was refused; false if the outcome stands.
func (it *Item) replace() bool {
	task, ok := it.Substitute.SubstituteFor(&it.Outcome)
	if ok {
		it.replaced, it.claimed, it.ticket = true, false, idem.Claim{Task: task}
	}
	return ok
}
