package idem

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// The circuit breaker of claims.
const (
	BreakerFailures = breakerFailures
	BreakerCooldown = breakerCooldown
)

// What the tests of this package use beside the exported names.
type (
	Session   = session
	Claim     = claim
	Begun     = begun
	JointCall = jointCall
)

// BatchSize is batchSize.
func (e *Engine) BatchSize() int { return e.batchSize() }

// HandlerDown is handlerDown.
func (e *Engine) HandlerDown() (time.Duration, bool) { return e.handlerDown() }

// Session is newSession.
func (e *Engine) Session(ctx context.Context) *Session { return e.newSession(ctx) }

// Leftover describes what a stream keeps although none of its items is in progress; "" if there is nothing.
func (st *Stream) Leftover() string {
	d := st.driver
	d.mu.Lock()
	defer d.unlock()
	d.workers.mu.Lock()
	defer d.workers.mu.Unlock()
	left := d.machine.Leftover()
	if busy := d.workers.busy; busy > 0 {
		left += fmt.Sprintf(", %d workers", busy)
	}
	return left
}

// HoldWorkers lets a stream have no other goroutine than those that it has, until the function is called.
func (st *Stream) HoldWorkers() (goOn func()) {
	w := st.driver.workers
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starting = true
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.starting = false
		w.start()
	})
}
