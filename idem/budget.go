package idem

import "time"

// This file is how time is divided, each fraction in one place.
//
// A session with a deadline, of whose end Config.DeadlineMargin is kept free for what comes after handlers:
//
//	now ── claims, handlers ──▶│ handlersEnd ── settlements ──▶│ settlingEnd ──▶│ giveUp ── the caller's answer ──▶│ deadline
//	                           ◀────────── margin ─────────────────────────────────────────────────────────────▶
//	                                                           ◀─ margin/4 ──────────────────────────────────────▶
//	                                                                            ◀─ margin/8 ─────────────────────▶
//
// A dead letter must be sent margin/4 before settlingEnd, so that its key can be settled.
//
// A lease, from when its claim was sent:
//
//	lease/4   a prefetched claim is begun by then, as far as can be told
//	lease/3   one that is begun later is extended first; a heartbeat extends it at each third
//	lease/10  a heartbeat has this time to be answered, and one that failed is made again after it; so long completions wait for a request
//	          before them
const (
	settleShare   = 4  // of the margin
	giveUpShare   = 8  // of the margin
	beatShare     = 3  // of the lease
	prefetchShare = 4  // of the lease
	retryShare    = 10 // of the lease
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

// retryBeat is the time that a heartbeat has to be answered, and after which one that failed is made again.
func (c Config) retryBeat() time.Duration { return c.Lease / retryShare }

// longPatience bounds patience where leases are long.
const longPatience = 2 * time.Second

// patience is how long completions wait for a request before them: one that gets no answer, as on a connection that was silently
// lost, must not hold up the others.
func (c Config) patience() time.Duration { return min(c.Lease/retryShare, longPatience) }

// ClaimMayWait is how long a claim may wait until its handler begins without costing an extension, with some time to spare: it is
// not always known how long handlers take.
func (e *Engine) ClaimMayWait() time.Duration { return e.cfg.Lease / prefetchShare }

// GiveUpAt is when the caller of a session must answer, although handlers may not have returned; false if the session has no
// deadline. All contexts of the session have ended by then.
func (s *Session) GiveUpAt() (time.Time, bool) {
	return s.deadline.Add(-s.engine.cfg.DeadlineMargin / giveUpShare), s.bounded
}
