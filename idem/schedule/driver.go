package schedule

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem"
)

// driver does the actions of a machine and passes it their answers. It has a lock for the machine, one timer,
// and workers. The machine bounds how many actions are in progress.
//
// Thousands of handlers can return at once. Their goroutines do not wait for the lock: they queue their events
// (see pass), and whoever has the lock takes the step.
type driver struct {
	scheduler *Scheduler
	session   *idem.Session
	report    func(*Item) // tells the caller the outcome of an item; nil if it isn't told
	finished  chan struct{}

	workers *workers

	mu      sync.Mutex // released by unlock alone, because others may have queued events
	machine *machine
	reports fifo[action]
	telling bool // a worker is about to tell the reports
	timer   *time.Timer
	due     time.Time // when timer fires; zero if it is not set

	// reused
	events []event  // of a step
	jobs   []action // of a step
	calls  []action // of tell, as ends; both are nil while the calls are made
	ends   []event

	queueing sync.Mutex
	queued   []event // that the machine is not told yet; guarded by queueing

	release func() bool
}

// newDriver returns the driver of a new machine. The caller must call close.
func newDriver(s *Scheduler, session *idem.Session, once bool, report func(*Item)) *driver {
	d := &driver{scheduler: s, session: session, report: report,
		finished: make(chan struct{})}
	partial := s.engine.PartialRequests()
	if once {
		partial = 0
	}
	d.machine = newMachine(rules{cfg: s.cfg, once: once, request: s.engine.BatchSize(), partial: partial,
		mayWait: s.engine.MaxPrefetchAge(), window: s.engine.Config().CommitWindow, cooldown: s.engine.Config().BreakerCooldown,
		latency: &s.latency, jitter: jitter, engine: driverEngine{d}})
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
	d.machine.closed = true
	d.timer.Stop()
	d.workers.close()
}

// driverEngine answers what a machine asks.
type driverEngine struct{ d *driver }

// WaitTime implements engine.
func (e driverEngine) WaitTime(it *Item) (time.Duration, bool) {
	return e.d.session.WaitTime(&it.claim)
}

// HandlerDown implements engine.
func (e driverEngine) HandlerDown() (time.Duration, bool) { return e.d.scheduler.engine.HandlerDown() }

// CallSize implements engine: what the commit window has for each call, rounded down to whole requests of the store
// unless Config.CallItems are less, or fewer after a call that failed as a whole.
func (e driverEngine) CallSize() int {
	cfg, engine := e.d.scheduler.cfg, e.d.scheduler.engine
	size, request := max(1, engine.Config().CommitWindow/cfg.Concurrency), engine.BatchSize()
	if size -= size % min(size, request); cfg.CallItems > 0 {
		size = min(size, cfg.CallItems)
	}
	return e.d.scheduler.calls.size(size)
}

// tick lets the machine do what is due. It runs in a goroutine of its own.
func (d *driver) tick() {
	d.mu.Lock()
	defer d.unlock()
	d.due = time.Time{}
	d.step(tick{})
}

// pass passes events to the machine. It does not wait for the lock.
func (d *driver) pass(events ...event) {
	d.queue(events...)
	d.takeSteps()
}

