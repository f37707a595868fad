package schedule_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/schedule"
	"github.com/idemsk/idemsk/idem/store"
)

const (
	tracedRanges    = 20 // seeds
	tracedBatches   = 7  // of a partition
	tracedPause     = rangeLease * 3 / 2
	tracedTimeLimit = 30 * time.Second // of an invocation
)

// rangeView is the store as an engine sees it.
type rangeView func(*rangeNetwork) store.Store

func unchanged(s *rangeNetwork) store.Store { return s }

// Invocations of event sources that deliver batches again, at once, from an earlier offset, and of another
// topic with the same name, and consumer processes that take partitions from each other. Invocations and
// processes die, stand still for longer than the lease, and have a network that loses requests and answers;
// some claim by key. All records are settled in the end, and each key is final. If IDEMSK_TRACE_DIR names a
// folder, what they did is written there, and scripts/trace.sh compares it with docs/spec/partition.tla.
func TestRangesOfOwnersThatDie(t *testing.T) {
	for seed := range uint64(tracedRanges) {
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				r := newRangeRecorder(t, seed, stream)
				r.run(unchanged)
				for _, key := range r.want {
					if e, err := r.store.Get(context.Background(), string(key)); err != nil ||
						e.Status == store.StatusStarted {
						t.Errorf("%c is %v %v", key, e.Status, err)
					}
				}
				if r.write(os.Getenv("IDEMSK_TRACE_DIR")); t.Failed() {
					t.Logf("seed %d, stream %t", seed, stream)
				}
			})
		}
	}
}

// run handles the records of both partitions.
func (r *rangeRecorder) run(view rangeView) {
	var partitions sync.WaitGroup
	for _, p := range []string{"p", "q"} {
		partitions.Go(func() {
			if r.stream {
				(&tracedGroup{rangeRecorder: r, p: p, view: view, next: 1}).run()
			} else {
				(&tracedSource{rangeRecorder: r, p: p, view: view, inc: 1, next: 1}).run()
			}
		})
	}
	partitions.Wait()
	pass(tracedTimeLimit) // releases of streams that were closed
}

// engine returns the scheduler of an invocation or a process.
func (r *rangeRecorder) engine(s *rangeNetwork, view rangeView, cfg idem.Config) *schedule.Scheduler {
	cfg.Lease, cfg.MaxAttempts, cfg.RetryDelay = rangeLease, tracedAttempts, cmp.Or(cfg.RetryDelay, -1)
	engine, err := idem.New(view(s), cfg)
	if err != nil {
		r.Fatal(err)
	}
	scheduler, err := schedule.New(engine, schedule.Config{})
	if err != nil {
		r.Fatal(err)
	}
	return scheduler
}

// item returns a record, counted from 1.
func (s *rangeNetwork) item(p string, i int) *schedule.Item {
	key := recordsOf(p, s.inc)[i-1 : i]
	position := int64(i-1) * s.stride
	lane := p
	if s.lanes {
		lane += key
	}
	return &schedule.Item{Position: position, Lane: lane, Range: "lease-" + p, Task: idem.Task{
		Key: key, Fingerprint: store.FingerprintOf([]byte(key)), Source: fmt.Sprintf("%s@%d", p, position),
		DeadLetters: idem.DeadLetterFunc(func(context.Context, idem.DeadLetter) error {
			s.note(&rangeEvent{Op: "letter", Inv: s.inv, I: i})
			return nil
		}),
		Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) { return nil, s.handle(ctx, i) }),
	}}
}

func (s *rangeNetwork) handle(ctx context.Context, i int) error {
	a, _ := idem.AttemptFrom(ctx)
	s.note(&rangeEvent{Op: "run", Inv: s.inv, I: i, Tok: s.token(a.Token), Att: a.Number})
	if pass(s.between(1, 40)); s.chance(0.05) {
		pass(tracedPause) // the lease is extended meanwhile
	}
	e := &rangeEvent{Op: "return", Inv: s.inv, I: i, Answer: "ok"}
	var err error
	switch {
	case s.chance(0.15):
		err = errBoom
	case s.chance(0.05):
		err = idem.Permanent(errBoom)
	}
	if err != nil {
		e.Answer = "failed"
	}
	s.note(e)
	return err
}

// settledNow records that a record is settled.
func (s *rangeNetwork) settledNow(i int) { s.note(&rangeEvent{Op: "settled", Inv: s.inv, I: i}) }

// tracedSource is an event source mapping of a partition.
type tracedSource struct {
	*rangeRecorder
	p         string
	view      rangeView
	inc, next int // the first record that is not settled, as the event source knows
	others    sync.WaitGroup
}

func (src *tracedSource) run() {
	for n := 0; n < tracedBatches || src.next <= len(recordsOf(src.p, src.inc)); n++ {
		last := n >= tracedBatches // of what is left, without faults
		switch end := len(recordsOf(src.p, src.inc)); {
		case last:
		case src.inc == 1 && src.chance(0.07):
			src.inc, src.next = 2, 1
		case src.next > end || src.next > 1 && src.chance(0.1):
			src.next = src.number(1, src.next-1)
		}
		src.deliver(src.number(src.next, len(recordsOf(src.p, src.inc))), last)
	}
	src.others.Wait()
	src.wants(src.p, src.inc)
}

// wants remembers the records of a partition at the end.
func (r *rangeRecorder) wants(p string, inc int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.want += recordsOf(p, inc)
}

