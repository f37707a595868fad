//go:build !race

package schedule

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// A world is a few processes with a machine each, and a store. It has no goroutines and no clock: a choice is what
// happens next.

// message is an item that each process gets.
type message struct {
	lane, key string
	value     byte // of the request
}

// smallWorld is what a world begins with.
type smallWorld struct {
	name     string
	messages []message
	once     bool // processes have a batch, not a stream
	bulk     int  // how many calls of a bulk handler are made at once; 0: the handler takes one item
	request  int  // how many claims a request takes
	ahead    bool // handlers are known to be fast, so that items are claimed ahead of them
	faults   budget
}

// budget is how many times each fault may happen.
type budget struct{ failures, silences, crashes, deliveries, stops int }

// world is a state of a small world.
type world struct {
	smallWorld
	now   time.Time
	keys  map[string]*keyState
	procs []*proc
}

// keyState is a key in the store.
type keyState struct {
	owner     *proc
	completed bool
	failed    bool // its last attempt failed
	attempts  int
}

// proc is a process.
type proc struct {
	world  *world
	m      *machine
	items  []*Item
	dead   bool
	gone   bool    // the lanes that were stopped have not come back
	ended  bool    // its batch has ended
	jobs   []*job  // that its driver has to do
	wanted []*Item // the items of which it was told that they are settled
}

// job is an action that is not answered.
type job struct {
	action
	begun    int     // items of a call
	running  bool    // the handler was called
	returned bool    // and has returned; its completions are not answered
	failed   []*Item // whose failure is known; the handler has not returned
}

func newWorld(of smallWorld) *world {
	w := &world{smallWorld: of, now: time.Unix(1_000_000, 0), keys: map[string]*keyState{}}
	for _, msg := range of.messages {
		w.keys[msg.key] = &keyState{}
	}
	w.start()
	return w
}

// start starts a process that gets all messages.
func (w *world) start() {
	cfg := Config{Concurrency: 2, Backoff: time.Second, MaxBackoff: 2 * time.Second}
	if w.bulk > 0 {
		cfg.Concurrency = w.bulk
		cfg.Bulk = func(context.Context, []*Item) ([]Result, error) { return nil, nil }
	}
	p, latency := &proc{world: w}, new(estimate)
	if w.ahead {
		latency.note(time.Millisecond)
	}
	partial := 8
	if w.once {
		partial = 0
	}
	p.m = newMachine(rules{cfg: cfg, once: w.once, request: w.request, partial: partial, mayWait: 1000 * time.Hour,
		window: window, cooldown: time.Second, latency: latency, jitter: func(time.Duration) time.Duration { return 0 }, engine: p})
	w.procs = append(w.procs, p)
	lanes := map[string][]*Item{}
	for _, msg := range w.messages {
		it := newItem(msg)
		p.items, lanes[msg.lane] = append(p.items, it), append(lanes[msg.lane], it)
	}
	if !w.once {
		p.step(added{p.items})
		return
	}
	all := make([][]*Item, 0, len(lanes))
	for _, name := range slices.Sorted(maps.Keys(lanes)) {
		all = append(all, lanes[name])
	}
	p.step(given{all, twinsOf(all)})
}

// WaitTime implements engine.
func (p *proc) WaitTime(*Item) (time.Duration, bool) { return time.Second, true }

// HandlerDown implements engine.
func (p *proc) HandlerDown() (time.Duration, bool) { return 0, false }

// CallSize implements engine.
func (p *proc) CallSize() int { return 3 }

// window has room for a full call beside one item.
const window = 4

func (p *proc) step(events ...event) {
	for _, a := range p.m.step(p.world.now, events...) {
		switch a.kind {
		case doFinish:
			p.ended = true
		case doFlush, doEnd, doTell:
		case doClaim, doRelease, doCall, doBulk, doAlone, doReport, doExplain:
			p.jobs = append(p.jobs, &job{action: a, begun: len(a.items)})
		}
	}
}

// choice is something that may happen next, to some items of a process.
type choice struct {
	proc  *proc
	what  string
	items []*Item
	do    func()
}

func (c choice) String() string {
	if c.proc == nil {
		return c.what
	}
	text := fmt.Sprintf("%d: %s", slices.Index(c.proc.world.procs, c.proc), c.what)
	for _, it := range c.items {
		text += fmt.Sprintf(" %s%d", it.claim.Task.Key, slices.Index(c.proc.items, it))
	}
	return text
}

