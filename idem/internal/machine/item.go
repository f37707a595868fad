package machine

import (
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// Item is a message, from its addition to its end. The driver sets the exported fields; those that say what has
// happened before the event about it.
type Item struct {
	Value any // what the driver has for it

	Lane     string // the name of its lane in a stream
	Key      string // that is claimed: its task's, or that of a substitute
	Request  Request
	Replaced bool // Key is that of a substitute
	Rejected bool // its error is known before
	// Answer is the answer to its last claim, before Answered.
	Answer Answer
	// End is how it ended, before Settled.
	End End
	// RetryIn is the time after which it may be tried again, before Settled.
	RetryIn time.Duration
	// Again means that it returns to its lane without an end, for example with a substitute, before Settled.
	Again bool

	lane   *Lane
	number uint64 // its place among the items of its machine
	phase  phase
	sent   time.Time // when its claim was sent

	takesOver  bool // its next claim takes the key from an owner whose lease is over
	tries      int
	notBefore  time.Time // when it may be tried again
	held       bool      // it waits because of an outage
	unreported bool      // the caller was not told of its last outcome yet
	removed    bool      // nothing is told of it any more

	open      bool   // it is in lane.open
	returned  bool   // its handler has returned
	known     bool   // how it ended is known
	duplicate bool   // it ended as another one of its key
	key       string // the key that it uses
	sharers   []*Item
	waiting   []*Lane // lanes whose next item has its key, and does not share its outcome yet
}

// Request is compared to decide whether two items with one key share an outcome. A redriven message does not
// share the outcome of the delivery that failed.
type Request struct {
	Fingerprint store.Fingerprint
	Redrive     int64
	Unknown     bool // the redriven message is of an unknown outcome
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

// Answer is the answer to a claim.
type Answer uint8

// The answers to a claim.
const (
	NoAnswer     Answer = iota // there was no claim
	Claimed                    // the item has the key
	ClaimedAlone               // so too, and its last attempt failed: a bulk handler is called for it alone
	FailsOpen                  // the store did not answer, and the handler is called without protection
	Down                       // the store did not answer, and the handler must not be called
	Completed                  // the key is COMPLETED
	InFlight                   // another owner has the key
	Delayed                    // so too, with a delay that has not passed
	LeaseOver                  // the owner's lease is over
	TakeOver                   // so too, and the key may be taken over beside other items
	Ends                       // any other: the item ends without its handler
)

// End is how an item ended.
type End uint8

// The ends of an item. All but EndLate are set by the driver.
const (
	NotEnded    End = iota
	EndSettled      // its message needs no further delivery
	EndFailed       // it is tried again; in a batch by the next delivery
	EndInOutage     // so too, and there is an outage of what handlers need
	EndHeldBack     // by such an outage, before its handler was called
	EndBehind       // an earlier item of its lane is not settled
	EndLate         // in a batch: the time of handlers ended before its own was called
)

func (e End) settled() bool { return e == EndSettled }

// TakesOver reports whether the item's claim is to take the key from an owner whose lease is over.
func (it *Item) TakesOver() bool { return it.takesOver }

// In returns the item's lane.
func (it *Item) In() *Lane { return it.lane }

// Removed reports whether the caller is told nothing of the item any more.
func (it *Item) Removed() bool { return it.removed }

// IsInFlight reports whether another owner has the item's key.
func (it *Item) IsInFlight() bool {
	return it.Answer == InFlight || it.Answer == Delayed || it.leaseOver()
}

// leaseOver reports whether the key's owner has had its lease.
func (it *Item) leaseOver() bool { return it.Answer == LeaseOver || it.Answer == TakeOver }

// holds reports whether the item has its key.
func (it *Item) holds() bool { return it.Answer == Claimed || it.Answer == ClaimedAlone }

// ahead reports whether the item has a claim that was sent before its turn, which ages.
func (it *Item) ahead() bool { return it.phase == claiming || it.phase == claimed }

// Callable reports whether a bulk handler is called for the item. The handlers of a substitute and of a rejected
// task are called without it.
func (it *Item) Callable() bool {
	return (it.holds() || it.Answer == FailsOpen) && !it.Replaced && !it.Rejected
}
