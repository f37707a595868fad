package schedule

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// driver does the actions of a machine and passes it their answers. It has one lock, one timer, and workers,
// which are started when they are needed. A worker does one action after another, because its stack has
// already grown to the size that a handler needs. The machine bounds how many actions are in progress.
type driver struct {
	scheduler *Scheduler
	session   *idem.Session
	report    func(*Item) // tells the caller the outcome of an item; nil if it isn't told
	finished  chan struct{}

	mu       sync.Mutex
	machine  *machine
	jobs     fifo[action]
	reports  fifo[action]
	workers  int
	idle     int        // workers that wait for a job
	wake     *sync.Cond // wakes an idle worker
	starting bool       // a worker was started or woken, and has not looked for a job
	timer    *time.Timer
	due      time.Time // when timer fires; zero if it is not set
	taken    bool      // an item is being called, and the machine is not told yet
	events   []event   // of a step

	settling sync.Mutex
	settled  []settled // the outcomes that the machine is not told yet; guarded by settling

	release func() bool
}

// newDriver returns the driver of a new machine. The caller must call close.
func newDriver(s *Scheduler, session *idem.Session, once bool, report func(*Item)) *driver {
	d := &driver{scheduler: s, session: session, report: report, finished: make(chan struct{})}
	request := s.engine.PrefetchSize()
	if once {
		request = s.engine.BatchSize()
	}
	d.machine = newMachine(rules{cfg: s.cfg, once: once, request: request, mayWait: s.engine.MaxPrefetchAge(),
		cooldown: s.engine.Config().BreakerCooldown, latency: &s.latency, jitter: jitter, engine: driverEngine{d}})
	d.wake = sync.NewCond(&d.mu)
	d.timer = time.AfterFunc(time.Hour, d.tick)
	d.timer.Stop()
	d.release = context.AfterFunc(session.Handlers(), d.tick)
	return d
}

func jitter(most time.Duration) time.Duration {
	return rand.N(most + 1) //nolint:gosec // jitter needs no cryptographic randomness
}

// close ends the workers that have nothing to do.
func (d *driver) close() {
	d.release()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.machine.closed = true
	d.timer.Stop()
	d.wake.Broadcast()
}

// driverEngine answers what a machine asks.
type driverEngine struct{ d *driver }

// WaitTime implements engine.
func (e driverEngine) WaitTime(it *Item) (time.Duration, bool) {
	return e.d.session.WaitTime(&it.claim)
}

// HandlerDown implements engine.
func (e driverEngine) HandlerDown() (time.Duration, bool) { return e.d.scheduler.engine.HandlerDown() }

// CallSize implements engine: the commit window, rounded down to whole requests of the store, or fewer after a
// call that failed as a whole.
func (e driverEngine) CallSize() int {
	engine := e.d.scheduler.engine
	window, request := engine.Config().CommitWindow, engine.BatchSize()
	return e.d.scheduler.calls.size(window - window%min(window, request))
}

// tick lets the machine do what is due. It runs in a goroutine of its own.
func (d *driver) tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due = time.Time{}
	d.step(tick{})
	d.tell()
}

// step passes an event to the machine, if it is not nil, after the outcomes that wait, and does what follows
// from them; d.mu is held.
func (d *driver) step(e event) {
	if m := d.machine; m.over == nil {
		if err := d.session.Handlers().Err(); err != nil {
			d.perform(m.step(time.Now(), timeUp{err}))
		}
	}
	if d.events = d.events[:0]; d.taken {
		d.taken = false
		d.events = append(d.events, started{})
	}
	d.settling.Lock()
	for _, s := range d.settled {
		d.events = append(d.events, s)
	}
	d.settled = d.settled[:0]
	d.settling.Unlock()
	if e != nil {
		d.events = append(d.events, e)
	}
	d.perform(d.machine.step(time.Now(), d.events...))
	if at := d.machine.alarms.next(); !at.Equal(d.due) {
		if d.due = at; at.IsZero() {
			d.timer.Stop()
		} else {
			d.timer.Reset(time.Until(at))
		}
	}
}

