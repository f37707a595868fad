package schedule

import "time"

// machine decides what a scheduler does: which items are claimed, which handlers are called, which claims are
// released, and when. It has no goroutines and no locks, and does no I/O. Time and random numbers are its driver's
// (rules). [machine.step] takes the time and events, and returns the actions that follow from them. What waits is
// driver.go, which does the actions and passes their answers back as events.
//
// An item takes these steps, each in the file of that name:
//
//	added ─▶ claimed (claims.go) ─▶ called (calls.go) ─▶ concluded (conclude.go) ─▶ reported (lane.go)
//
// keys.go has the rules for items with one key, and outages.go those for an outage of what handlers need.
type machine struct {
	rules
	now     time.Time
	actions []action

	lanes   map[string]*lane // by name; of a stream, those that are not stopped
	all     []*lane          // of a batch
	live    int              // lanes that have not ended
	added   uint64           // items
	queued  int              // items that have not begun
	touched fifo[*lane]      // to be looked at
	closed  bool             // nothing begins any more, because the stream was closed
	over    error            // nothing begins any more, because the time of handlers has ended
	flushed bool             // see flush

	keys   map[string]*Item   // the item that uses each key: it is claimed, or in progress
	twins  map[string][]*Item // of a batch: the items that have ended of each key that occurs more than once
	calls  calls
	claims claims
	outage outage
	alarms alarms
}

// rules are what a machine is configured with.
type rules struct {
	cfg      Config
	once     bool          // a batch: an item that is not settled ends its lane, and is not tried again
	request  int           // how many claims a request of the store takes
	partial  int           // see idem.Engine.PartialRequests; 0 for a batch
	mayWait  time.Duration // how long a claim may wait for its handler to begin
	window   int           // see idem.Config.CommitWindow
	cooldown time.Duration // of the circuit breaker
	latency  *estimate     // of handlers
	engine   engine
	// jitter returns a random time of at most d
	jitter func(d time.Duration) time.Duration
}

// engine is what a machine asks, which needs no I/O.
type engine interface {
	// WaitTime returns how long to wait before an item's key, which is in flight elsewhere, is claimed again;
	// false if the item ends with that.
	WaitTime(it *Item) (time.Duration, bool)
	// HandlerDown reports whether there is an outage of what handlers need, and how long none may be called.
	HandlerDown() (wait time.Duration, down bool)
	// CallSize returns how many items the next call of a bulk handler gets at most.
	CallSize() int
}

// bulk reports whether a handler takes many items in a call.
func (r *rules) bulk() bool { return r.cfg.Bulk != nil }

// pauseFor returns how long an item waits after the nth try (from 1), if that is at most a time.
func (r *rules) pauseFor(n int, most time.Duration) time.Duration {
	d := r.cfg.Backoff
	for ; n > 1 && d < most; n-- {
		d *= 2
	}
	d = min(d, most)
	return d/2 + r.jitter(d/2)
}

func newMachine(r rules) *machine {
	m := &machine{rules: r, lanes: make(map[string]*lane), keys: make(map[string]*Item)}
	m.claims.pause.of = ringFunc(func() {}) // advance follows
	m.claims.sweep.of = ringFunc(m.sweepClaims)
	m.outage.next.of = ringFunc(func() {})
	return m
}

// event is what has happened. Its apply is in the file about what it is about.
type event interface{ apply(m *machine) }

// action is what a driver is to do. Its kind says which of the other fields are set.
type action struct {
	kind  actionKind
	item  *Item
	items []*Item
	lane  *lane
}

type actionKind uint8

