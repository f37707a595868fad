package idem

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/internal/machine"
)

// driver does the actions of a machine and passes it their answers. It has a lock for the machine, one timer,
// and workers. The machine bounds how many actions are in progress.
//
// Thousands of handlers can return at once. Their goroutines do not wait for the lock: they queue their events
// (see pass), and whoever has the lock takes the step.
type driver struct {
	scheduler *Scheduler
	session   *session
	report    func(*Item) // tells the caller the outcome of an item; nil if it isn't told
	finished  chan struct{}

	workers *workers

	mu      sync.Mutex // released by unlock alone, because others may have queued events
	machine *machine.Machine
	reports machine.Queue[machine.Action]
	telling bool // a worker is about to tell the reports
	timer   *time.Timer
	due     time.Time // when timer fires; zero if it is not set

	// reused
	events []machine.Event  // of a step
	jobs   []machine.Action // of a step
	calls  []machine.Action // of tell, as ends; both are nil while the calls are made
	ends   []machine.Event

	queueing sync.Mutex
	queued   []machine.Event // that the machine is not told yet; guarded by queueing

	release func() bool
}

// newDriver returns the driver of a new machine. The caller must call close.
func newDriver(s *Scheduler, session *session, once bool, report func(*Item)) *driver {
	d := &driver{scheduler: s, session: session, report: report,
		finished: make(chan struct{})}
	engine, cfg := s.engine, &s.cfg
	partial := engine.partialRequests()
	if once {
		partial = 0
	}
	d.machine = machine.New(machine.Rules{Concurrency: cfg.Concurrency, Bulk: cfg.Bulk != nil, Once: once,
		Request: engine.batchSize(), Partial: partial, MayWait: engine.maxPrefetchAge(), Window: engine.cfg.CommitWindow,
		Backoff: cfg.Backoff, MaxBackoff: max(cfg.Backoff, maxBackoff), MaxPause: breakerCooldown,
		Latency: &s.latency, Jitter: jitter, Engine: driverEngine{d}})
	d.workers = newWorkers(d.do)
	d.timer = time.AfterFunc(time.Hour, d.tick)
	d.timer.Stop()
	d.release = context.AfterFunc(session.Handlers(), d.tick)
	return d
}

func jitter(most time.Duration) time.Duration {
	return rand.N(most + 1) //nolint:gosec // jitter needs no cryptographic randomness
}

// close ends the goroutines that have nothing to do.
func (d *driver) close() {
	d.release()
	d.mu.Lock()
	defer d.unlock()
	d.machine.Close()
	d.timer.Stop()
	d.workers.close()
}

// driverEngine answers what a machine asks.
type driverEngine struct{ d *driver }

// WaitTime implements machine.Engine.
func (e driverEngine) WaitTime(place *machine.Item) (time.Duration, bool) {
	return e.d.session.WaitTime(&itemOf(place).claim)
}

// HandlerDown implements machine.Engine.
func (e driverEngine) HandlerDown() (time.Duration, bool) { return e.d.scheduler.engine.handlerDown() }

// CallSize implements machine.Engine: what the commit window has for each call, rounded down to whole requests of
// the store unless Config.CallItems are less, or fewer after a call that failed as a whole.
func (e driverEngine) CallSize() int {
	cfg, engine := &e.d.scheduler.cfg, e.d.scheduler.engine
	size, request := max(1, engine.cfg.CommitWindow/cfg.Concurrency), engine.batchSize()
	if size -= size % min(size, request); cfg.CallItems > 0 {
		size = min(size, cfg.CallItems)
	}
	return e.d.scheduler.calls.size(size)
}

// itemsOf returns what the driver has for items of its machine.
func itemsOf(places []*machine.Item) []*Item {
	items := make([]*Item, len(places))
	for i, place := range places {
		items[i] = itemOf(place)
	}
	return items
}

// tick lets the machine do what is due. It runs in a goroutine of its own.
func (d *driver) tick() {
	d.mu.Lock()
	defer d.unlock()
	d.due = time.Time{}
	d.step(machine.Tick{})
}

