// Package machine decides what a scheduler does: which items are claimed, which handlers are called, which claims
// are released, and when. It has no goroutines and no locks, and does no I/O. Time and random numbers are its
// driver's ([Rules]). [Machine.Step] takes the time and events, and returns the actions that follow from them. A
// driver does the actions and passes their answers back as events.
//
// An item takes these steps, each in the file of that name:
//
//	added ─▶ claimed (claims.go) ─▶ called (calls.go) ─▶ concluded (conclude.go) ─▶ reported (lane.go)
//
// keys.go has the rules for items with one key, and outages.go those for an outage of what handlers need.
//
// # The rules
//
// Besides rules 1 to 10 of package store:
//
//   - S1. A lane exists while it has items that have not ended. A call takes the next items of lanes: one,
//     or with a bulk handler a run of each lane, in the order of arrival. Ready lanes take turns. A lane
//     has items in one call at a time.
//   - S2. The next items of a lane begin when the call with those before has returned, and each of these
//     has returned without an error or is settled. Of a call, the items of a lane that fail behind another
//     return to their places without an attempt, whatever their errors; those that succeed complete. If the
//     completion of an item fails, it returns to its place, and later ones have run before it. In atomic
//     mode the lane waits for the completion, because the next handler may have to see the effect.
//   - S3. An item of a stream that is not settled returns to its place and waits: for the backoff and the
//     delay of its key, or for a key in flight elsewhere. A lane that waits has no slot and no claims. In a
//     batch, such an item ends its lane, and the claims of the items behind it are released.
//   - S4. Claims are sent ahead, for one item of each lane in turn: as many as the handlers begin in twice
//     the time of an answer, at least two full requests. With the items in progress they are at most 24
//     full requests, or, with more handlers, one item for each and those that begin in that time. A partial
//     request is sent only if a lane needs it: if no request is in progress, or, in a stream on a store
//     whose requests take at most 32 elements, if it has all claims that are wanted, and at least n eighths
//     of a full request while n are in progress. Completions without an effect are gathered in the same way
//     in a session without a deadline. A claim that has waited for a quarter of the lease is released. The
//     claims for calls of a bulk handler are sent together. Whole requests for the next calls are sent
//     during calls, for as many as are estimated to begin within a quarter of the lease.
//   - S5. An item uses its key from when its claim is sent until it has ended or the claim is released.
//     Another item with this key waits for it, and takes its outcome if it makes the same request. Nothing
//     is claimed behind an item that waits for an item of another lane, so lanes do not wait for each other
//     in a circle.
//   - S6. If the store does not answer, all claims of a stream pause, and one request tries the store after
//     a backoff. No handler is called, unless the engine fails open.
//   - S7. A key whose owner's lease is over after its first attempt is taken over beside others, if at
//     least two attempts are left. Before any other such key is taken over, no handler begins, the claims
//     of all lanes are released, and the running handlers and completions end. If the answer to the claim
//     is lost, the item is claimed anew by another owner.
//   - S8. Stop removes the items that have not begun and releases their claims. It waits for those that
//     have begun. If its context ends first, they still settle their keys, but nothing is called for them
//     any more.
//   - S9. done and retry are called outside of the lock, and for one lane one after another. An item that
//     was tried begins again after retry has returned.
//   - S10. During an outage a stream releases the claims sent ahead, and sends one at a time, when the
//     engine lets an item try. An item that is held back is not reported. In a batch it waits until the
//     outage ends, or only such items are left.
package machine

import "time"

// Machine is the state of a stream, or of a batch.
type Machine struct {
	Rules
	now     time.Time
	actions []Action

	lanes   map[string]*Lane // by name; of a stream, those that are not stopped
	all     []*Lane          // of a batch
	live    int              // lanes that have not ended
	added   uint64           // items
	queued  int              // items that have not begun
	touched Queue[*Lane]     // to be looked at
	closed  bool             // nothing begins any more, because the stream was closed
	over    bool             // nothing begins any more, because the time of handlers has ended
	flushed bool             // see flush

	keys   map[string]*Item   // the item that uses each key: it is claimed, or in progress
	twins  map[string][]*Item // of a batch: the items that have ended of each key that occurs more than once
	calls  calls
	claims claims
	outage outage
	alarms alarms
}

// Rules are what a machine is configured with.
type Rules struct {
	Concurrency int           // calls of handlers at once
	Bulk        bool          // a handler takes many items in a call
	Once        bool          // a batch: an item that is not settled ends its lane, and is not tried again
	Request     int           // how many claims a request of the store takes
	Partial     int           // how many eighths of a request others may be in progress beside; 0 for a batch
	MayWait     time.Duration // how long a claim may wait for its handler to begin
	Window      int           // of items whose completions are not answered
	// Backoff is the pause of an item after its first try, and of claims after the first that the store has not
	// answered. It doubles, up to MaxBackoff and MaxPause.
	Backoff, MaxBackoff, MaxPause time.Duration
	Latency                       *Estimate // of handlers
	Engine                        Engine
	// Jitter returns a random time of at most d.
	Jitter func(d time.Duration) time.Duration
}

// Engine is what a machine asks, which needs no I/O.
type Engine interface {
	// WaitTime returns how long to wait before an item's key, which is in flight elsewhere, is claimed again;
	// false if the item ends with that.
	WaitTime(it *Item) (time.Duration, bool)
	// HandlerDown reports whether there is an outage of what handlers need, and how long none may be called.
	HandlerDown() (wait time.Duration, down bool)
	// CallSize returns how many items the next call of a bulk handler gets at most.
	CallSize() int
}

