package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/idemsk/idemsk/idem"
)

// The defaults of a Config.
const (
	DefaultConcurrency = 32
	DefaultBackoff     = 500 * time.Millisecond
	DefaultMaxBackoff  = time.Minute
)

// ErrOverrun means that a handler or a dead-letter sink had not returned when the run ended, although its
// context had ended. The key stays claimed until the lease ends.
var ErrOverrun = errors.New("batch: a handler did not return when its context ended")

// ErrBehind means that an item was not tried, because an earlier item of its lane is not settled.
var ErrBehind = errors.New("batch: not tried: an earlier item of its lane is not settled")

// Config configures a Scheduler. Every field's zero value stands for its default.
type Config struct {
	// Concurrency is the number of items handled at once (default DefaultConcurrency).
	Concurrency int
	// Backoff is the time before an item of a Stream is tried for the second time (default DefaultBackoff).
	// It doubles with each try, up to MaxBackoff (default DefaultMaxBackoff), less a random part of up to a
	// half. An item whose handler failed also waits for idem.Config.RetryDelay.
	Backoff    time.Duration
	MaxBackoff time.Duration
}

func (c Config) withDefaults() Config {
	c.Concurrency = cmp.Or(c.Concurrency, DefaultConcurrency)
	c.Backoff = cmp.Or(c.Backoff, DefaultBackoff)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, max(c.Backoff, DefaultMaxBackoff))
	return c
}

func (c Config) validate() error {
	if c.Concurrency < 0 || c.Backoff < 0 || c.MaxBackoff < c.Backoff {
		return fmt.Errorf("batch: %w: Concurrency is %d, Backoff %v, MaxBackoff %v: want a Concurrency of 1 or more, and 0 < Backoff <= MaxBackoff",
			idem.ErrInvalidConfig, c.Concurrency, c.Backoff, c.MaxBackoff)
	}
	return nil
}

// pauseFor returns how long an item waits after the nth try (from 1).
func (c Config) pauseFor(n int) time.Duration {
	d := c.Backoff
	for ; n > 1 && d < c.MaxBackoff; n-- {
		d *= 2
	}
	d = min(d, c.MaxBackoff)
	return d/2 + rand.N(d/2+1) //nolint:gosec // jitter needs no cryptographic randomness
}

// Scheduler runs items through an engine. It estimates the latency of handlers, so a process should have one.
// It is safe for concurrent use.
type Scheduler struct {
	engine  *idem.Engine
	cfg     Config
	latency estimate
	calls   callSizes // of bulk handlers
}

