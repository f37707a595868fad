//go:build !race

package machine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
type budget struct{ failures, silences, crashes, deliveries, stops, deadlines int }

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
	m      *Machine
	items  []*Item
	dead   bool
	gone   bool    // the lanes that were stopped have not come back
	ended  bool    // its batch has ended
	jobs   []*job  // that its driver has to do
	wanted []*Item // the items of which it was told that they are settled
}

// job is an action that is not answered.
type job struct {
	Action
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
	concurrency := 2
	if w.bulk > 0 {
		concurrency = w.bulk
	}
	p, latency := &proc{world: w}, new(Estimate)
	if w.ahead {
		latency.Note(time.Millisecond)
	}
	partial := 8
	if w.once {
		partial = 0
	}
	p.m = New(Rules{Concurrency: concurrency, Bulk: w.bulk > 0, Once: w.once, Request: w.request, Partial: partial,
		MayWait: 1000 * time.Hour, Window: window, Backoff: time.Second, MaxBackoff: 2 * time.Second, MaxPause: time.Second,
		Latency: latency, Jitter: func(time.Duration) time.Duration { return 0 }, Engine: p})
	w.procs = append(w.procs, p)
	lanes := map[string][]*Item{}
	for _, msg := range w.messages {
		it := newItem(msg)
		p.items, lanes[msg.lane] = append(p.items, it), append(lanes[msg.lane], it)
	}
	if !w.once {
		p.step(Added{p.items})
		return
	}
	all := make([][]*Item, 0, len(lanes))
	for _, name := range slices.Sorted(maps.Keys(lanes)) {
		all = append(all, lanes[name])
	}
	p.step(Given{all})
}

// WaitTime implements engine.
func (p *proc) WaitTime(*Item) (time.Duration, bool) { return time.Second, true }

// HandlerDown implements engine.
func (p *proc) HandlerDown() (time.Duration, bool) { return 0, false }

// CallSize implements engine.
func (p *proc) CallSize() int { return 3 }

// window has room for a full call beside one item.
const window = 4

func (p *proc) step(events ...Event) {
	for _, a := range p.m.Step(p.world.now, events...) {
		switch a.Kind {
		case DoFinish:
			p.ended = true
		case DoFlush, DoEnd, DoShare, DoTell:
		case DoClaim, DoRelease, DoCall, DoBulk, DoAlone, DoReport, DoExplain:
			p.jobs = append(p.jobs, &job{Action: a, begun: len(a.Items)})
		}
	}
	p.checkWaiting()
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
		text += fmt.Sprintf(" %s%d", it.Key, slices.Index(c.proc.items, it))
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
		if w.faults.deadlines > 0 && w.once && !p.m.over {
			add("the time is up", nil, func() { w.faults.deadlines--; p.step(TimeUp{}) })
		}
		if p.gone {
			add("lanes x are there again", nil, func() { p.gone = false; p.addAgain("x") })
		}
		if at := p.m.Next(); !at.IsZero() && !p.m.onlySweeps() {
			add("time passes", nil, func() {
				if at.After(w.now) {
					w.now = at
				}
				p.step(Tick{})
			})
		}
	}
	if w.faults.deliveries > 0 {
		all = append(all, choice{nil, "all is delivered again", nil, func() { w.faults.deliveries--; w.start() }})
	}
	return all
}

