package batch

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/idemsk/idemsk/idem"
)

// DefaultConcurrency is the number of items handled at once unless Config says otherwise.
const DefaultConcurrency = 32

// ErrOverrun says that a handler (or what sends the dead letters) had not returned when the run had to end, although its context
// had ended. Its key stays taken until the lease ends.
var ErrOverrun = errors.New("batch: a handler did not return when its context ended")

// ErrBehind says that an item was not tried, because an earlier one of its lane is not settled.
var ErrBehind = errors.New("batch: not tried: an earlier item of its lane is not settled")

// Config configures a Scheduler. Every field's zero value stands for its default.
type Config struct {
	// Concurrency is the number of items handled at once (default DefaultConcurrency).
	Concurrency int
}

// Scheduler runs items through an engine. It learns how long handlers take, so a process has one. It is safe for concurrent use.
type Scheduler struct {
	engine      *idem.Engine
	concurrency int
	latency     estimate
}

// New returns a scheduler. It returns idem.ErrInvalidConfig (wrapped), naming every field at fault.
func New(engine *idem.Engine, cfg Config) (*Scheduler, error) {
	if engine == nil {
		return nil, fmt.Errorf("batch: %w: the engine is nil", idem.ErrInvalidConfig)
	}
	if cfg.Concurrency == 0 {
		cfg.Concurrency = DefaultConcurrency
	}
	if cfg.Concurrency < 0 {
		return nil, fmt.Errorf("batch: %w: Concurrency is %d: want 1 or more", idem.ErrInvalidConfig, cfg.Concurrency)
	}
	return &Scheduler{engine: engine, concurrency: cfg.Concurrency}, nil
}

// Run executes the items of the lanes and returns when each has ended. If ctx has a deadline, it returns before that in any case:
// the items whose handlers have not returned by then are returned, and have the State Overrun. The process should then end.
func (s *Scheduler) Run(ctx context.Context, lanes [][]*Item) (overruns []*Item) {
	session := s.engine.Session(ctx)
	defer session.Close()
	r := newRun(s, session, lanes)
	return r.run()
}

// run is one batch at work.
type run struct {
	scheduler *Scheduler
	session   *idem.Session
	ctx       context.Context // of the session's handlers
	slots     *semaphore.Weighted
	items     int
	lanes     []lane
	prefetch  int // how many claims a lane makes at a time; 1: each when it is its turn
	heads     heads
}

func newRun(s *Scheduler, session *idem.Session, lanes [][]*Item) *run {
	r := &run{
		scheduler: s, session: session, ctx: session.Handlers(),
		slots: semaphore.NewWeighted(int64(s.concurrency)), lanes: make([]lane, 0, len(lanes)),
	}
	for _, items := range lanes {
		if len(items) == 0 {
			continue
		}
		for _, it := range items {
			it.ticket.Task = it.Task
		}
		r.items += len(items)
		r.lanes = append(r.lanes, lane{run: r, items: items})
	}
	groupDuplicates(r.lanes, r.items)
	r.prefetch = r.prefetchSize()
	return r
}

// run starts the lanes and returns when all have ended, or when the time that is left must be kept for the answer although
// some have not.
func (r *run) run() (overruns []*Item) {
	ended := make(chan *lane, len(r.lanes))
	started := r.start(ended)
	giveUp, stop := giveUp(r.session)
	defer stop()
	for range started {
		select {
		case l := <-ended:
			l.done = true
		case <-giveUp:
			return r.abandon()
		}
	}
	return nil
}

// start starts the lanes, each when there is a slot for it, so that a batch of many lanes does not have as many goroutines.
// It returns how many it has started.
//
// A goroutine whose lane has ended takes another one: its stack has grown by then to what a handler and a store's client need.
func (r *run) start(ended chan<- *lane) (started int) {
	next := make(chan *lane)
	defer close(next)
	for i := range r.lanes {
		l := &r.lanes[i]
		if err := r.slots.Acquire(r.ctx, 1); err != nil {
			l.items[0].Outcome, l.done = notStarted(err), true
			continue
		}
		started++
		l.holds = true
		r.prefetchHeads(i)
		select {
		case next <- l:
		default:
			go work(l, next, ended)
		}
	}
	r.heads.wait()
	if started < len(r.lanes) {
		r.giveBack(func(l *lane) bool { return l.done })
	}
	return started
}

// work runs a lane, and then those that come.
func work(l *lane, next <-chan *lane, ended chan<- *lane) {
	for more := true; more; l, more = <-next {
		l.runToEnd(ended)
	}
}

// giveUp fires when the run must return. The session's last context has ended by then, so that whatever heeds its context has
// returned.
func giveUp(session *idem.Session) (<-chan time.Time, func()) {
	at, bounded := session.GiveUpAt()
	if !bounded {
		return nil, func() {}
	}
	timer := time.NewTimer(time.Until(at))
	return timer.C, func() { timer.Stop() }
}

// abandon gives up the lanes that have not ended yet. They still run, so that what has not ended before now is not looked at
// from here on.
func (r *run) abandon() (overruns []*Item) {
	for i := range r.lanes {
		if l := &r.lanes[i]; !l.done {
			overruns = append(overruns, l.abandon()...)
		}
	}
	return overruns
}

func notStarted(err error) idem.Outcome {
	return idem.Outcome{Kind: idem.NotStarted, Err: fmt.Errorf("%w: %w", idem.ErrDeadlineNear, err)}
}

// estimate is how long items have taken of late, from their turn to the return of their handler. The zero value knows nothing.
// It is safe for concurrent use.
type estimate struct{ ns atomic.Int64 }

// note adds an item's time. One of two that are noted at once may be lost.
func (e *estimate) note(took time.Duration) {
	last, ns := e.ns.Load(), max(1, int64(took))
	if last == 0 {
		last = ns
	}
	e.ns.Store(last + (ns-last)/8) //nolint:mnd // smooth enough, and soon enough
}

// fit returns how many of n items will begin within the time given, one after another: one if nothing is known.
func (e *estimate) fit(n int, within time.Duration) int {
	if ns := e.ns.Load(); ns > 0 {
		return max(1, int(min(int64(n), int64(within)/ns)))
	}
	return 1
}
