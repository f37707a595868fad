package idem_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// While the store is down no handler is called, and one request at a time tries the store. The stream goes on
// within twice the breaker's cooldown.
func TestStreamWaitsWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, idem.Config{}, idem.SchedulerConfig{})
		s.add("warm up", "w1", "w2") // for an estimate, with which many claims are sent
		pass(time.Second)
		s.store.setDown(errNetwork)
		before := len(s.store.calls())
		for i := range 1000 {
			s.add(fmt.Sprint("lane", i), fmt.Sprint("k", i))
		}
		pass(time.Minute)
		first := len(s.store.calls())
		pass(time.Hour)
		s.want("calls", &s.calls, "w1", "w2")
		calls := s.store.calls()
		if n := len(calls) - first; n < 3600/10 || n > 3600/5*2 {
			t.Errorf("%d calls in an hour", n)
		}
		if n := slices.Max(calls[first:]); n > 25 {
			t.Errorf("a call of %d claims tries the store", n)
		}
		s.mu.Lock()
		if n, limit := len(s.retried), 2*len(calls); n < len(calls)-before || n > limit {
			t.Errorf("%d tries were reported; want one for each of %d calls, and for each that the breaker refused", n, len(calls)-before)
		}
		if !strings.HasSuffix(s.retried[0], " StoreDown") {
			t.Errorf("the first try that was reported: %s", s.retried[0])
		}
		s.mu.Unlock()
		s.store.setDown(nil)
		pass(12 * time.Second) // the breaker may refuse the first claim
		synctest.Wait()
		equal(t, "items settled", len(s.ended), 1002)
		s.close()
	})
}

// Items that are added while a request tries a store that does not answer wait for it, also if they are few.
func TestOneRequestTriesASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, idem.Config{}, idem.SchedulerConfig{})
		s.store.latency = time.Minute
		s.store.setDown(errNetwork)
		s.add("first", "first")
		pass(s.store.latency + 10*time.Second) // it has failed, and is tried again
		for i := range 20 {
			s.add(fmt.Sprint("next", i), fmt.Sprint("next", i))
			pass(time.Second)
		}
		s.store.mu.Lock()
		equal(t, "requests in progress", s.store.claiming, 1)
		s.store.mu.Unlock()
		s.store.setDown(nil)
		pass(10 * time.Minute)
		s.close()
	})
}

// Items with the key of an item in progress take its outcome without a request, in any lane, unless they make
// another request.
func TestStreamSharesTheOutcomeOfDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, idem.Config{}, idem.SchedulerConfig{})
		slow := func(context.Context) error { pass(time.Second); return nil }
		s.stream.Add(in("a", s.item("a1", "k", slow), s.item("a2", "k", nil), s.item("a3", "a3", nil),
			s.item("a4", "k", nil))...)
		pass(100 * time.Millisecond)
		s.stream.Add(in("b", s.item("b1", "k", nil), s.item("b2", "b2", nil))...)
		other := s.item("c1", "k", nil)
		other.Task.Fingerprint = store.FingerprintOf([]byte("another request"))
		s.stream.Add(in("c", other)...)
		pass(10 * time.Second)
		synctest.Wait()
		slices.Sort(s.calls)
		slices.Sort(s.ended)
		s.want("calls", &s.calls, "a3", "b2", "k")
		s.want("settled", &s.ended, "a1 Executed", "a2 Executed duplicate", "a3 Executed",
			"a4 Executed duplicate",
			"b1 Executed duplicate", "b2 Executed")
		s.close()
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.retried) == 0 || slices.ContainsFunc(s.retried,
			func(text string) bool { return text != "c1 Mismatched" }) {
			t.Errorf("retried: %v", s.retried)
		}
	})
}

// substituteTask replaces the task of an item whose key was refused.
type substituteTask struct{ task idem.Task }

