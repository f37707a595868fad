package batch

import (
	"context"
	"sync"

	"github.com/idemsk/idemsk/idem"
)

// group is the items of a batch that share a key. One of them is processed at a time: the first to get here. Others that make
// the same request take its outcome; one with another request then has its own turn. An item waits only for one that is being
// processed, and that one waits for no other of its batch, so that they can't wait for each other.
type group struct {
	mu       sync.Mutex
	busy     chan struct{} // closed when the item in progress has ended; nil if there is none
	outcomes []groupOutcome
}

// request is what two items with one key must have in common to share an outcome. A redriven message does not share that of
// the delivery that failed.
type request struct {
	fingerprint idem.Fingerprint
	redrive     int64
}

func requestOf(t *idem.Task) request {
	return request{fingerprint: t.Fingerprint, redrive: t.Redrive}
}

type groupOutcome struct {
	request request
	outcome idem.Outcome
}

// groupDuplicates lets the items with one key share a group; a key that stands alone needs none.
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

// enter returns the outcome of a request, or false when the caller is to process its item and then leave.
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

// leave lets the next one have its turn, and tells the others the outcome if it is one of the key, not of one message.
func (g *group) leave(r request, out idem.Outcome, shared bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if shared {
		g.outcomes = append(g.outcomes, groupOutcome{request: r, outcome: out})
	}
	close(g.busy)
	g.busy = nil
}
