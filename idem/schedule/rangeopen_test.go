package schedule_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/schedule"
	"github.com/idemsk/idemsk/idem/store"
)

// Process A holds the lease of a partition that B has got while the store was down. B fails open, and calls
// no handler without protection once the store answers that A has the lease.
func TestStreamThatFailsOpenStopsWhenTheStoreAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMembers(t, []string{"a", "b", "c", "d", "e"})
		release := make(chan struct{})
		m.handle = func(ctx context.Context, key string) error {
			if key == "a" { // it outlasts the revocation
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			return nil
		}
		a := m.byPartition()
		a.add(0, 0, 1)
		pass(time.Second)
		a.revoke(ended(), 0)

		b := m.start(idem.Config{ClaimByPartition: true, FailOpen: true})
		b.requests.cutOff.Store(true)
		b.add(0, 1, 2)
		pass(time.Minute)
		b.wantEnd("b FailedOpen")
		b.requests.cutOff.Store(false)
		// the breaker lets a claim through, and then the stream tries the lease
		pass(2*idem.Defaults().BreakerCooldown + time.Second)
		for i := 2; i < 5; i++ {
			b.add(0, i, i+1)
			pass(time.Minute)
		}
		b.wantEnd("b FailedOpen")
		close(release)
		pass(time.Minute)
		b.wantEnd("b FailedOpen", "c Executed", "d Executed", "e Executed")
	})
}

// While the store does not answer the claim of the lease, a process that fails open claims the keys: a
// handler runs without protection only if the store does not answer that either.
func TestRangeThatFailsOpenClaimsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMembers(t, []string{"a", "b", "c", "d"})
		lost := leaseless{m.store}
		open := func() *schedule.Scheduler {
			e, err := idem.New(lost, idem.Config{ClaimByPartition: true, FailOpen: true,
				Lease: rangeLease, BreakerFailures: -1})
			if err != nil {
				t.Fatal(err)
			}
			s, err := schedule.New(e, schedule.Config{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		p := &process{partitions: m.partitions, scheduler: open()}
		m.wantEnded(p.deliver(t.Context(), 0, 0, 1), "Executed")
		p.bulk = true
		m.wantEnded(p.deliver(t.Context(), 0, 1, 2), "Executed")
		s := &rangeStream{members: m}
		s.stream = open().Stream(t.Context(), s.note(&s.ended), s.note(&s.retried))
		defer s.stream.Close(ended())
		s.add(0, 2, 4)
		pass(time.Second)
		s.wantEnd("c Executed", "d Executed")
		for _, key := range m.topic[0] {
			m.wantEntry(key, "COMPLETED 1")
		}
	})
}

// leaseless is a store that does not answer claims of leases.
type leaseless struct{ *memstore.Store }

// Claim implements store.Store.
func (l leaseless) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	if reqs[0].Range != nil {
		return failed(len(reqs), errCutOff)
	}
	return l.Store.Claim(ctx, reqs)
}

// The store answers that another owner has the lease while claims of keys are in progress. Their records wait
// for the lease.
func TestStreamWhoseLeaseIsFoundElsewhereWhileItClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMembers(t, []string{"a", "b", "c"})
		store := &slowAnswers{Store: m.store, lease: make(chan struct{}), keys: make(chan struct{})}
		e, err := idem.New(store, idem.Config{ClaimByPartition: true, FailOpen: true,
			Lease: rangeLease, BreakerFailures: -1})
		if err != nil {
			t.Fatal(err)
		}
		scheduler, err := schedule.New(e, schedule.Config{})
		if err != nil {
			t.Fatal(err)
		}
		s := &rangeStream{members: m}
		s.stream = scheduler.Stream(t.Context(), s.note(&s.ended), s.note(&s.retried))
		defer s.stream.Close(ended())
		s.add(0, 0, 3)
		pass(time.Minute)
		close(store.lease)
		synctest.Wait()
		close(store.keys)
		pass(10 * time.Millisecond) // the next claim of the lease is later
		s.wantEnd()
		pass(time.Minute)
		s.wantEnd("a Executed", "b Executed", "c Executed")
	})
}

// slowAnswers is a store that does not answer the first claim of a lease, and answers the second one when it
// is told to: another owner has the lease. It answers claims of keys when it is told to.
type slowAnswers struct {
	*memstore.Store
	claims      atomic.Int32
	lease, keys chan struct{}
}

// Claim implements store.Store.
func (s *slowAnswers) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	if reqs[0].Range == nil {
		<-s.keys
		return s.Store.Claim(ctx, reqs)
	}
	switch s.claims.Add(1) {
	case 1:
		return failed(len(reqs), errCutOff)
	case 2:
		<-s.lease
		return []store.ClaimResult{{State: store.ClaimInFlight, ClaimableIn: time.Second,
			Entry: store.Entry{Status: store.StatusStarted}}}
	}
	return s.Store.Claim(ctx, reqs)
}
