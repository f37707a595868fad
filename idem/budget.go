package idem

import (
	"math/rand/v2"
	"time"
)

// This file divides time; each fraction is defined here only.
//
// A session with a deadline keeps Config.DeadlineMargin free at its end, for the work that follows the
// handlers:
//
//	now ── claims, handlers ──▶│ handlersEnd ── settlements ──▶│ settlingEnd ──▶│ giveUp ── the caller's answer ──▶│ deadline
//	                           ◀────────── margin ─────────────────────────────────────────────────────────────▶
//	                                                           ◀─ margin/4 ──────────────────────────────────────▶
//	                                                                            ◀─ margin/8 ─────────────────────▶
//
// A dead letter must be sent margin/4 before settlingEnd, so that its key can be settled.
//
// A lease is divided from the time when its claim was sent:
//
//	lease/4   a prefetched claim should begin by then, by the latency estimate
//	lease/3   a claim that begins later is extended first; a heartbeat extends it at each third
//	lease/10  the timeout of a heartbeat, and the pause before a failed one is retried; completions wait this long for an earlier request
//
// Heartbeats end at settlingEnd. An extension was sent at most lease/3 and lease/10 before, so the lease
// lasts until settlingEnd and 17/30 of it:
//
//	lease/2   after settlingEnd a process ends whose handlers have not returned
const (
	settleShare   = 4  // of the margin
	giveUpShare   = 8  // of the margin
	beatShare     = 3  // of the lease
	prefetchShare = 4  // of the lease
	retryShare    = 10 // of the lease
	overrunShare  = 2  // of the lease
)

const (
	retryFactor = 4 // of the delay before the next attempt
	jitterShare = 4 // of this delay
)

// handlersEnd is when the contexts of handlers end.
func (c Config) handlersEnd(deadline time.Time) time.Time { return deadline.Add(-c.DeadlineMargin) }

// settlingEnd is when claims and settlements end.
func (c Config) settlingEnd(deadline time.Time) time.Time {
	return deadline.Add(-c.DeadlineMargin / settleShare)
}

// lettersEnd is when dead letters must have been sent.
func (c Config) lettersEnd(settlingEnd time.Time) time.Time {
	return settlingEnd.Add(-c.DeadlineMargin / settleShare)
}

// beat is the time between two heartbeats.
func (c Config) beat() time.Duration { return c.Lease / beatShare }

// retryBeat is the timeout of a heartbeat, and the time after which a failed heartbeat is retried.
func (c Config) retryBeat() time.Duration { return c.Lease / retryShare }

// retryDelay is the time between the nth attempt (from 1) and the next one: of the fifth attempt with the
// defaults, 3/4 of 1+4+16+64 s after the first.
func (c Config) retryDelay(n int) time.Duration { return jittered(c.LongestRetryDelay(n)) }

// LongestRetryDelay is the longest time between the nth attempt (from 1) and the next one, which RetryDelay
// leads to.
func (c Config) LongestRetryDelay(n int) time.Duration {
	d := min(max(0, c.RetryDelay), MaxRetryDelay)
	for ; n > 1 && d < MaxRetryDelay; n-- {
		d = min(retryFactor*d, MaxRetryDelay)
	}
	return d
}

// jittered returns d less a random part of up to a quarter.
func jittered(d time.Duration) time.Duration {
	return d - rand.N(d/jitterShare+1) //nolint:gosec // jitter needs no cryptographic randomness
}

// retryDelay is the time before the next attempt of a claim's task.
func (e *Engine) retryDelay(claim *claim) time.Duration {
	return e.cfg.retryDelay(claim.res.Entry.Attempts)
}

// longPatience is the maximum of patience.
const longPatience = 2 * time.Second

// OverrunGrace returns how long a process may go on after GiveUpAt if handlers have not returned. Then the
// leases of their keys end, and another process may call the handlers again.
func (c Config) OverrunGrace() time.Duration {
	return max(0, c.Lease/overrunShare-(c.DeadlineMargin/settleShare-c.DeadlineMargin/giveUpShare))
}

// patience is how long completions wait for an earlier request. A request that gets no answer, for example on
// a lost connection, must not delay later completions for longer.
func (c Config) patience() time.Duration { return min(c.Lease/retryShare, longPatience) }

// maxPrefetchAge returns how long a prefetched claim may wait for its handler to begin without needing an
// extension. It leaves some reserve, because the duration of handlers is only an estimate.
func (e *Engine) maxPrefetchAge() time.Duration { return e.cfg.Lease / prefetchShare }

// GiveUpAt returns the time at which the caller of a session must answer, even if handlers have not returned.
// All contexts of the session have ended by then. It returns false if the session has no deadline.
func (s *session) GiveUpAt() (time.Time, bool) {
	return s.deadline.Add(-s.engine.cfg.DeadlineMargin / giveUpShare), s.bounded
}