// pauseFor returns how long an item waits after the nth try (from 1), if that is at most a time.
func (r *Rules) pauseFor(n int, most time.Duration) time.Duration {
	d := r.Backoff
	for ; n > 1 && d < most; n-- {
		d *= 2
	}
	d = min(d, most)
	return d/2 + r.Jitter(d/2)
}

// New returns a machine without items.
func New(r Rules) *Machine {
	m := &Machine{Rules: r, lanes: make(map[string]*Lane), keys: make(map[string]*Item)}
	m.claims.pause.of = ringFunc(func() {}) // advance follows
	m.claims.sweep.of = ringFunc(m.sweepClaims)
	m.outage.next.of = ringFunc(func() {})
	return m
}

// Event is what has happened. Its apply is in the file about what it is about.
type Event interface{ apply(m *Machine) }

// Action is what a driver is to do. Its kind says which of the other fields are set.
type Action struct {
	Kind  ActionKind
	Item  *Item
	From  *Item
	Items []*Item
	Lane  *Lane
}

// ActionKind is the kind of an action.
type ActionKind uint8

// The kinds of actions.
const (
	DoClaim   ActionKind = iota // claim the keys of Items; the answer is Answered
	DoRelease                   // release the claims of Items; the answer is Released
	DoCall                      // run Item; the answers are Returned and Settled
	DoBulk                      // call a bulk handler for Items; the answers are those of DoCall, CallReturned and CallEnded
	DoAlone                     // take the key of Item over and run it; the answers are Returned and Settled
	DoShare                     // copy the outcome of From to Item
	DoReport                    // tell the caller Item's outcome; the answer is Reported
	DoExplain                   // DoReport of an item that can't be claimed
	DoFlush                     // send the completions that wait for others, because none follows soon
	DoEnd                       // tell who waits for it that Lane has ended
	DoFinish                    // the batch has ended
	DoTell                      // of the driver: tell the reports
)

// Step applies events and returns what is to be done, in order. The slice is valid until the next step.
func (m *Machine) Step(now time.Time, events ...Event) []Action {
	clear(m.actions)
	m.now, m.actions = now, m.actions[:0]
	for _, e := range events {
		e.apply(m)
	}
	m.advance()
	return m.actions
}

// Next returns the time of the next Tick; zero if none is needed.
func (m *Machine) Next() time.Time { return m.alarms.next() }

func (m *Machine) do(a Action) { m.actions = append(m.actions, a) }

// advance decides what can be done now.
func (m *Machine) advance() {
	for {
		for m.touched.Len() > 0 {
			m.touched.Pop().schedule()
		}
		isolated := m.isolating()
		m.sendReleases()
		m.sendClaims()
		m.beginCalls()
		m.endHeld()
		if m.touched.Len() == 0 && isolated == m.isolating() {
			m.flush()
			return
		}
	}
}

// each yields the lanes that have not ended and were not stopped by the caller of a stream.
func (m *Machine) each(yield func(*Lane) bool) {
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
func (m *Machine) ended() bool { return m.closed || m.over }

// flush sends the completions of a batch that wait for others when no handler follows.
func (m *Machine) flush() {
	if len(m.all) > 0 && m.queued == 0 && m.calls.running == 0 && !m.flushed {
		m.flushed = true
		m.do(Action{Kind: DoFlush})
	}
}

// Added is new items of a stream. Those of a lane are in order.
type Added struct{ Items []*Item }

func (e Added) apply(m *Machine) {
	if m.closed {
		return
	}
	for _, it := range e.Items {
		l := m.lanes[it.Lane]
		if l == nil {
			l = new(Lane)
			l.join(m, it.Lane)
			m.lanes[it.Lane] = l
		}
		l.append(it)
		l.touch()
	}
}

// Given is the lanes of a batch. No other items follow.
type Given struct{ Lanes [][]*Item }

func (e Given) apply(m *Machine) {
	m.twins = twinsOf(e.Lanes)
	lanes := make([]Lane, len(e.Lanes))
	for n, items := range e.Lanes {
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
		m.do(Action{Kind: DoFinish})
	}
}

// GiveUp returns the items of a batch whose handlers have not returned, and those behind them, for a caller that
// must answer. Nothing is written to them any more.
func (m *Machine) GiveUp() (overruns, behind []*Item) {
	m.closed = true
	for _, l := range m.all {
		left := l.leftovers()
		for i, it := range left {
			if it.removed = true; i == 0 {
				overruns = append(overruns, it)
			} else {
				behind = append(behind, it)
			}
		}
	}
	return overruns, behind
}

// Lanes returns the lanes of a stream whose names match.
func (m *Machine) Lanes(match func(name string) bool) (lanes []*Lane) {
	for name, l := range m.lanes {
		if match(name) {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// Close lets nothing begin any more.
func (m *Machine) Close() { m.closed = true }

// Over reports whether the time of handlers has ended (TimeUp).
func (m *Machine) Over() bool { return m.over }

// Retrying yields the next item of each lane of a stream that waits for another try.
func (m *Machine) Retrying(yield func(*Item) bool) {
	for _, l := range m.lanes {
		if len(l.queue) > 0 && l.queue[0].tries > 0 && !l.queue[0].unreported && !yield(l.queue[0]) {
			return
		}
	}
}

// TimeUp is the end of the time of handlers.
type TimeUp struct{}

func (TimeUp) apply(m *Machine) {
	m.over = true
	if m.Once {
		m.calls.suspects = nil
		for _, l := range m.all {
			l.timeUp()
		}
	}
}

// Closing is the end of a stream.
type Closing struct{}

func (Closing) apply(m *Machine) {
	m.closed = true
	m.alarms.unset(&m.claims.pause)
	m.alarms.unset(&m.claims.sweep)
	m.alarms.unset(&m.outage.next)
}
