package batch

import (
	"context"
	"sync"

	"github.com/idemsk/idemsk/idem"
)

// group is the items of a batch that share a key. At most one of them is processed at a time, in the order of
// arrival. Items that make the same request take its outcome. An item with another request is processed
// afterwards. An item waits only for an item that is being processed, which itself waits for no other item of
// the batch, so there is no deadlock.
type group struct {
	mu       sync.Mutex
	busy     chan struct{} // closed when the item in progress has ended; nil if there is none
	outcomes []groupOutcome
}

// request is compared to decide whether two items with one key share an outcome. A redriven message does not
// share the outcome of the delivery that failed.
type request struct {
	fingerprint idem.Fingerprint
	redrive     int64
}

func requestOf(t *idem.Task) request {
	return request{fingerprint: t.Fingerprint, redrive: t.RedriveToken}
}

type groupOutcome struct {
	request request
	outcome idem.Outcome
}

// groupDuplicates gives the items with the same key a common group. A key that occurs once has no group.
func groupDuplicates(lanes []lane, n int) {
	first := make(map[string]*Item, n)
	for l := range lanes {
		for _, it := range lanes[l].items {
			if it.Unprotected {
				continue
			}
			leader, ok := first[it.Task.Key]
			if !ok {
				first[it.Task.Key] = it
				continue
			}
			if leader.group == nil {
				leader.group = new(group)
			}
			it.group = leader.group
		}
	}
}

// enter returns the outcome of a request, or false if the caller must process its item and then call leave.
func (g *group) enter(ctx context.Context, r request) (idem.Outcome, bool, error) {
	for {
		out, ok, busy := g.look(r)
		if ok || busy == nil {
			return out, ok, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return idem.Outcome{}, false, context.Cause(ctx)
		}
	}
}

func (g *group) look(r request) (out idem.Outcome, ok bool, busy <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.outcomes {
		if g.outcomes[i].request == r {
			return g.outcomes[i].outcome, true, nil
		}
	}
	if g.busy != nil {
		return idem.Outcome{}, false, g.busy
	}
	g.busy = make(chan struct{})
	return idem.Outcome{}, false, nil
}

// leave lets the next item be processed. If shared is set, other items with the same request take the
// outcome.
func (g *group) leave(r request, out idem.Outcome, shared bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if shared {
		g.outcomes = append(g.outcomes, groupOutcome{request: r, outcome: out})
	}
	close(g.busy)
	g.busy = nil
}
