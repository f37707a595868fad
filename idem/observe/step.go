// Package observe has what observers of tasks use beside package idem: the steps of which an idem.Observer is
// told, and a slog.Handler that names the task in each line of a handler.
package observe

// Step says what happened to a task.
type Step uint8

// The steps. A step may occur several times, also after End if the task is tried again.
const (
	Unknown Step = iota
	// Claim: the claim was answered. Took is the time of the request, 0 if none was sent because the circuit
	// breaker is open.
	Claim
	// Wait: the key is in flight elsewhere, and is claimed again after Took.
	Wait
	// Release: a claim that was sent ahead and is not used is released.
	Release
	// Handle: the handler has returned. Took is its time.
	Handle
	// LeaseLost: the claim was lost while the handler ran or its key was being settled.
	LeaseLost
	// DeadLetter: the dead-letter sink has returned. Took is its time.
	DeadLetter
	// Settle: the settlement was answered, or was given up. Took is the time since it was handed over.
	Settle
	// End: a try has ended, with its outcome. It is told by idem.Engine.Do and package kafka. Other callers of an
	// idem.Session have the outcome.
	End
	// Overrun, instead of End: the handler had not returned when its time ended.
	Overrun
	// FailedCall: a call of a handler with several tasks failed as a whole.
	FailedCall
)

var stepNames = [...]string{"Unknown", "Claim", "Wait", "Release", "Handle", "LeaseLost", "DeadLetter",
	"Settle", "End", "Overrun", "FailedCall"}

// String returns the step's name.
func (s Step) String() string {
	if int(s) >= len(stepNames) {
		return "Unknown"
	}
	return stepNames[s]
}