// choices returns what may happen next. The jobs of a process are done in any order.
func (w *world) choices() (all []choice) {
	for _, p := range w.procs {
		if p.dead {
			continue
		}
		add := func(what string, items []*Item, do func()) { all = append(all, choice{p, what, items, do}) }
		for _, j := range p.jobs {
			p.choicesOf(j, add)
		}
		if w.faults.stops > 0 && !w.once {
			add("lanes x are stopped", nil, func() { w.faults.stops--; p.gone = true; p.stop("x") })
		}
		if p.gone {
			add("lanes x are there again", nil, func() { p.gone = false; p.addAgain("x") })
		}
		if at := p.m.alarms.next(); !at.IsZero() && !p.m.onlySweeps() {
			add("time passes", nil, func() {
				if at.After(w.now) {
					w.now = at
				}
				p.step(tick{})
			})
		}
	}
	if w.faults.deliveries > 0 {
		all = append(all, choice{nil, "all is delivered again", nil, func() { w.faults.deliveries--; w.start() }})
	}
	return all
}

// onlySweeps reports whether no alarm is set but those that release old claims.
func (m *machine) onlySweeps() bool { return len(m.alarms) == 1 && m.claims.sweep.set() }

// stop stops the lanes whose names begin with a prefix, as when a partition is revoked.
func (p *proc) stop(prefix string) {
	var e stopped
	for _, name := range slices.Sorted(maps.Keys(p.m.lanes)) {
		if strings.HasPrefix(name, prefix) {
			e.lanes = append(e.lanes, p.m.lanes[name])
		}
	}
	p.jobs = slices.DeleteFunc(p.jobs, func(j *job) bool {
		uncalled := j.kind == doCall && !j.running && slices.Contains(e.lanes, j.item.lane)
		if uncalled {
			e.uncalled = append(e.uncalled, j.item)
		}
		return uncalled
	})
	p.step(e)
}

// addAgain adds the items of the lanes with a prefix, as when a partition is assigned again.
func (p *proc) addAgain(prefix string) {
	var items []*Item
	for _, msg := range p.world.messages {
		if strings.HasPrefix(msg.lane, prefix) {
			items = append(items, newItem(msg))
		}
	}
	p.items = append(p.items, items...)
	p.step(added{items})
}

func newItem(msg message) *Item {
	it := &Item{Lane: msg.lane, Task: idem.Task{Key: msg.key, Fingerprint: store.FingerprintOf([]byte{msg.value})}}
	it.claim.Task = it.Task
	return it
}

func (p *proc) choicesOf(j *job, add func(string, []*Item, func())) {
	w := p.world
	switch j.kind {
	case doClaim:
		add("claims answered:", j.items, func() { p.claim(j, false) })
		if w.faults.silences > 0 {
			add("claims without an answer:", j.items, func() { w.faults.silences--; p.claim(j, true) })
		}
	case doRelease:
		add("releases answered:", j.items, func() {
			for _, it := range j.items {
				w.keys[it.claim.Task.Key].owner = nil
				w.keys[it.claim.Task.Key].attempts--
			}
			p.finish(j, released{j.items})
		})
	case doReport, doExplain:
		add("reported:", []*Item{j.item}, func() {
			if j.item.Outcome.Kind.Settled() {
				p.wanted = append(p.wanted, j.item)
			}
			p.finish(j, reported{j.item})
		})
	case doCall, doAlone, doBulk:
		p.choicesOfCall(j, add)
	case doFlush, doEnd, doFinish, doTell:
	}
}

func (p *proc) choicesOfCall(j *job, add func(string, []*Item, func())) {
	w, items := p.world, j.called()
	switch {
	case len(j.failed) > 0:
		add("handler that failed returns:", items, func() { p.returnFailed(j) })
	case j.returned:
		add("completion answered:", items, func() { p.finish(j, p.settle(items, idem.Executed)...) })
	case !j.running:
		add("handler called:", items, func() { p.call(j) })
	default:
		add("handler returns:", items, func() { p.returnAll(j) })
		if len(items) > 1 {
			add("the first of a call ends alone:", items[:1], func() {
				j.items = items[1:]
				p.step(returned{items[0]})
				p.step(p.settle(items[:1], idem.Executed)...)
			})
		}
		for n := range items {
			if w.faults.failures > 0 {
				add("handler fails:", items[n:n+1], func() {
					w.faults.failures--
					p.fail(j, n)
				})
			}
		}
		if w.faults.crashes > 0 {
			add("process dies in the handler:", items, func() {
				w.faults.crashes--
				p.dead, p.jobs = true, nil
				w.start()
			})
		}
	}
}

