package idem_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// Random histories of several processes that compete for two keys: they die while holding claims, pause and continue late, lose
// requests and replies, have requests arrive after they were given up, and are redriven. Time is that of a bubble. The engine's
// outcomes must match the observed state, and the guarantees of the package must hold.
func TestGuaranteesHoldUnderCrashes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		skew := rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(rt, "skew")
		steps := rapid.SliceOfN(rapid.Custom(anyStep), 30, 100).Draw(rt, "steps")
		var wrong []string
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, skew)
			for _, step := range steps {
				w.play(step)
			}
			w.settleAll()
			wrong = w.wrong
		})
		if len(wrong) > 0 {
			rt.Fatalf("%s", wrong[0])
		}
	})
}

// step is one event of a history. The kind of event decides which fields are used.
type step struct {
	do       string
	which    int // of the claims held, or of the requests under way
	proc     int
	faults   []faultKind // of the process's next calls to the store
	key      string
	takeOver bool
	redrive  int // of the dead letters of the key, if there are so many
	plan     plan
	lasts    time.Duration
}

// GoString keeps the report of a failed history short.
func (s step) GoString() string {
	text := fmt.Sprintf("\n%s %s #%d by %d, faults %v, take over %t, redrive %d, lasts %v: takes %v, obedient %t, %s, queue full %t",
		s.do, s.key, s.which, s.proc, s.faults, s.takeOver, s.redrive, s.lasts, s.plan.takes, s.plan.obedient, s.plan.returns, s.plan.queueFull)
	if s.plan.meanwhile != nil {
		text += "; meanwhile" + s.plan.meanwhile.GoString()
	}
	return text
}

// plan defines the behaviour of a handler.
type plan struct {
	takes     time.Duration
	obedient  bool // it returns as soon as its context ends
	returns   string
	queueFull bool  // the dead letter can't be sent
	meanwhile *step // happens before it returns
}

var planned = map[string]error{
	"success": nil, "error": errBoom, "permanent": idem.Permanent(errBoom), "unavailable": idem.Unavailable(errBoom),
	"later": idem.RetryAfter(errBoom, 3*time.Second), "panic": nil,
}

// The values from which steps are drawn. A value that occurs more than once is more frequent. A failing history is reduced to
// the first values.
var (
	deeds = []string{
		"ttl", "claim", "claim", "claimAgain", "run", "run", "deliver", "deliver", "deliver", "release", "die", "time", "time", "landLate",
	}
	endings    = []string{"success", "success", "error", "error", "permanent", "unavailable", "later", "panic", "rejected"}
	faultKinds = []faultKind{noFault, noFault, noFault, lostRequest, lostReply, lateRequest, sentTwice}
	efforts    = []time.Duration{0, 0, 5 * time.Second, 25 * time.Second, 40 * time.Second, 70 * time.Second}
	durations  = []time.Duration{
		time.Millisecond, time.Second, 10 * time.Second, lease, lease + time.Second, 2 * time.Minute,
		worldRetain, worldRetain + lease + 2*time.Second,
	}
)

func anyStep(t *rapid.T) step {
	s := anyStepWithin(t)
	if rapid.Bool().Draw(t, "meanwhile") {
		inner := anyStepWithin(t)
		inner.do, inner.lasts = "deliver", 2*time.Second
		s.plan.meanwhile = &inner
	}
	return s
}

func anyStepWithin(t *rapid.T) step {
	return step{
		do:       rapid.SampledFrom(deeds).Draw(t, "do"),
		which:    rapid.IntRange(0, 5).Draw(t, "which"),
		proc:     rapid.IntRange(0, processes-1).Draw(t, "process"),
		faults:   rapid.SliceOfN(rapid.SampledFrom(faultKinds), 0, 5).Draw(t, "faults"),
		key:      rapid.SampledFrom(worldKeys).Draw(t, "key"),
		takeOver: rapid.Bool().Draw(t, "take over"),
		redrive:  rapid.IntRange(0, 15).Draw(t, "redrive"),
		plan: plan{
			takes:     rapid.SampledFrom(efforts).Draw(t, "takes"),
			obedient:  rapid.Bool().Draw(t, "obedient"),
			returns:   rapid.SampledFrom(endings).Draw(t, "returns"),
			queueFull: rapid.IntRange(0, 4).Draw(t, "queue full") == 4,
		},
		lasts: rapid.SampledFrom(durations).Draw(t, "lasts"),
	}
}

const (
	processes   = 3
	maxAttempts = 3
	worldRetain = time.Hour
)

var worldKeys = []string{"a", "b"}

// world is the store, the processes, and what was observed of them.
type world struct {
	store *memstore.Store
	procs []*process
	held  []*held

	mu    sync.Mutex // for what follows, and all that is observed: heartbeats ask the store too
	late  []func()   // requests that were given up, but arrive later
	keys  map[string]*observed
	wrong []string // observed violations
}

// held is a claim that a process holds, in its own session.
type held struct {
	proc    *process
	session *idem.Session
	ticket  []*idem.Claim
	key     string
}

