package idem_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// exits is a sink that ends its goroutine, as a failed test does.
func exits(context.Context, idem.DeadLetter) error {
	runtime.Goexit()
	return nil
}

// runAsync runs a task in a goroutine, which may end.
func runAsync(s *idem.Session, claim *idem.Claim) <-chan idem.Outcome {
	ended := make(chan idem.Outcome, 1)
	go s.RunAsync(claim, func(out idem.Outcome, _ bool) { ended <- out })
	return ended
}

// A sink that ends its goroutine after the handler leaves its place in the window to others.
func TestSinkThatExitsLeavesTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := session(t, newEngine(t, newSlowStore(), idem.Config{CommitWindow: 1}), t.Context())
		bad := &idem.Claim{Task: taskWithDeadLetters(&deadLetters{onSend: exits},
			returning("", idem.Permanent(errBoom)))}
		other := &idem.Claim{Task: taskOf(returning("", nil))}
		other.Task.Key = "other"
		s.Claim([]*idem.Claim{bad, other})
		runAsync(s, bad)
		synctest.Wait()
		wantKind(t, <-runAsync(s, other), idem.Executed)
	})
}

// The lease of a key whose attempts are used up ends, although its sink has ended its goroutine.
func TestSinkThatExitsEndsTheHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := session(t, newEngine(t, newSlowStore(), idem.Config{MaxAttempts: 1}), t.Context())
		died := &idem.Claim{Task: taskOf(returning("", nil))}
		s.Claim([]*idem.Claim{died})
		pass(2 * lease)
		for range 2 {
			claim := &idem.Claim{TakeOver: true,
				Task: taskWithDeadLetters(&deadLetters{onSend: exits}, returning("", nil))}
			s.Claim([]*idem.Claim{claim})
			equal(t, "state", claim.State(), store.Claimed)
			runAsync(s, claim)
			pass(5 * lease)
		}
	})
}