// New returns a scheduler. It returns idem.ErrInvalidConfig (wrapped), which names every invalid field.
func New(engine *idem.Engine, cfg Config) (*Scheduler, error) {
	if engine == nil {
		return nil, fmt.Errorf("batch: %w: the engine is nil", idem.ErrInvalidConfig)
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Scheduler{engine: engine, cfg: cfg}, nil
}

// Run executes the items of the lanes and returns when each has ended. If ctx has a deadline, Run returns
// before it in any case. It then returns the items whose handlers have not returned, which have the State
// Overrun. The process should then end.
//
// The leases of ranges hold their items: they are claimed first, and released at the end. Items of the lanes
// that belong to no range are claimed by their keys.
func (s *Scheduler) Run(ctx context.Context, lanes [][]*Item, ranges ...Range) (overruns []*Item) {
	session := s.engine.Session(ctx)
	defer session.Close()
	r := newRun(s, session, lanes)
	leases := claimRanges(session, ranges, func(it *Item) bool { return it.group != nil })
	for overruns = r.run(); len(overruns) == 0 && len(ranges) == 0; overruns = r.run() {
		if lanes = r.heldBack(); len(lanes) == 0 {
			break
		}
		r = newRun(s, session, lanes)
	}
	if len(overruns) > 0 {
		leases.abandon()
	} else {
		leases.release()
	}
	return overruns
}

// heldBack returns what is left of the lanes that an outage of what the handler needs has held back, if it
// has ended.
func (r *run) heldBack() (lanes [][]*Item) {
	if _, down := r.scheduler.engine.HandlerDown(); down {
		return nil
	}
	for i := range r.lanes {
		items := r.lanes[i].items
		first := slices.IndexFunc(items, func(it *Item) bool { return !it.Settled() })
		if first < 0 || !items[first].heldBack() {
			continue
		}
		for _, it := range items[first:] {
			it.reset()
		}
		lanes = append(lanes, items[first:])
	}
	return lanes
}

// run is one call of Scheduler.Run.
type run struct {
	scheduler  *Scheduler
	session    *idem.Session
	ctx        context.Context // of the session's handlers
	slots      *semaphore.Weighted
	items      int
	lanes      []lane
	prefetch   int // how many claims a lane sends at a time; 1: no prefetch
	prefetcher prefetcher
	working    atomic.Int64 // lanes whose handlers have not all returned
}

func newRun(s *Scheduler, session *idem.Session, lanes [][]*Item) *run {
	r := &run{
		scheduler: s, session: session, ctx: session.Handlers(),
		slots: semaphore.NewWeighted(int64(s.cfg.Concurrency)), lanes: make([]lane, 0, len(lanes)),
	}
	for _, items := range lanes {
		if len(items) == 0 {
			continue
		}
		for _, it := range items {
			it.claim.Task = it.Task
		}
		r.items += len(items)
		r.lanes = append(r.lanes, lane{run: r, items: items})
	}
	r.working.Store(int64(len(r.lanes)))
	groupDuplicates(r.lanes, r.items)
	r.prefetch = r.prefetchSize()
	return r
}

// run starts the lanes and returns when all have ended, or when the caller must answer although some have not
// ended.
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

// start starts each lane when there is a slot for it, so that the number of goroutines is bounded by the
// slots and not by the lanes. It returns how many lanes it has started.
//
// A goroutine whose lane has ended takes another lane, because its stack has already grown to the size that a
// handler needs.
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
		r.prefetchFirst(i)
		select {
		case next <- l:
		default:
			go work(l, next, ended)
		}
	}
	r.prefetcher.wait()
	if started < len(r.lanes) {
		r.releaseClaims(func(l *lane) bool { return l.done })
	}
	return started
}

// work runs a lane, and then further lanes from next.
func work(l *lane, next <-chan *lane, ended chan<- *lane) {
	for more := true; more; l, more = <-next {
		l.runToEnd(ended)
	}
}

// giveUp returns a channel that fires when the run must return. The session's last context has ended by then,
// so handlers that observe their context have returned.
func giveUp(session *idem.Session) (<-chan time.Time, func()) {
	at, bounded := session.GiveUpAt()
	if !bounded {
		return nil, func() {}
	}
	timer := time.NewTimer(time.Until(at))
	return timer.C, func() { timer.Stop() }
}

// abandon marks the lanes that have not ended as overruns. Their goroutines still run, so their items are not
// read any more.
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

// estimate is the latency estimate: a moving average of the time from the start of an item to the return of
// its handler. The zero value has no estimate. It is safe for concurrent use.
type estimate struct{ ns atomic.Int64 }

// note adds an item's time. Of two concurrent calls one may be lost.
func (e *estimate) note(took time.Duration) {
	last, ns := e.ns.Load(), max(1, int64(took))
	if last == 0 {
		last = ns
	}
	e.ns.Store(last + (ns-last)/8) //nolint:mnd // the weight of a new value
}

// raise makes the estimate at least as long as an item is known to take.
func (e *estimate) raise(took time.Duration) { e.ns.Store(max(e.ns.Load(), int64(took))) }

// fit returns how many of n items are estimated to begin within the time given, one after another: one if
// there is no estimate.
func (e *estimate) fit(n int, within time.Duration) int {
	if ns := e.ns.Load(); ns > 0 {
		return max(1, int(min(int64(n), int64(within)/ns)))
	}
	return 1
}
