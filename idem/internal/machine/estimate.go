package machine

import (
	"sync/atomic"
	"time"
)

// Estimate is the latency estimate: a moving average of the time from the start of an item to the return of
// its handler. The zero value has no estimate. It is safe for concurrent use.
type Estimate struct{ ns atomic.Int64 }

// Note adds an item's time. Of two concurrent calls one may be lost.
func (e *Estimate) Note(took time.Duration) {
	last, ns := e.ns.Load(), max(1, int64(took))
	if last == 0 {
		last = ns
	}
	e.ns.Store(last + (ns-last)/8) //nolint:mnd // the weight of a new value
}

// raise makes the estimate at least as long as an item is known to take.
func (e *Estimate) raise(took time.Duration) { e.ns.Store(max(e.ns.Load(), int64(took))) }

// fit returns how many of n items are estimated to begin within the time given, one after another: one if
// there is no estimate.
func (e *Estimate) fit(n int, within time.Duration) int {
	if ns := e.ns.Load(); ns > 0 {
		return max(1, int(min(int64(n), int64(within)/ns)))
	}
	return 1
}