// pass passes events to the machine. It does not wait for the lock.
func (d *driver) pass(events ...machine.Event) {
	d.queue(events...)
	d.takeSteps()
}

// queue queues events for the next step.
func (d *driver) queue(events ...machine.Event) {
	d.queueing.Lock()
	defer d.queueing.Unlock()
	d.queued = append(d.queued, events...)
}

// takeSteps takes steps for the events that are queued, unless another goroutine has the lock or waits for it,
// which will.
func (d *driver) takeSteps() {
	for d.behind() && d.mu.TryLock() {
		d.step()
		d.mu.Unlock()
	}
}

func (d *driver) behind() bool {
	d.queueing.Lock()
	defer d.queueing.Unlock()
	return len(d.queued) > 0
}

// unlock releases d.mu, and takes the steps for events that were queued meanwhile.
func (d *driver) unlock() {
	d.mu.Unlock()
	d.takeSteps()
}

// step passes events to the machine, after those that are queued, and does what follows from them; d.mu is
// held.
func (d *driver) step(events ...machine.Event) {
	d.events = d.events[:0]
	if d.session.handlers.Err() != nil && !d.machine.Over() {
		d.events = append(d.events, machine.TimeUp{})
	}
	d.queueing.Lock()
	d.events = append(d.events, d.queued...)
	clear(d.queued)
	d.queued = d.queued[:0]
	d.queueing.Unlock()
	if d.events = append(d.events, events...); len(d.events) == 0 {
		return // another goroutine has told them
	}
	d.perform(d.machine.Step(time.Now(), d.events...))
	clear(d.events)
	if at := d.machine.Next(); !at.Equal(d.due) {
		if d.due = at; at.IsZero() {
			d.timer.Stop()
		} else {
			d.timer.Reset(time.Until(at))
		}
	}
}

func (d *driver) perform(actions []machine.Action) {
	d.jobs = d.jobs[:0]
	for _, a := range actions {
		switch a.Kind {
		case machine.DoShare:
			to := itemOf(a.Item)
			to.Outcome, to.Duplicate = itemOf(a.From).Outcome, true
		case machine.DoReport, machine.DoExplain:
			d.reports.Push(a)
		case machine.DoFlush:
			d.session.Flush()
		case machine.DoEnd:
			if a.Lane.Ended != nil {
				close(a.Lane.Ended)
			}
		case machine.DoFinish:
			close(d.finished)
		case machine.DoClaim, machine.DoRelease, machine.DoCall, machine.DoBulk, machine.DoAlone, machine.DoTell:
			d.jobs = append(d.jobs, a)
		}
	}
	if d.reports.Len() > 0 && !d.telling {
		d.telling = true
		d.jobs = append(d.jobs, machine.Action{Kind: machine.DoTell})
	}
	if len(d.jobs) > 0 {
		d.workers.add(d.jobs...)
		clear(d.jobs)
	}
}

// do does a job and passes its answer to the machine.
func (d *driver) do(job machine.Action) {
	switch job.Kind {
	case machine.DoClaim:
		d.claim(job.Items)
	case machine.DoRelease:
		d.unclaim(job.Items)
	case machine.DoCall:
		d.call(itemOf(job.Item))
	case machine.DoBulk:
		began := time.Now()
		d.callBulk(itemsOf(job.Items), func() {
			d.scheduler.latency.Note(time.Since(began))
			d.pass(machine.CallReturned{})
		})
		d.pass(machine.CallEnded{Items: len(job.Items)})
	case machine.DoAlone:
		d.callAlone(itemOf(job.Item))
	case machine.DoTell:
		d.tell()
	case machine.DoShare, machine.DoReport, machine.DoExplain, machine.DoFlush, machine.DoEnd, machine.DoFinish: // see perform
	}
}

