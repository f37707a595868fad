package replay

import (
	"sync"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/metrics"
)

// tally collects what a function prints for a delivery.
type tally struct {
	mu      sync.Mutex
	batches []metrics.Outcomes
}

// line takes a line of the function's standard output.
func (t *tally) line(line []byte) {
	if o, ok := metrics.Parse(line); ok {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.batches = append(t.batches, o)
	}
}

// take returns what was printed since the last call.
func (t *tally) take() []metrics.Outcomes {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.batches
	t.batches = nil
	return taken
}