const (
	doClaim   actionKind = iota // claim the keys of items; the answer is claimsAnswered
	doRelease                   // release the claims of items; the answer is released
	doCall                      // run item; the answers are returned and settled
	doBulk                      // call a bulk handler for items; the answers are those of doCall, callReturned and callEnded
	doAlone                     // take the key of item over and run it; the answers are returned and settled
	doReport                    // tell the caller item's outcome; the answer is reported
	doExplain                   // doReport of an item that can't be claimed
	doFlush                     // send the completions that wait for others, because none follows soon
	doEnd                       // tell who waits for it that lane has ended
	doFinish                    // the batch has ended
	doTell                      // of the driver: tell the reports
)

// step applies events and returns what is to be done. The slice is valid until the next step.
func (m *machine) step(now time.Time, events ...event) []action {
	clear(m.actions)
	m.now, m.actions = now, m.actions[:0]
	for _, e := range events {
		e.apply(m)
	}
	m.advance()
	return m.actions
}

func (m *machine) do(a action) { m.actions = append(m.actions, a) }

// advance decides what can be done now.
func (m *machine) advance() {
	for {
		for m.touched.len() > 0 {
			m.touched.pop().schedule()
		}
		isolated := m.isolating()
		m.sendReleases()
		m.sendClaims()
		m.beginCalls()
		m.endHeld()
		if m.touched.len() == 0 && isolated == m.isolating() {
			m.flush()
			return
		}
	}
}

// each yields the lanes that have not ended and were not stopped by the caller of a stream.
func (m *machine) each(yield func(*lane) bool) {
	for _, l := range m.lanes {
		if !yield(l) {
			return
		}
	}
	for _, l := range m.all {
		if !l.over && !yield(l) {
			return
		}
	}
}

// ended reports whether nothing may begin any more.
func (m *machine) ended() bool { return m.closed || m.over != nil }

// flush sends the completions of a batch that wait for others when no handler follows.
func (m *machine) flush() {
	if len(m.all) > 0 && m.queued == 0 && m.calls.running == 0 && !m.flushed {
		m.flushed = true
		m.do(action{kind: doFlush})
	}
}

// added is new items of a stream. Those of a lane are in order.
type added struct{ items []*Item }

func (e added) apply(m *machine) {
	if m.closed {
		return
	}
	for _, it := range e.items {
		l := m.lanes[it.Lane]
		if l == nil {
			l = new(lane)
			l.join(m, it.Lane)
			m.lanes[it.Lane] = l
		}
		l.append(it)
		l.touch()
	}
}

// given is the lanes of a batch. No other items follow. twins has the keys that occur more than once.
type given struct {
	lanes [][]*Item
	twins map[string][]*Item
}

func (e given) apply(m *machine) {
	m.twins = e.twins
	lanes := make([]lane, len(e.lanes))
	for n, items := range e.lanes {
		if len(items) == 0 {
			continue
		}
		l := &lanes[n]
		l.join(m, "")
		l.queue = make([]*Item, 0, len(items))
		for _, it := range items {
			l.append(it)
		}
		m.all = append(m.all, l)
		l.touch()
	}
	if m.live == 0 {
		m.do(action{kind: doFinish})
	}
}

// giveUp returns the items of a batch whose handlers have not returned, for a caller that must answer. Nothing
// is written to its items any more.
func (m *machine) giveUp() (overruns []*Item) {
	m.closed = true
	for _, l := range m.all {
		left := l.leftovers()
		for i, it := range left {
			if it.removed, it.State = true, BehindOverrun; i == 0 {
				it.State = Overrun
				overruns = append(overruns, it)
			}
		}
	}
	return overruns
}

// timeUp is the end of the time of handlers.
type timeUp struct{ err error }

func (e timeUp) apply(m *machine) {
	m.over = e.err
	if m.once {
		m.calls.suspects = nil
		for _, l := range m.all {
			l.timeUp()
		}
	}
}

// closing is the end of a stream.
type closing struct{}

func (closing) apply(m *machine) {
	m.closed = true
	m.alarms.unset(&m.claims.pause)
	m.alarms.unset(&m.claims.sweep)
	m.alarms.unset(&m.outage.next)
}