func newWorld(t *testing.T, skew time.Duration) *world {
	t.Helper()
	w := &world{store: memstore.New(memstore.Config{MaxClockSkew: skew}), keys: map[string]*observed{}}
	for _, key := range worldKeys {
		w.keys[key] = &observed{
			owners: map[string]bool{}, lives: map[int64]int{}, charged: map[int]int{},
			results: map[int64]string{}, deadLettered: map[int64]bool{}, failed: map[int64]bool{},
		}
	}
	for range processes {
		p := &process{world: w}
		p.engine = newEngine(t, p, idem.Config{Lease: lease, Retention: worldRetain, MaxAttempts: maxAttempts, BreakerFailures: -1})
		w.procs = append(w.procs, p)
	}
	return w
}

func (w *world) play(s step) {
	proc := w.procs[s.proc]
	proc.plan(s.faults)
	h := w.some(s.which)
	switch s.do {
	case "claim":
		w.claim(proc, s)
	case "deliver":
		w.deliver(proc, s)
	case "time":
		pass(s.lasts)
	case "ttl":
		w.store.Sweep()
	case "landLate":
		w.landLate(s.which)
	}
	if h == nil {
		return
	}
	switch s.do {
	case "claimAgain":
		if h.ticket[0].State() != store.Claimed {
			h.session.Claim(h.ticket)
		}
	case "run":
		w.drop(h)
		w.verify(h.key, h.session.Run(h.ticket[0]))
		h.session.Close()
	case "release":
		h.session.Release(h.ticket)
	case "die":
		w.drop(h)
		h.session.Close()
	}
}

// task returns a task that behaves as planned and is observed.
func (w *world) task(s step) idem.Task {
	key, p, o := s.key, &s.plan, w.keys[s.key]
	return idem.Task{
		Key: key, Fingerprint: idem.FingerprintOf([]byte(key)), RedriveToken: o.redrive(s.redrive),
		Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
			a, _ := idem.AttemptFrom(ctx)
			w.begin(key, a)
			tx, err := memstore.TxFrom(ctx)
			if err != nil {
				return nil, err
			}
			tx.Do(func() { o.effects++ })
			w.work(ctx, p)
			if p.returns == "rejected" {
				tx.Check(func() error { return errBoom })
				return nil, nil
			}
			switch p.returns {
			case "panic":
				panic("planned")
			case "unavailable":
				w.giveBack(key, a)
			}
			return fmt.Appendf(nil, "%s by %d", key, a.Token), planned[p.returns]
		}),
		DeadLetters: idem.DeadLetterFunc(func(_ context.Context, b idem.DeadLetter) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if now := rec(w.store, key); now.Status == store.StatusFailed && now.Token == b.Attempt.Token {
				w.errorf("%s: FAILED before its dead letter", key)
			}
			if p.queueFull {
				return errNetwork
			}
			o.deadLettered[b.Attempt.Token] = true
			if o.lives[b.Attempt.Token] != o.life {
				return nil // it belongs to an earlier life of the key
			}
			if o.letters++; o.result != "" && !o.faulted {
				w.errorf("%s: completed and dead-lettered, although nothing went wrong", key)
			}
			return nil
		}),
	}
}

func (w *world) work(ctx context.Context, p *plan) {
	done := ctx.Done()
	if !p.obedient {
		done = nil
	}
	select {
	case <-time.After(p.takes):
	case <-done:
	}
	if p.meanwhile != nil {
		w.play(*p.meanwhile)
	}
}

func (w *world) claim(proc *process, s step) {
	h := &held{proc: proc, key: s.key, session: proc.engine.Session(context.Background())}
	h.ticket = []*idem.Claim{{Task: w.task(s), TakeOver: s.takeOver}}
	h.session.Claim(h.ticket)
	w.held = append(w.held, h)
}

// some returns one of the held claims, nil if there is none.
func (w *world) some(which int) *held {
	if len(w.held) == 0 {
		return nil
	}
	return w.held[which%len(w.held)]
}

func (w *world) drop(h *held) {
	w.held = slices.DeleteFunc(w.held, func(x *held) bool { return x == h })
}

// deliver is an invocation with a deadline.
func (w *world) deliver(proc *process, s step) idem.Outcome {
	ctx, cancel := context.WithTimeout(context.Background(), s.lasts)
	defer cancel()
	out := proc.engine.Do(ctx, w.task(s))
	w.verify(s.key, out)
	return out
}

func (w *world) landLate(which int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.late) > 0 {
		i := which % len(w.late)
		land := w.late[i]
		w.late = slices.Delete(w.late, i, i+1)
		land()
	}
}

// settleAll ends all faults and delivers each key once more: every key must be settled, and no message lost.
func (w *world) settleAll() {
	for _, h := range w.held {
		h.session.Close()
	}
	w.procs[0].plan(nil)
	for _, key := range worldKeys {
		out := w.deliver(w.procs[0], step{key: key, redrive: math.MaxInt, plan: plan{returns: "success"}, lasts: time.Hour})
		if !out.Kind.Settled() {
			w.errorf("%s: still %v after all faults ended: %v", key, out.Kind, out.Err)
		}
	}
}