// stop stops the lanes whose names begin with a prefix, as when a partition is revoked.
func (p *proc) stop(prefix string) {
	var e Stopped
	for _, name := range slices.Sorted(maps.Keys(p.m.lanes)) {
		if strings.HasPrefix(name, prefix) {
			e.Lanes = append(e.Lanes, p.m.lanes[name])
		}
	}
	p.jobs = slices.DeleteFunc(p.jobs, func(j *job) bool {
		uncalled := j.Kind == DoCall && !j.running && slices.Contains(e.Lanes, j.Item.lane)
		if uncalled {
			e.Uncalled = append(e.Uncalled, j.Item)
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
	p.step(Added{items})
}

func newItem(msg message) *Item {
	return &Item{Lane: msg.lane, Key: msg.key, Request: Request{Fingerprint: store.FingerprintOf([]byte{msg.value})}}
}

func (p *proc) choicesOf(j *job, add func(string, []*Item, func())) {
	w := p.world
	switch j.Kind {
	case DoClaim:
		add("claims answered:", j.Items, func() { p.claim(j, false) })
		if w.faults.silences > 0 {
			add("claims without an answer:", j.Items, func() { w.faults.silences--; p.claim(j, true) })
		}
	case DoRelease:
		add("releases answered:", j.Items, func() {
			for _, it := range j.Items {
				w.keys[it.Key].owner = nil
				w.keys[it.Key].attempts--
			}
			p.finish(j, Released{j.Items})
		})
	case DoReport, DoExplain:
		add("reported:", []*Item{j.Item}, func() {
			if j.Item.End.settled() {
				p.wanted = append(p.wanted, j.Item)
			}
			p.finish(j, Reported{j.Item})
		})
	case DoCall, DoAlone, DoBulk:
		p.choicesOfCall(j, add)
	case DoFlush, DoEnd, DoFinish, DoShare, DoTell:
	}
}

func (p *proc) choicesOfCall(j *job, add func(string, []*Item, func())) {
	w, items := p.world, j.called()
	switch {
	case len(j.failed) > 0:
		add("handler that failed returns:", items, func() { p.returnFailed(j) })
	case j.returned:
		add("completion answered:", items, func() { p.finish(j, p.settle(items, EndSettled)...) })
	case !j.running:
		add("handler called:", items, func() { p.call(j) })
	default:
		add("handler returns:", items, func() { p.returnAll(j) })
		if len(items) > 1 {
			add("the first of a call ends alone:", items[:1], func() {
				j.Items = items[1:]
				p.step(Returned{items[0]})
				p.step(p.settle(items[:1], EndSettled)...)
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
		p.step(Returned{it})
	}
	if j.Kind == DoBulk {
		p.step(CallReturned{})
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
	p.step(p.settle(j.failed[:1], EndFailed)...)
	p.step(p.settle(j.failed[1:], EndBehind)...)
}

// returnFailed lets a call return in which items have failed.
func (p *proc) returnFailed(j *job) {
	failed := j.failed
	j.failed = nil
	left := slices.DeleteFunc(slices.Clone(j.called()), func(it *Item) bool { return slices.Contains(failed, it) })
	var events []Event
	for _, it := range failed {
		events = append(events, Returned{it})
	}
	if len(left) == 0 {
		if j.Kind == DoBulk {
			events = append(events, CallReturned{})
		}
		p.finish(j, events...)
		return
	}
	p.step(events...)
	j.Items = left
	p.returnAll(j)
}

// called returns the items of a call.
func (j *job) called() []*Item {
	if j.Kind == DoBulk {
		return j.Items
	}
	return []*Item{j.Item}
}

// claim answers claims, as a store does.
func (p *proc) claim(j *job, silent bool) {
	for _, it := range j.Items {
		it.Answer = Down
		if !silent {
			it.Answer = p.claimOne(it, it.takesOver)
		}
	}
	p.finish(j, Answered{j.Items})
}

func (p *proc) claimOne(it *Item, takeOver bool) Answer {
	key := p.world.keys[it.Key]
	switch {
	case key.completed:
		return Completed
	case key.owner == nil, key.owner.dead && takeOver:
		key.owner = p
		key.attempts++
		if key.failed {
			return ClaimedAlone
		}
		return Claimed
	case key.owner.dead && key.attempts <= 1:
		return TakeOver
	case key.owner.dead:
		return LeaseOver
	}
	return InFlight
}

// call begins a call, and checks what must hold then.
func (p *proc) call(j *job) {
	if j.Kind == DoAlone {
		j.Item.Answer = p.claimOne(j.Item, true)
		p.checkAlone(j)
	}
	for _, it := range j.called() {
		if it.holds() {
			p.checkOrder(it, j.called())
		}
	}
	switch first := j.called()[0]; first.Answer {
	case Claimed, ClaimedAlone:
		if p.m.late() { // the engine gives the claims back
			var events []Event
			for _, it := range j.called() {
				key := p.world.keys[it.Key]
				key.owner, it.End = nil, EndFailed
				key.attempts--
				events = append(events, Returned{it}, Settled{it})
			}
			if j.Kind == DoBulk {
				events = append(events, CallReturned{})
			}
			p.finish(j, events...)
			return
		}
		j.running = true
		p.checkRuns(j)
	case InFlight, Delayed, LeaseOver, TakeOver: // another process was faster
		first.Again = true
		p.finish(j, Settled{first}, Returned{first})
	case Completed:
		first.End = EndSettled
		p.finish(j, Settled{first}, Returned{first})
	case NoAnswer:
		panic("an item is called without a claim")
	case FailsOpen, Down, Ends:
		first.End = EndFailed
		p.finish(j, Returned{first}, Settled{first})
	}
}

// settle answers the settlements of a call.
func (p *proc) settle(items []*Item, end End) (events []Event) {
	for _, it := range items {
		key := p.world.keys[it.Key]
		if key.owner != p {
			panic("settled without a claim")
		}
		if key.owner = nil; end == EndBehind {
			key.attempts--
		} else {
			key.completed, key.failed = end == EndSettled, end == EndFailed
		}
		it.End = end
		events = append(events, Settled{it})
	}
	return events
}

// finish answers a job.
func (p *proc) finish(j *job, events ...Event) {
	p.jobs = slices.DeleteFunc(p.jobs, func(other *job) bool { return other == j })
	switch {
	case j.Kind == DoBulk:
		events = append(events, CallEnded{j.begun})
	case j.Kind == DoAlone && p.world.bulk > 0:
		events = append(events, CallEnded{1})
	}
	p.step(events...)
}