// queue queues events for the next step.
func (d *driver) queue(events ...event) {
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
func (d *driver) step(events ...event) {
	d.events = d.events[:0]
	if err := d.session.Handlers().Err(); err != nil && d.machine.over == nil {
		d.events = append(d.events, timeUp{err})
	}
	d.queueing.Lock()
	d.events = append(d.events, d.queued...)
	clear(d.queued)
	d.queued = d.queued[:0]
	d.queueing.Unlock()
	if d.events = append(d.events, events...); len(d.events) == 0 {
		return // another goroutine has told them
	}
	d.perform(d.machine.step(time.Now(), d.events...))
	clear(d.events)
	if at := d.machine.alarms.next(); !at.Equal(d.due) {
		if d.due = at; at.IsZero() {
			d.timer.Stop()
		} else {
			d.timer.Reset(time.Until(at))
		}
	}
}

func (d *driver) perform(actions []action) {
	d.jobs = d.jobs[:0]
	for _, a := range actions {
		switch a.kind {
		case doReport, doExplain:
			d.reports.push(a)
		case doFlush:
			d.session.Flush()
		case doEnd:
			if a.lane.ended != nil {
				close(a.lane.ended)
			}
		case doFinish:
			close(d.finished)
		case doClaim, doRelease, doCall, doBulk, doAlone, doTell:
			d.jobs = append(d.jobs, a)
		}
	}
	if d.reports.len() > 0 && !d.telling {
		d.telling = true
		d.jobs = append(d.jobs, action{kind: doTell})
	}
	if len(d.jobs) > 0 {
		d.workers.add(d.jobs...)
		clear(d.jobs)
	}
}

// do does a job and passes its answer to the machine.
func (d *driver) do(job action) {
	switch job.kind {
	case doClaim:
		d.claim(job.items)
	case doRelease:
		d.unclaim(job.items)
	case doCall:
		d.call(job.item)
	case doBulk:
		began := time.Now()
		d.callBulk(job.items, func() {
			d.scheduler.latency.note(time.Since(began))
			d.pass(callReturned{})
		})
		d.pass(callEnded{len(job.items)})
	case doAlone:
		d.callAlone(job.item)
	case doTell:
		d.tell()
	case doReport, doExplain, doFlush, doEnd, doFinish: // see perform
	}
}

// tell tells the caller the outcomes of items, one of each lane, without the lock.
func (d *driver) tell() {
	d.mu.Lock()
	defer d.unlock()
	calls, ends := d.calls[:0], d.ends[:0]
	d.calls, d.ends = nil, nil // another goroutine can tell others meanwhile
	for d.reports.len() > 0 {
		a := d.reports.pop()
		if ends = append(ends, reported{a.item}); !a.item.removed {
			a.item.lane.calling = a.item
			calls = append(calls, a)
		}
	}
	d.telling = false
	d.tellEach(calls)
	for _, a := range calls {
		l := a.item.lane
		l.calling = nil
		if l.quiet != nil {
			close(l.quiet)
			l.quiet = nil
		}
	}
	d.step(ends...)
	clear(calls)
	clear(ends)
	d.calls, d.ends = calls, ends
}

// tellEach does reports without the lock.
func (d *driver) tellEach(calls []action) {
	d.unlock()
	defer d.mu.Lock() // deferred, because the caller's function may panic
	for _, a := range calls {
		d.tellOne(a)
	}
}

func (d *driver) tellOne(a action) {
	it := a.item
	if a.kind == doExplain {
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
			it.lane.latency.note(took)
			d.scheduler.latency.note(took)
		}()
		d.session.RunAsync(&it.claim, func(out idem.Outcome, more bool) { d.tried(it, out, more) })
	})
}

// run calls f, which runs an item and ends when its handler has returned. A handler may end its goroutine.
func (d *driver) run(it *Item, f func()) {
	exited := true
	defer func() {
		if exited {
			d.note(it, idem.Outcome{Kind: idem.Retry, Err: errExited})
		}
		d.pass(returned{it})
	}()
	f()
	exited = false
}

// callAlone takes a key over and runs its item.
func (d *driver) callAlone(it *Item) {
	d.mu.Lock()
	defer d.unlock()
	if d.scheduler.cfg.Bulk != nil {
		defer d.step(callEnded{1}) // deferred, because a handler may end its goroutine
	}
	d.unlock()
	d.session.WaitForCommits()
	it.claim.TakeOver = true
	d.session.Claim([]*idem.Claim{&it.claim})
	it.claim.TakeOver = false
	d.mu.Lock()
	it.answer = d.answer(it)
	switch {
	case it.inFlight(): // another process was faster
		it.again = true
		d.step(settled{it})
		d.step(returned{it})
	case d.scheduler.cfg.Bulk != nil && it.callable():
		d.unlock()
		d.callBulk([]*Item{it}, func() {})
		d.mu.Lock()
	default:
		d.unlock()
		defer d.mu.Lock() // deferred, because a handler may end its goroutine
		d.run(it, func() {
			out := d.session.Run(&it.claim)
			if errors.Is(it.claim.Err(), idem.ErrStoreUnavailable) {
				// The key may have been taken over. Sent again, the claim would recognise itself, and the
				// item would not be alone.
				it.claim = idem.Claim{Task: it.claim.Task}
			}
			d.tried(it, out, false)
		})
	}
}

// tried passes the outcome of an item to the machine, with that of the next one if more follow.
func (d *driver) tried(it *Item, out idem.Outcome, more bool) {
	if d.note(it, out); !more {
		d.takeSteps()
	}
}

// note notes an item's outcome for the next step.
func (d *driver) note(it *Item, out idem.Outcome) {
	refused := it.refuse(&out)
	again := refused && it.replace()
	if it.again = again; !refused {
		it.Outcome = out
	}
	d.queue(settled{it})
}
