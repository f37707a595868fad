package idem

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// The circuit breaker opens after this number of consecutive failed requests, and then allows one for each
// cooldown.
const (
	breakerFailures = 5
	breakerCooldown = 5 * time.Second
)

// breaker is a circuit breaker for claims: it opens after several consecutive failures of the store, and then
// allows one claim for each cooldown to test whether the store is available. So a batch, or a caller of Do, does
// not wait for the timeout of each claim. Settlements are always sent.
type breaker struct {
	// healthy is set while there are no failures and no probe, so that claims do not wait for the mutex.
	healthy atomic.Bool

	mu       sync.Mutex
	failures int
	last     error     // of the last failure
	until    time.Time // the breaker is open until this time; zero: closed
	// until this time one claim probes the store; a probe that is not reported ends after a cooldown
	probing time.Time
}

func newBreaker() *breaker {
	b := &breaker{}
	b.healthy.Store(true)
	return b
}

// health is the state of the store as the answers to a request show it.
type health struct {
	state healthState
	err   error // the failure of a store that is down
}

type healthState uint8

const (
	healthUnknown healthState = iota
	healthUp
	healthDown
)

// allow returns an error while the breaker is open.
func (b *breaker) allow(now time.Time) error {
	if b.healthy.Load() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return nil
	}
	if now.Before(b.until) || now.Before(b.probing) {
		return fmt.Errorf("the circuit breaker is open: %d consecutive requests failed, and one is sent every %v; the last one failed with: %w",
			b.failures, breakerCooldown, b.last)
	}
	b.probing = now.Add(breakerCooldown)
	return nil
}

// report records the result of a claim that was allowed.
func (b *breaker) report(now time.Time, h health) {
	if b.healthy.Load() && h.state != healthDown {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = time.Time{}
	switch h.state {
	case healthUnknown:
	case healthUp:
		b.failures, b.last, b.until = 0, nil, time.Time{}
	case healthDown:
		b.last = h.err
		if b.failures++; b.failures >= breakerFailures {
			b.until = now.Add(breakerCooldown)
		}
	}
	b.healthy.Store(b.failures == 0)
}