// SubstituteFor implements idem.Substitute.
func (s substituteTask) SubstituteFor(*idem.Outcome) (idem.Task, bool) { return s.task, true }

func TestStreamRunsTheSubstituteOfAnItemWhoseKeyIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, idem.Config{}, idem.SchedulerConfig{})
		s.add("a", "k")
		pass(time.Second)
		it := s.item("a2", "k", nil)
		it.Task.Fingerprint = store.FingerprintOf([]byte("another request"))
		it.Substitute = substituteTask{s.item("a2", "instead", nil).Task}
		s.stream.Add(in("a", it)...)
		s.add("a", "a3")
		pass(time.Second)
		s.want("calls", &s.calls, "k", "instead", "a3")
		s.want("settled", &s.ended, executed("k", "a2", "a3")...)
		s.want("retried", &s.retried)
		s.close()
	})
}

// hold claims a key for another process.
func (s *streaming) hold(key string, lease time.Duration) store.Entry {
	s.Helper()
	res := s.store.Store.Claim(context.Background(), []store.ClaimRequest{{
		Key: key, Owner: "another", Fingerprint: store.FingerprintOf([]byte(key)), Lease: lease,
		Retention: time.Hour,
	}})[0]
	if res.State != store.Claimed {
		s.Fatalf("state %v: %v", res.State, res.Err)
	}
	return res.Entry
}

// An item whose key is in flight elsewhere waits for it without a slot, and its lane's claims are released
// meanwhile.
func TestStreamWaitsForAKeyInFlightElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, idem.Config{}, idem.SchedulerConfig{Concurrency: 1})
		s.add("warm up", "w1", "w2")
		pass(time.Second)
		s.hold("a1", time.Minute)
		s.stream.Add(in("a", s.item("a1", "a1", nil), s.item("a2", "a2", nil), s.item("a3", "a3", nil))...)
		s.add("b", "b1", "b2")
		pass(10 * time.Second)
		s.want("settled", &s.ended, executed("w1", "w2", "b1", "b2")...)
		for _, key := range []string{"a2", "a3"} {
			if entry, err := s.store.Get(context.Background(), key); err != nil || !entry.Released() ||
				entry.Attempts != 0 {
				t.Errorf("%s was not claimed and released: %+v, %v", key, entry, err)
			}
		}
		if n := len(s.store.calls()); n > 30 {
			t.Errorf("%d requests", n)
		}
		pass(time.Minute)
		s.want("settled", &s.ended, executed("w1", "w2", "b1", "b2", "a1", "a2", "a3")...)
		s.want("retried", &s.retried)
		s.close()
	})
}

// held returns how many keys the stream has claimed and not settled.
func (s *streaming) held() (n int) {
	for entry := range s.store.List(context.Background(), store.ListQuery{Status: store.StatusStarted}) {
		if entry.Owner != "another" && !entry.Released() {
			n++
		}
	}
	return n
}

// Claims behind a handler that hangs are released before their leases end.
func TestStreamReleasesClaimsThatHaveWaitedTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, idem.Config{Lease: 8 * time.Second}, idem.SchedulerConfig{Concurrency: 1})
		s.add("warm up", "w1", "w2")
		pass(time.Second)
		s.stream.Add(in("a", s.item("a1", "a1",
			func(context.Context) error { pass(time.Minute); return nil }))...)
		s.add("a", numbered(40)...)
		pass(time.Second)
		if n := s.held(); n < 20 {
			t.Errorf("%d keys are claimed", n)
		}
		pass(6 * time.Second)
		equal(t, "keys claimed", s.held(), 1)
		pass(time.Minute)
		s.want("settled", &s.ended, executed(append([]string{"w1", "w2", "a1"}, numbered(40)...)...)...)
		entry, err := s.store.Get(context.Background(), "k0")
		if err != nil || entry.Attempts != 1 {
			t.Errorf("%d attempts, %v", entry.Attempts, err)
		}
		s.close()
	})
}