// returnAll lets a handler return that has succeeded, except for those that failed.
func (p *proc) returnAll(j *job) {
	j.returned = true
	for _, it := range j.called() {
		p.step(returned{it})
	}
	if j.kind == doBulk {
		p.step(callReturned{})
	}
}

// fail lets one item of a call fail, and those behind it in its lane with it.
func (p *proc) fail(j *job, n int) {
	items := j.called()
	first := items[n]
	j.failed = []*Item{first}
	for _, it := range items[n+1:] {
		if it.lane == first.lane {
			j.failed = append(j.failed, it)
		}
	}
	p.step(p.settle(j.failed[:1], idem.Retry)...)
	p.step(p.settle(j.failed[1:], idem.Behind)...)
}

// returnFailed lets a call return in which items have failed.
func (p *proc) returnFailed(j *job) {
	failed := j.failed
	j.failed = nil
	left := slices.DeleteFunc(slices.Clone(j.called()), func(it *Item) bool { return slices.Contains(failed, it) })
	var events []event
	for _, it := range failed {
		events = append(events, returned{it})
	}
	if len(left) == 0 {
		if j.kind == doBulk {
			events = append(events, callReturned{})
		}
		p.finish(j, events...)
		return
	}
	p.step(events...)
	j.items = left
	p.returnAll(j)
}

// called returns the items of a call.
func (j *job) called() []*Item {
	if j.kind == doBulk {
		return j.items
	}
	return []*Item{j.item}
}

// claim answers claims, as a store does.
func (p *proc) claim(j *job, silent bool) {
	for _, it := range j.items {
		it.answer = answer{down: true}
		if !silent {
			it.answer = p.claimOne(it, it.takesOver)
		}
	}
	p.finish(j, claimsAnswered{j.items})
}

func (p *proc) claimOne(it *Item, takeOver bool) answer {
	key := p.world.keys[it.claim.Task.Key]
	switch {
	case key.completed:
		return answer{state: store.ClaimCompleted}
	case key.owner == nil, key.owner.dead && takeOver:
		key.owner = p
		key.attempts++
		return answer{state: store.Claimed, failed: key.failed}
	case key.owner.dead:
		return answer{state: store.ClaimLeaseOver, beside: key.attempts <= 1}
	}
	return answer{state: store.ClaimInFlight}
}

// call begins a call, and checks what must hold then.
func (p *proc) call(j *job) {
	if j.kind == doAlone {
		j.item.answer = p.claimOne(j.item, true)
		p.checkAlone(j)
	}
	for _, it := range j.called() {
		if it.answer.state == store.Claimed {
			p.checkOrder(it, j.called())
		}
	}
	switch first := j.called()[0]; first.answer.state {
	case store.Claimed:
		j.running = true
		p.checkRuns(j)
	case store.ClaimInFlight, store.ClaimLeaseOver: // another process was faster
		first.again = true
		p.finish(j, settled{first}, returned{first})
	case store.ClaimCompleted:
		first.Outcome = idem.Outcome{Kind: idem.Replayed}
		p.finish(j, settled{first}, returned{first})
	case store.ClaimUnknown, store.ClaimFailed:
		first.Outcome = idem.Outcome{Kind: idem.StoreDown}
		p.finish(j, returned{first}, settled{first})
	}
}

// settle answers the settlements of a call.
func (p *proc) settle(items []*Item, kind idem.Kind) (events []event) {
	for _, it := range items {
		key := p.world.keys[it.claim.Task.Key]
		if key.owner != p {
			panic("settled without a claim")
		}
		if key.owner = nil; kind == idem.Behind {
			key.attempts--
		} else {
			key.completed, key.failed = kind == idem.Executed, kind == idem.Retry
		}
		it.Outcome = idem.Outcome{Kind: kind}
		events = append(events, settled{it})
	}
	return events
}

// finish answers a job.
func (p *proc) finish(j *job, events ...event) {
	p.jobs = slices.DeleteFunc(p.jobs, func(other *job) bool { return other == j })
	switch {
	case j.kind == doBulk:
		events = append(events, callEnded{j.begun})
	case j.kind == doAlone && p.world.bulk > 0:
		events = append(events, callEnded{1})
	}
	p.step(events...)
}