func (d *driver) perform(actions []action) {
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
		case doClaim, doRelease, doCall, doBulk, doAlone, doHold, doLeave:
			d.jobs.push(a)
		}
	}
	d.startWorker(d.jobs.len() > 0)
}

// startWorker wakes or starts a worker if there is work. Only one is being started at a time; it starts the
// next one.
func (d *driver) startWorker(work bool) {
	if d.starting || !work {
		return
	}
	d.starting = true
	if d.idle > 0 {
		d.wake.Signal()
		return
	}
	d.workers++
	go d.work()
}

func (d *driver) work() {
	d.mu.Lock()
	d.starting = false
	defer func() { // deferred, because a handler may end its goroutine
		d.workers--
		d.startWorker(d.jobs.len() > 0)
		d.mu.Unlock()
	}()
	for {
		if d.taken && d.jobs.len() == 0 {
			d.step(nil)
		}
		if d.jobs.len() > 0 {
			job := d.jobs.pop()
			d.startWorker(d.jobs.len() > 0)
			d.do(job)
		}
		d.tell()
		if d.jobs.len() > 0 {
			continue
		}
		if d.machine.closed {
			return
		}
		d.idle++
		d.wake.Wait()
		d.idle--
		d.starting = false
	}
}

// do does a job and passes its answer to the machine. d.mu is held, but not while the job takes time.
func (d *driver) do(job action) {
	switch job.kind {
	case doClaim:
		d.claim(job.items)
	case doRelease:
		d.unclaim(job.items)
	case doCall:
		d.taken = true
		d.startWorker(d.machine.ready())
		d.call(job.item)
	case doBulk:
		d.mu.Unlock()
		d.callBulk(job.items)
		d.mu.Lock()
		d.step(callEnded{})
	case doAlone:
		d.callAlone(job.item)
	case doHold:
		d.hold(job.span)
	case doLeave:
		d.leave(job.span)
	case doReport, doExplain, doFlush, doEnd, doFinish: // see perform
	}
}

// tell tells the caller the outcomes of items. d.mu is held, but not during the calls.
func (d *driver) tell() {
	for d.reports.len() > 0 {
		a := d.reports.pop()
		l := a.item.lane
		if !a.item.removed {
			l.calling = a.item
			d.mu.Unlock()
			d.tellOne(a)
			d.mu.Lock()
			l.calling = nil
			if l.quiet != nil {
				close(l.quiet)
				l.quiet = nil
			}
		}
		d.step(reported{a.item})
	}
}

func (d *driver) tellOne(a action) {
	it := a.item
	if a.kind == doExplain {
		if a.err != nil {
			it.claim.Refuse(a.err)
		}
		it.Outcome = d.session.Run(&it.claim) // does not call the handler
	}
	d.report(it)
}

// claim claims the keys of items, or reads them under the lease of their range.
func (d *driver) claim(items []*Item) {
	claims := make([]*idem.Claim, 0, len(items))
	var looked []*idem.Claim
	for _, it := range items {
		switch s := it.lane.within; {
		case s == nil:
			claims = append(claims, &it.claim)
		case d.machine.once:
			if s.lease.Held() {
				it.claim.Enter(s.lease)
			}
			claims = append(claims, &it.claim)
		case s.byKey:
			it.claim.Enter(nil)
			claims = append(claims, &it.claim)
		default:
			it.claim.Position, it.claim.ByKey = it.Position, it.replaced
			it.claim.Enter(s.lease)
			looked = append(looked, &it.claim)
		}
	}
	d.mu.Unlock()
	d.session.LookUp(looked)
	for _, claim := range looked {
		if !claim.ByPartition() {
			claims = append(claims, claim)
		}
	}
	d.session.Claim(claims)
	d.mu.Lock()
	for _, it := range items {
		it.answer = d.answer(it)
	}
	d.step(claimsAnswered{items})
}

