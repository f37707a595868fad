package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/schedule"
)

// members are the streams of consumer processes with the same partitions.
type members struct{ *partitions }

func newMembers(t *testing.T, topic ...[]string) *members {
	return &members{&partitions{T: t, store: memstore.New(memstore.Config{BatchSize: 25, MaxClockSkew: -1}),
		topic: topic}}
}

// rangeStream is the stream of a process.
type rangeStream struct {
	*members
	requests *counted
	stream   *schedule.Stream
	cancel   context.CancelFunc
	ended    []string // guarded by partitions.mu
	retried  []string
}

func (m *members) start(cfg idem.Config) *rangeStream {
	p := m.process(cfg)
	s := &rangeStream{members: m, requests: p.requests}
	ctx, cancel := context.WithCancel(m.Context())
	s.cancel = cancel
	s.stream = p.scheduler.Stream(ctx, s.note(&s.ended), s.note(&s.retried))
	m.Cleanup(func() { s.stream.Close(ended()) })
	return s
}

func (m *members) byPartition() *rangeStream { return m.start(idem.Config{ClaimByPartition: true}) }

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (s *rangeStream) note(to *[]string) func(*schedule.Item) {
	return func(it *schedule.Item) {
		s.mu.Lock()
		defer s.mu.Unlock()
		*to = append(*to, it.Task.Key+" "+it.Outcome.Kind.String())
	}
}

// add adds records of a partition from an offset to before another one, in one lane.
func (s *rangeStream) add(partition, from, to int) { s.stream.Add(s.items(partition, from, to)...) }

// revoke gives a partition back.
func (s *rangeStream) revoke(ctx context.Context, partition int) (running []*schedule.Item) {
	return s.stream.Stop(ctx, isLane(laneOf(partition)), leaseOf(partition))
}

// reset returns the requests so far, and forgets them.
func (s *rangeStream) reset() []string {
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	asked := s.requests.asked
	s.requests.asked = nil
	return asked
}

// settledNow returns how many records are settled.
func (s *rangeStream) settledNow() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ended)
}

// die lets the process send nothing more, and leave everything as it is.
func (s *rangeStream) die() { s.requests.cutOff.Store(true); s.cancel() }

func (s *rangeStream) wantEnd(want ...string) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.ended, want) {
		s.Errorf("settled %q; want %q", s.ended, want)
	}
}

// A fresh record costs no claim, and the lease is held until the partition is revoked.
func TestStreamHoldsTheLeaseOfItsPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMembers(t, []string{"a", "b", "c", "d"})
		s := m.byPartition()
		s.add(0, 0, 2)
		pass(time.Minute)
		s.add(0, 2, 4)
		pass(time.Second)
		s.wantEnd("a Executed", "b Executed", "c Executed", "d Executed")
		lease := m.wantEntry("ns%t-0", "STARTED 1")
		if lease.Released() || time.Until(lease.LeaseUntil) < 0 || lease.Range.End != 2000 {
			t.Errorf("the lease is %+v, its range %+v", lease, lease.Range)
		}
		s.requests.mu.Lock()
		claims := slices.DeleteFunc(s.requests.asked,
			func(what string) bool { return !strings.HasPrefix(what, "claim") })
		s.requests.mu.Unlock()
		if !slices.Equal(claims, []string{"claim 1"}) {
			t.Errorf("claims: %q; want that of the lease", claims)
		}
		for _, key := range m.topic[0] {
			if entry := m.wantEntry(key, "COMPLETED 1"); entry.Token < lease.Token {
				t.Errorf("entry %+v; want no smaller token than that of the lease, %d", entry, lease.Token)
			}
		}
		m.wantRuns("a attempt 1", "b attempt 1", "c attempt 1", "d attempt 1")
		s.revoke(t.Context(), 0)
		if lease := m.wantEntry("ns%t-0", "STARTED 0"); !lease.Released() || lease.Range.Till != 0 {
			t.Errorf("the lease is %+v, its range %+v", lease, lease.Range)
		}
		next := m.byPartition()
		next.add(0, 2, 4)
		pass(time.Second)
		next.wantEnd("c Replayed", "d Replayed")
	})
}