// tell tells the caller the outcomes of items, one of each lane, without the lock.
func (d *driver) tell() {
	d.mu.Lock()
	defer d.unlock()
	calls, ends := d.calls[:0], d.ends[:0]
	d.calls, d.ends = nil, nil // another goroutine can tell others meanwhile
	for d.reports.Len() > 0 {
		a := d.reports.Pop()
		if ends = append(ends, machine.Reported{Item: a.Item}); !a.Item.Removed() {
			a.Item.In().Reporting = a.Item
			calls = append(calls, a)
		}
	}
	d.telling = false
	d.tellEach(calls)
	for _, a := range calls {
		l := a.Item.In()
		l.Reporting = nil
		if l.Quiet != nil {
			close(l.Quiet)
			l.Quiet = nil
		}
		if it := itemOf(a.Item); a.Kind == machine.DoExplain || !it.Outcome.Kind.Settled() {
			it.retask()
		}
	}
	d.step(ends...)
	clear(calls)
	clear(ends)
	d.calls, d.ends = calls, ends
}

// tellEach does reports without the lock.
func (d *driver) tellEach(calls []machine.Action) {
	d.unlock()
	defer d.mu.Lock() // deferred, because the caller's function may panic
	for _, a := range calls {
		d.tellOne(a)
	}
}

func (d *driver) tellOne(a machine.Action) {
	it := itemOf(a.Item)
	if a.Kind == machine.DoExplain {
		it.Outcome = d.session.Run(&it.claim) // does not call the handler
	}
	d.report(it)
}

var errExited = errors.New("the handler ended its goroutine (runtime.Goexit): the key stays claimed until its lease is over")

// call runs an item.
func (d *driver) call(it *Item) {
	began := time.Now()
	d.run(it, func() {
		defer func() {
			took := time.Since(began)
			it.place.In().Latency.Note(took)
			d.scheduler.latency.Note(took)
		}()
		d.session.RunAsync(&it.claim, func(out Outcome, more bool) { d.tried(it, out, more) })
	})
}

// run calls f, which runs an item and ends when its handler has returned. A handler may end its goroutine.
func (d *driver) run(it *Item, f func()) {
	exited := true
	defer func() {
		if exited {
			d.note(it, Outcome{Kind: Retry, Err: errExited})
		}
		d.pass(machine.Returned{Item: &it.place})
	}()
	f()
	exited = false
}

// callAlone takes a key over and runs its item.
func (d *driver) callAlone(it *Item) {
	d.mu.Lock()
	defer d.unlock()
	if d.scheduler.cfg.Bulk != nil {
		defer d.step(machine.CallEnded{Items: 1}) // deferred, because a handler may end its goroutine
	}
	d.unlock()
	d.session.WaitForCommits()
	it.claim.TakeOver = true
	d.session.Claim([]*claim{&it.claim})
	it.claim.TakeOver = false
	d.mu.Lock()
	it.place.Answer = d.answer(it)
	switch {
	case it.place.IsInFlight(): // another process was faster
		it.place.Again = true
		d.step(machine.Settled{Item: &it.place})
		d.step(machine.Returned{Item: &it.place})
	case d.scheduler.cfg.Bulk != nil && it.place.Callable():
		d.unlock()
		d.callBulk([]*Item{it}, func() {})
		d.mu.Lock()
	default:
		d.unlock()
		defer d.mu.Lock() // deferred, because a handler may end its goroutine
		d.run(it, func() {
			out := d.session.Run(&it.claim)
			if errors.Is(it.claim.Err(), ErrStoreUnavailable) {
				// The key may have been taken over. Sent again, the claim would recognise itself, and the
				// item would not be alone.
				it.claim = claim{Task: it.claim.Task}
			}
			d.tried(it, out, false)
		})
	}
}

// tried passes the outcome of an item to the machine, with that of the next one if more follow.
func (d *driver) tried(it *Item, out Outcome, more bool) {
	if d.note(it, out); !more {
		d.takeSteps()
	}
}

// note notes an item's outcome for the next step.
func (d *driver) note(it *Item, out Outcome) {
	refused := it.refuse(&out)
	again := refused && it.replace()
	if it.place.Again = again; !refused {
		it.Outcome = out
	}
	it.end()
	d.queue(machine.Settled{Item: &it.place})
}
