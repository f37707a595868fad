package batch

import (
	"context"
	"sync/atomic"

	"github.com/idemsk/idemsk/idem"
)

// Item is one message on its way. The caller sets Task and, where they are needed, Unprotected and Substitute; a run sets the
// other fields.
type Item struct {
	// Task is what is to be done. Its Source names the message in errors.
	Task idem.Task
	// Unprotected calls the handler without a claim.
	Unprotected bool
	// Substitute is asked for another task when the key of Task can't be used. nil: the item ends as it is.
	Substitute Substitute

	// State says whether the outcome is known.
	State State
	// Outcome is how the item ended. Its Kind is idem.KindUnknown if the item was not tried, because an earlier one of its lane was
	// not settled.
	Outcome idem.Outcome
	// Duplicate says that the outcome is that of another item of the batch, with the same key and the same request.
	Duplicate bool

	ctx       context.Context // of the handler, in a call of a BulkHandler
	ticket    idem.Ticket
	group     *group // nil if no other item of the batch has its key
	replaced  bool   // Substitute's task has taken the place of Task
	wrongKey  error  // its key was found, on completion, to stand for another request
	begun     bool   // its claim is the lane's own affair from now on; guarded by lane.mu
	claimed   bool   // its claim has been made, and not given back; guarded by lane.mu until the item is begun
	completed atomic.Bool
}

// Substitute finds another task for a message whose key can't be used.
type Substitute interface {
	// SubstituteFor returns the task to execute instead: usually one that sends the message to the dead letters, under another key. err
	// is idem.ErrFingerprintMismatch (the key was used before for another request) or idem.ErrInvalidKey, wrapped.
	SubstituteFor(err error) idem.Task
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

// waits reports whether a claimed item has to wait for its key, or to be claimed anew under another one.
func (it *Item) waits() bool {
	switch it.ticket.State() {
	case idem.ClaimInFlight, idem.ClaimLeaseOver:
		return true
	case idem.ClaimUnknown:
		return unusable(it.ticket.Err())
	case idem.Claimed, idem.ClaimCompleted, idem.ClaimFailed:
	}
	return false
}

// replace puts Substitute's task in the place of one whose key can't be used; false if there is none, or it has been done.
func (it *Item) replace(err error) bool {
	if it.Substitute == nil || it.replaced {
		return false
	}
	it.replaced, it.claimed = true, false
	it.ticket = idem.Ticket{Task: it.Substitute.SubstituteFor(err)}
	return true
}
