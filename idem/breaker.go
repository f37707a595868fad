package idem

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// breaker leaves a store alone that has failed several times in a row, and lets one claim through from time to time to
// see whether it is back. Settlements are never held back: what has happened must be recorded if it can be. With
// Config.ClaimOnCommit a claim is allowed when its handler is about to run, and reported when it is sent, which may be never.
type breaker struct {
	threshold int
	cooldown  time.Duration

	// sound says that there is nothing below to look at or to change, so that claims don't queue here while all is well.
	sound atomic.Bool

	mu       sync.Mutex
	failures int
	until    time.Time // open until then; zero: closed
	probing  time.Time // a claim is trying until then: one that is never reported counts no longer than a cooldown
}

func newBreaker(cfg *Config) *breaker {
	if cfg.BreakerFailures < 0 {
		return nil
	}
	b := &breaker{threshold: cfg.BreakerFailures, cooldown: cfg.BreakerCooldown}
	b.sound.Store(true)
	return b
}

// health is what a claim shows of its store.
type health uint8

const (
	healthUnknown health = iota
	healthUp
	healthDown
)

// allow returns an error while the breaker is open. A nil breaker is always closed.
func (b *breaker) allow(now time.Time) error {
	if b == nil || b.sound.Load() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return nil
	}
	if now.Before(b.until) || now.Before(b.probing) {
		return fmt.Errorf("it failed %d times in a row and is left alone for %v", b.failures, b.cooldown)
	}
	b.probing = now.Add(b.cooldown)
	return nil
}

// report tells how a claim that was allowed went.
func (b *breaker) report(now time.Time, h health) {
	if b == nil || (b.sound.Load() && h != healthDown) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = time.Time{}
	switch h {
	case healthUnknown:
	case healthUp:
		b.failures, b.until = 0, time.Time{}
	case healthDown:
		if b.failures++; b.failures >= b.threshold {
			b.until = now.Add(b.cooldown)
		}
	}
	b.sound.Store(b.failures == 0)
}