// deliver delivers the next records up to this one.
func (src *tracedSource) deliver(to int, sound bool) {
	s := &rangeNetwork{rangeRecorder: src.rangeRecorder, inv: src.begin(src.p, src.inc, src.next, to),
		inc: src.inc, lanes: src.chance(0.5)}
	from, dies, waits := src.next, false, true
	if !sound && src.chance(src.lossy) {
		s.loss = 0.2
	}
	fate := src.number(0, 13)
	switch {
	case sound:
	case fate < 2: //nolint:mnd // of 14
		dies = true
		s.cutOff(src.between(0, 60), time.Hour, false)
	case fate < 4: //nolint:mnd // it stands still, and is given up
		waits = false
		s.cutOff(src.between(0, 60), tracedPause, false)
	case fate < 6: //nolint:mnd // it is given up, and goes on
		waits = false
	case fate == 6: //nolint:mnd // the keys can't be reached, the lease can
		s.cutOff(src.between(0, 60), tracedPause, true)
	}
	if !waits {
		src.others.Go(func() { src.invoke(s, from, to) })
		pass(src.between(0, 100))
		return
	}
	if next := src.invoke(s, from, to); !dies {
		src.next = next
	}
}

// invoke is an invocation. It returns the first record that is not settled.
func (src *tracedSource) invoke(s *rangeNetwork, from, to int) int {
	byKey := src.chance(0.2)
	scheduler := src.engine(s, src.view, idem.Config{ClaimByPartition: !byKey, Wait: src.between(1, 15_000)})
	ctx, cancel := context.WithTimeout(context.Background(), tracedTimeLimit)
	defer cancel()
	var items []*schedule.Item
	lanes := make(map[string][]*schedule.Item)
	for i := from; i <= to; i++ {
		it := s.item(src.p, i)
		items, lanes[it.Lane] = append(items, it), append(lanes[it.Lane], it)
	}
	var ranges []schedule.Range
	if !byKey {
		ranges = []schedule.Range{{Key: "lease-" + src.p, Source: items[0].Task.Source, Items: items}}
	}
	scheduler.Run(ctx, slices.Collect(maps.Values(lanes)), ranges...)
	next := from
	for i, it := range items {
		if it.Settled() {
			if s.settledNow(from + i); next == from+i {
				next++
			}
		}
	}
	return next
}

// tracedGroup is a consumer group with one partition.
type tracedGroup struct {
	*rangeRecorder
	p    string
	view rangeView

	next    int // the committed record, counted from 1
	zombies sync.WaitGroup
}

// tracedMember is a process of the group.
type tracedMember struct {
	*rangeNetwork
	stream *schedule.Stream

	settledMu sync.Mutex
	settled   map[int]bool
}

func (g *tracedGroup) run() {
	var m *tracedMember
	end := len(recordsOf(g.p, 1))
	for n := 0; n < tracedBatches || g.next <= end; n++ {
		if m == nil {
			m = g.join(n >= tracedBatches)
		}
		if g.next > 1 && n < tracedBatches && (g.next > end || g.chance(0.1)) {
			g.next = g.number(1, g.next-1)
		}
		m = g.assign(m, n >= tracedBatches)
	}
	if m != nil {
		m.stream.Close(ended())
	}
	g.zombies.Wait()
	g.wants(g.p, 1)
}

// join starts a process.
func (g *tracedGroup) join(sound bool) *tracedMember {
	m := &tracedMember{rangeNetwork: &rangeNetwork{
		rangeRecorder: g.rangeRecorder, inv: g.begin(g.p, 1, 1, len(recordsOf(g.p, 1))), inc: 1,
		lanes: g.chance(0.5),
	}}
	if !sound && g.chance(g.lossy) {
		m.loss = 0.2
	}
	m.stream = g.engine(m.rangeNetwork, g.view,
		idem.Config{ClaimByPartition: true}).Stream(context.Background(), m.done, nil)
	return m
}

func (m *tracedMember) done(it *schedule.Item) {
	i := m.record(it.Task.Source)
	m.settledNow(i)
	m.settledMu.Lock()
	defer m.settledMu.Unlock()
	m.settled[i] = true
}

// assign assigns the partition to a process for a time, and commits what is settled. It returns the process
// if that is in the group afterwards.
func (g *tracedGroup) assign(m *tracedMember, sound bool) *tracedMember {
	m.settledMu.Lock()
	m.settled = make(map[int]bool)
	m.settledMu.Unlock()
	unreachable := !sound && g.chance(0.15)
	if unreachable {
		m.cutOff(g.between(0, 60), tracedPause, true) // longer than a settlement is sent
	}
	for i := g.next; i <= len(recordsOf(g.p, 1)); i++ {
		m.stream.Add(m.item(g.p, i))
		pass(g.between(0, 30))
	}
	pass(g.between(0, 200))
	dies, pauses := !sound && g.chance(0.15), !sound && g.chance(0.15)
	switch {
	case sound:
		pass(10 * tracedPause)
	case unreachable:
		pass(tracedPause + g.between(0, 100))
	}
	g.commit(m)
	switch {
	case dies:
		m.cutOff(0, time.Hour, false)
		m.stream.Close(ended())
	case pauses:
		m.cutOff(0, tracedPause, false)
		g.zombies.Go(func() {
			pass(tracedPause + g.between(0, 1000))
			g.revoke(m)
			m.stream.Close(ended())
		})
	default:
		g.revoke(m)
		g.commit(m)
		return m
	}
	return nil
}

// revoke takes the partition from a process.
func (g *tracedGroup) revoke(m *tracedMember) {
	ctx, cancel := context.WithTimeout(context.Background(), g.between(0, 200))
	defer cancel()
	m.stream.Stop(ctx, func(lane string) bool { return strings.HasPrefix(lane, g.p) }, "lease-"+g.p)
}

// commit moves the committed offset behind the settled records.
func (g *tracedGroup) commit(m *tracedMember) {
	m.settledMu.Lock()
	defer m.settledMu.Unlock()
	for m.settled[g.next] {
		g.next++
	}
}
