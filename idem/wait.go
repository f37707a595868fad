package idem

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/idem/store"
)

// The pauses between two claims of a key that is in flight elsewhere.
const (
	firstWait = 50 * time.Millisecond
	longWait  = 2 * time.Second
)

// Wait waits before the next claim of a key that is in flight elsewhere, as long as WaitTime says. It returns
// false at once if WaitTime does, and when the session's time ends.
func (s *session) Wait(claim *claim) bool {
	pause, ok := s.WaitTime(claim)
	return ok && sleep(s.handlers, pause)
}

// WaitTime returns how long to wait before the next claim of a key that is in flight elsewhere: with
// exponential backoff and jitter, and no longer than its lease or delay. It returns false if the key is not
// in flight, or if it can't become claimable within Config.Wait and the deadline less the margin. Call it
// once after each claim.
func (s *session) WaitTime(claim *claim) (time.Duration, bool) {
	if claim.res.State != store.ClaimInFlight || s.engine.cfg.Wait < 0 {
		return 0, false
	}
	now := time.Now()
	if claim.waitUntil.IsZero() {
		claim.waitUntil = s.waitLimit(now)
	}
	pause := claim.res.ClaimableIn + time.Millisecond // stores count in milliseconds
	left := claim.waitUntil.Sub(now)
	if claim.res.Entry.Released() { // it stays as it is until its retry time
		if pause > left {
			return 0, false
		}
	} else {
		pause = min(pause, backoff(claim.waits), left)
	}
	claim.waits++
	if pause <= 0 {
		return pause, false
	}
	s.tell(claim, Event{Step: observe.Wait, Took: pause})
	return pause, true
}

func (s *session) waitLimit(now time.Time) time.Time {
	limit := now.Add(store.MaxLease * 24) // neither a deadline nor a limit
	if d, ok := s.handlers.Deadline(); ok {
		limit = d
	}
	if w := s.engine.cfg.Wait; w > 0 && now.Add(w).Before(limit) {
		limit = now.Add(w)
	}
	return limit
}

// backoff returns the nth pause (from 0): exponential, with full jitter over its upper half.
func backoff(n int) time.Duration {
	d := min(firstWait<<min(n, 16), longWait)
	return d/2 + rand.N(d/2+1) //nolint:gosec // jitter needs no cryptographic randomness
}

// sleep waits for d; false if the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