// The end of what may begin is written before it begins.
func TestStreamReservesPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMembers(t, make([]string, 5000))
		for i := range m.topic[0] {
			m.topic[0][i] = fmt.Sprint("k", i)
		}
		m.handle = func(_ context.Context, key string) error {
			var offset int64
			_, err := fmt.Sscanf(key, "k%d", &offset)
			if lease, _ := m.store.Get(m.Context(), "ns%t-0"); lease.Range.End <= offset {
				t.Errorf("%s began below the end %d of the lease", key, lease.Range.End)
			}
			return err
		}
		s := m.byPartition()
		for from := 0; from < 5000; from += 500 {
			s.add(0, from, from+500)
			pass(time.Second)
		}
		equal(t, "records settled", s.settledNow(), 5000)
		extends := 0
		for _, what := range s.reset() {
			if what == "extend 1" {
				extends++
			}
		}
		if extends > 8 {
			t.Errorf("%d extensions of the lease", extends)
		}
	})
}

// The records that a dead process may have begun are claimed by key, and their attempts are counted. Those
// above are not.
func TestStreamAfterADeadOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := make([]string, 3000)
		for i := range topic {
			topic[i] = fmt.Sprint("k", i)
		}
		m := newMembers(t, topic)
		m.handle = func(ctx context.Context, key string) error {
			if key == "k1" && len(m.runs) == 2 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		one := m.byPartition()
		one.add(0, 0, 2)
		pass(time.Second)
		one.die()
		one.wantEnd("k0 Executed")
		two := m.byPartition()
		two.add(0, 0, 3)
		pass(time.Second)
		two.wantEnd() // the lease is not over
		pass(rangeLease)
		two.wantEnd("k0 Replayed", "k1 Executed", "k2 Executed")
		m.wantEntry("k1", "COMPLETED 1")
		if lease := m.wantEntry("ns%t-0", "STARTED 2"); lease.Range.Till != 2000 {
			t.Errorf("range %+v", lease.Range)
		}
		if asked := two.reset(); !slices.Contains(asked, "claim 2") {
			t.Errorf("requests %q; want claims of k1 and k2", asked)
		}
		two.add(0, 2500, 2502)
		pass(time.Second)
		two.wantEnd("k0 Replayed", "k1 Executed", "k2 Executed", "k2500 Executed", "k2501 Executed")
		if asked := two.reset(); slices.Contains(asked, "claim 2") || slices.Contains(asked, "claim 1") {
			t.Errorf("requests %q; want none for records that the dead owner can't have begun", asked)
		}
		m.wantTill(2000) // the lease was extended for them
		two.revoke(t.Context(), 0)
		if lease := m.wantEntry("ns%t-0", "STARTED 1"); !lease.Released() || lease.Range.Till != 2000 {
			t.Errorf("the lease is %+v, its range %+v", lease, lease.Range)
		}
	})
}

// A settlement without an answer: the next try claims the key with another token, and finds the entry if
// there is one. The lease is released.
func TestStreamClaimsAKeyWhoseSettlementHasNoAnswer(t *testing.T) {
	for _, applied := range []bool{true, false} {
		t.Run(fmt.Sprint("applied ", applied), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMembers(t, []string{"a"})
				var tokens []int64
				m.handle = func(ctx context.Context, _ string) error {
					a, _ := idem.AttemptFrom(ctx)
					tokens = append(tokens, a.Token)
					return nil
				}
				s := m.byPartition()
				end := time.Now().Add(2 * rangeLease)
				s.requests.lose = func(op string) bool {
					return op == "complete" && applied &&
						time.Now().Before(end)
				}
				s.requests.drop = func(op string) bool {
					return op == "complete" && !applied &&
						time.Now().Before(end)
				}
				s.add(0, 0, 1)
				pass(time.Minute)
				if applied {
					s.wantEnd("a Replayed")
					equal(t, "runs", len(tokens), 1)
				} else {
					s.wantEnd("a Executed")
					if len(tokens) < 2 || !slices.IsSorted(tokens) ||
						len(slices.Compact(slices.Clone(tokens))) != len(tokens) {
						t.Errorf("tokens %v; want one that grows", tokens)
					}
				}
				s.revoke(t.Context(), 0)
				if lease := m.wantEntry("ns%t-0", "STARTED 0"); !lease.Released() {
					t.Errorf("the lease is %+v", lease)
				}
			})
		})
	}
}

