//go:build !race

package machine

import (
	"fmt"
	"slices"
)

// checkAlone checks rule 7: nothing else is in progress or claimed.
func (p *proc) checkAlone(j *job) {
	for _, other := range p.jobs {
		if other != j && (other.running && !other.returned || other.Kind == DoClaim || other.Kind == DoRelease) {
			panic(fmt.Sprintf("an item is taken over beside %+v", other.Action))
		}
	}
	for key, state := range p.world.keys {
		held := state.owner == p && key != j.Item.Key
		completing := slices.ContainsFunc(p.jobs, func(other *job) bool { return other.returned })
		if held && !completing {
			panic("an item is taken over beside a claim of " + key)
		}
	}
}

// checkOrder checks that the items before one in its lane are settled, or will be without their handlers, or are in
// its call.
func (p *proc) checkOrder(it *Item, call []*Item) {
	for _, other := range p.items {
		if other == it {
			return
		}
		over := other.open && other.returned || other.End.settled() || other.phase == sharing ||
			other.Answer == Completed || slices.Contains(call, other)
		if other.lane == it.lane && !over {
			panic("an item is called before an earlier one of its lane")
		}
	}
}

// checkWaiting checks that nothing is claimed behind an item that waits for an item of another lane: two lanes would
// wait for each other.
func (p *proc) checkWaiting() {
	for l := range p.m.each {
		if l.state == laneWaiting && slices.ContainsFunc(l.queue, func(it *Item) bool { return it.phase == claimed }) {
			panic("a claim is kept behind an item that waits for another lane")
		}
	}
}

// checkRuns checks that no more calls are made at once than may be, and that no lane has items in two of them.
func (p *proc) checkRuns(j *job) {
	calls := 0
	for _, other := range p.jobs {
		if !other.running || other.returned {
			continue
		}
		calls++
		for _, it := range other.called() {
			if other != j && slices.ContainsFunc(j.called(), func(own *Item) bool { return own.lane == it.lane }) && !it.returned {
				panic("a lane has items in two calls")
			}
		}
	}
	if calls > p.m.Concurrency {
		panic(fmt.Sprintf("%d calls at once", calls))
	}
	if open := p.openItems(); j.Kind == DoBulk && open > max(window, j.begun) {
		panic(fmt.Sprintf("a call beside others: %d items", open))
	}
}

// openItems returns how many items calls of a bulk handler have whose completions are not all answered.
func (p *proc) openItems() (n int) {
	for _, j := range p.jobs {
		if j.Kind == DoBulk {
			n += j.begun
		}
	}
	return n
}

// check checks what must hold when nothing is left to happen.
func (w *world) check() {
	for n, p := range w.procs {
		if p.dead {
			continue
		}
		switch {
		case w.once && !p.ended:
			panic(fmt.Sprintf("process %d waits for ever", n))
		case !w.once && slices.ContainsFunc(p.items, func(it *Item) bool {
			return !it.lane.stopped && !slices.Contains(p.wanted, it)
		}):
			panic(fmt.Sprintf("process %d has settled %d of %d items", n, len(p.wanted), len(p.items)))
		case p.m.Leftover() != "":
			panic(fmt.Sprintf("process %d has left %s", n, p.m.Leftover()))
		}
	}
	for key, state := range w.keys {
		if state.owner != nil && !state.owner.dead {
			panic("nobody will settle " + key)
		}
	}
}

// onlySweeps reports whether no alarm is set but those that release old claims.
func (m *Machine) onlySweeps() bool { return len(m.alarms) == 1 && m.claims.sweep.set() }