// answer returns the answer to an item's claim.
func (d *driver) answer(it *Item) answer {
	err := it.claim.Err()
	down := errors.Is(err, idem.ErrStoreUnavailable)
	open := down && d.scheduler.engine.FailsOpen(err)
	return answer{state: it.claim.State(), delayed: it.claim.Delayed(), lost: it.claim.LeaseLost(),
		down: down && !open, open: open, failed: it.claim.State() == store.Claimed && it.claim.FailedBefore()}
}

// unclaim releases the claims of items.
func (d *driver) unclaim(items []*Item) {
	claims := make([]*idem.Claim, len(items))
	for i, it := range items {
		claims[i] = &it.claim
	}
	d.mu.Unlock()
	d.session.Release(claims)
	d.mu.Lock()
	d.step(released{items})
}

var errExited = errors.New("the handler ended its goroutine (runtime.Goexit): the key stays claimed until its lease is over")

// call runs an item.
func (d *driver) call(it *Item) {
	d.run(it, func() {
		if it.Unprotected {
			d.tried(it, d.session.RunUnprotected(&it.claim.Task), false)
			return
		}
		d.session.RunAsync(&it.claim, func(out idem.Outcome, more bool) { d.tried(it, out, more) })
	})
}

// run calls f, which runs an item and ends when its handler has returned. A handler may end its goroutine.
func (d *driver) run(it *Item, f func()) {
	began, alone, exited := time.Now(), d.machine.calls.alone, true
	d.mu.Unlock()
	defer func() {
		if exited {
			d.tried(it, idem.Outcome{Kind: idem.Retry, Err: errExited}, false)
		}
		if took := time.Since(began); !alone {
			it.lane.latency.note(took)
			d.scheduler.latency.note(took)
		}
		d.mu.Lock()
		d.step(returned{it})
	}()
	f()
	exited = false
}

// callAlone takes a key over and runs its item.
func (d *driver) callAlone(it *Item) {
	if d.scheduler.cfg.Bulk != nil {
		defer d.step(callEnded{}) // deferred, because a handler may end its goroutine
	}
	d.mu.Unlock()
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
		d.mu.Unlock()
		d.callBulk([]*Item{it})
		d.mu.Lock()
	default:
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
	refused := it.refuse(&out)
	again := refused && it.replace()
	if it.again = again; !refused {
		it.Outcome = out
	}
	d.settling.Lock()
	d.settled = append(d.settled, settled{it})
	d.settling.Unlock()
	if more {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.step(nil)
	d.tell()
}

// hold claims the lease of a range.
func (d *driver) hold(s *span) {
	if s.claim == nil {
		lease := &idem.Range{Key: s.key, Source: s.source}
		lease.Lost = func() { go d.lost(s, lease) }
		s.claim = lease
	}
	lease, from := s.claim, s.from
	d.mu.Unlock()
	if d.machine.once {
		d.session.ClaimRanges([]*idem.Range{lease})
	} else {
		d.session.HoldRange(lease, from)
	}
	d.mu.Lock()
	d.step(d.held(s))
}

// held returns the answer to the claim of a range's lease.
func (d *driver) held(s *span) held {
	lease := s.claim
	e := held{span: s, lease: lease, ok: lease.Held(), inFlight: lease.InFlight()}
	if e.ok {
		s.claim = nil
	} else {
		e.err = lease.Err()
		e.open = d.scheduler.engine.FailsOpen(e.err)
		e.down = errors.Is(e.err, idem.ErrStoreUnavailable)
	}
	if e.inFlight {
		e.wait, e.waits = d.session.WaitTime(lease.Lease())
	}
	for _, it := range s.items {
		it.answer = d.answer(it)
		it.answer.kept = it.claim.ByPartition()
	}
	return e
}

func (d *driver) lost(s *span, lease *idem.Range) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.step(leaseLost{s, lease})
	d.tell()
}

// leave releases the lease of a range.
func (d *driver) leave(s *span) {
	lease := s.lease
	d.mu.Unlock()
	if lease != nil {
		d.session.ReleaseRanges(lease)
	}
	d.mu.Lock()
	close(s.left)
}