// A partition that is revoked while a settlement has no answer: its lease is not released, and the next owner
// claims the keys.
func TestStreamKeepsTheLeaseOfAKeyThatMayHaveNoEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMembers(t, []string{"a", "b"})
		one := m.byPartition()
		one.requests.drop = func(op string) bool { return op == "complete" }
		one.add(0, 0, 1)
		pass(time.Second)
		one.revoke(ended(), 0)
		pass(rangeLease + time.Second)
		if lease := m.wantEntry("ns%t-0", "STARTED 1"); lease.Released() {
			t.Error("the lease was released")
		}
		two := m.byPartition()
		two.add(0, 0, 2)
		pass(2 * rangeLease)
		two.wantEnd("a Executed", "b Executed")
		if lease := m.wantEntry("ns%t-0", "STARTED 2"); lease.Range.Till != 2000 {
			t.Errorf("range %+v; want what the first owner may have begun", lease.Range)
		}
		two.revoke(t.Context(), 0) // before the end of what the first owner may have begun
		if lease := m.wantEntry("ns%t-0", "STARTED 1"); !lease.Released() || lease.Range.Till != 2000 {
			t.Errorf("the lease is %+v, its range %+v", lease, lease.Range)
		}
	})
}

// A rebalance while a handler runs: the next owner waits until the handler has returned and the lease is
// released.
func TestStreamReleasesTheLeaseWhenItsHandlersHaveReturned(t *testing.T) {
	for _, drain := range []time.Duration{time.Second, time.Minute} {
		t.Run(drain.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMembers(t, []string{"a", "b", "c"})
				m.handle = func(_ context.Context, key string) error {
					if key == "a" {
						pass(3 * rangeLease)
					}
					return nil
				}
				one, two := m.byPartition(), m.byPartition()
				one.add(0, 0, 3)
				pass(time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), drain)
				defer cancel()
				running := one.revoke(ctx, 0)
				equal(t, "handlers that still run", len(running), map[bool]int{true: 1}[drain < rangeLease])
				two.add(0, 0, 3)
				pass(2 * rangeLease)
				m.wantRuns(map[bool][]string{true: {"a attempt 1"},
					false: {"a attempt 1", "b attempt 1", "c attempt 1"}}[drain < rangeLease]...)
				pass(2 * rangeLease)
				m.wantRuns("a attempt 1", "b attempt 1", "c attempt 1")
				two.wantEnd("a Replayed", "b Executed", "c Executed")
			})
		})
	}
}

// A process that stands still beyond its lease: its late completion finds the entry of the next owner, and it
// claims the lease again.
func TestStreamThatLosesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMembers(t, []string{"a", "b"})
		var begun atomic.Bool
		m.handle = func(ctx context.Context, key string) error {
			if key == "a" && !begun.Swap(true) {
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), idem.ErrLeaseLost) {
					t.Errorf("the handler ended because of %v", context.Cause(ctx))
				}
			}
			return nil
		}
		one := m.byPartition()
		one.add(0, 0, 2)
		pass(time.Second)
		one.requests.cutOff.Store(true)
		two := m.byPartition()
		two.add(0, 0, 2)
		pass(rangeLease)
		two.wantEnd("a Executed", "b Executed")
		one.requests.cutOff.Store(false)
		pass(rangeLease)
		one.wantEnd("a Replayed")
		two.revoke(t.Context(), 0)
		pass(time.Minute)
		one.wantEnd("a Replayed", "b Replayed")
		m.wantRuns("a attempt 1", "a attempt 1", "b attempt 1")
		m.wantEntry("a", "COMPLETED 1")
	})
}

// While the store can't be reached, nothing begins, or all of it without protection. Then it goes on.
func TestStreamWithoutALease(t *testing.T) {
	for _, open := range []bool{false, true} {
		t.Run(fmt.Sprint(open), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMembers(t, []string{"a", "b", "c"})
				s := m.start(idem.Config{ClaimByPartition: true, FailOpen: open})
				s.requests.cutOff.Store(true)
				s.add(0, 0, 2)
				pass(time.Minute)
				if open {
					s.wantEnd("a FailedOpen", "b FailedOpen")
				} else {
					s.wantEnd()
					s.mu.Lock()
					if len(s.retried) == 0 || s.retried[0] != "a StoreDown" {
						t.Errorf("reported %q; want that the store is down", s.retried)
					}
					s.mu.Unlock()
				}
				s.requests.cutOff.Store(false)
				pass(time.Minute)
				s.add(0, 2, 3)
				pass(time.Second)
				m.wantEntry("c", "COMPLETED 1")
				equal(t, "records settled", s.settledNow(), 3)
			})
		})
	}
}
