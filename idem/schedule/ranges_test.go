package schedule_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/schedule"
	"github.com/idemsk/idemsk/idem/store"
)

// A fresh record costs no claim: the lease is claimed, the keys are read, and the completions insert their
// entries. A redelivery costs the lease and the reads.
func TestRangeClaimsNoKey(t *testing.T) {
	p := newPartitions(t, []string{"a", "b", "c"})
	one := p.byPartition()
	p.wantEnded(one.deliver(t.Context(), 0, 0, 3), "Executed Executed Executed")
	p.wantRuns("a attempt 1", "b attempt 1", "c attempt 1")
	if asked := strings.Join(one.requests.asked, ", "); !strings.HasPrefix(asked,
		"claim 1, look 3, complete ") || !strings.HasSuffix(asked, ", release 1") {
		t.Errorf("requests: %s", asked)
	}
	lease := p.wantEntry("ns%t-0", "STARTED 0")
	if kept := lease.Range; !lease.Released() || kept == nil || *kept != (store.Range{}) {
		t.Errorf("the lease is %+v, its range %+v", lease, lease.Range)
	}
	for _, key := range []string{"a", "b", "c"} {
		if entry := p.wantEntry(key, "COMPLETED 1"); entry.Token < lease.Token ||
			string(entry.Result) != key {
			t.Errorf("entry %+v; want no smaller token than that of the lease, %d", entry, lease.Token)
		}
	}
	two := p.byPartition()
	p.wantEnded(two.deliver(t.Context(), 0, 0, 3), "Replayed Replayed Replayed")
	two.requests.wantAsked(t, "claim 1", "look 3", "release 1")
	p.wantRuns("a attempt 1", "b attempt 1", "c attempt 1")
	if next := p.wantEntry("ns%t-0", "STARTED 0"); next.Token <= lease.Token {
		t.Errorf("token %d after %d", next.Token, lease.Token)
	}
}

// An error inserts the entry with its attempt. The next deliveries claim the key, and the dead letter follows
// the last attempt.
func TestRangeCountsFailedAttempts(t *testing.T) {
	p := newPartitions(t, []string{"a", "b", "c"})
	broken := true
	p.handle = func(_ context.Context, key string) error {
		if key == "b" && broken {
			return errors.New("broken")
		}
		return nil
	}
	one := p.byPartition()
	p.wantEnded(one.deliver(t.Context(), 0, 0, 3), "Executed Retry Behind")
	p.wantEntry("b", "STARTED 1")
	p.wantEnded(one.deliver(t.Context(), 0, 0, 3), "Replayed Retry Behind")
	p.wantRuns("a attempt 1", "b attempt 1", "b attempt 2")
	p.wantEnded(one.deliver(t.Context(), 0, 1, 3), "DeadLettered Executed")
	p.wantEntry("b", "FAILED 3")
	broken = false
	p.wantEnded(one.deliver(t.Context(), 0, 0, 3), "Replayed ReplayedFailed Replayed")
	if !slices.Equal(p.dead, []string{"b"}) {
		t.Errorf("dead letters of %q", p.dead)
	}
}

// A process that died leaves its lease. The records that it may have begun are claimed by their keys, so that
// further deaths are counted.
func TestRangeOfADeadProcessIsClaimedByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPartitions(t, []string{"a", "b", "c", "d"})
		kill := func(one *process) func(context.Context, string) error {
			return func(ctx context.Context, key string) error {
				if key == "b" {
					pass(time.Second) // the completion before it is answered
					one.requests.cutOff.Store(true)
					<-ctx.Done()
				}
				return nil
			}
		}
		for range rangeAttempts {
			one := p.byPartition()
			p.handle = kill(one)
			one.deliver(t.Context(), 0, 0, 3)
			pass(2 * rangeLease)
		}
		p.wantRuns("a attempt 1", "b attempt 1", "b attempt 1", "b attempt 2")
		p.handle = nil
		last := p.byPartition()
		p.wantEnded(last.deliver(t.Context(), 0, 0, 4), "Replayed Executed Executed Executed")
		if asked := strings.Join(last.requests.asked, ", "); !strings.HasPrefix(asked, "claim 1, look 4, ") ||
			!strings.Contains(asked, "claim 1, extend") && strings.Count(asked, "claim") < 2 {
			t.Errorf("requests: %s; want the keys up to the end of the dead batch to be claimed", asked)
		}
		p.wantTill(3)
	})
}

// Batches that end before the last record that a dead owner may have begun, or begin behind it, keep that
// position. So each further death is counted.
func TestRangeKeepsWhatADeadProcessMayHaveBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPartitions(t, []string{"a", "b", "c", "d", "e"})
		var dying *process
		p.handle = func(ctx context.Context, key string) error {
			if key == "b" {
				dying.requests.cutOff.Store(true)
				<-ctx.Done()
			}
			return nil
		}
		for range 2 {
			dying = p.byPartition()
			dying.deliver(t.Context(), 0, 0, 3)
			pass(2 * rangeLease)
			p.wantEnded(p.byPartition().deliver(t.Context(), 0, 4, 5), "Executed")
			p.byPartition().deliver(t.Context(), 0, 0, 1)
			p.wantTill(3)
			for _, key := range []string{"a", "e"} {
				if err := p.store.Delete(t.Context(), key, p.get(key).Token); err != nil {
					t.Fatal(err)
				}
			}
		}
		p.wantEntry("b", "STARTED 1")
	})
}

// A batch that two processes have at once is handled by one of them. The other one waits for the lease, and
// reads the results.
func TestRangeInFlightElsewhereIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPartitions(t, []string{"a", "b"})
		p.handle = func(context.Context, string) error { pass(2 * rangeLease); return nil }
		var both sync.WaitGroup
		ended := make([]string, 2)
		for i := range ended {
			both.Go(func() { ended[i] = p.byPartition().deliver(t.Context(), 0, 0, 2) })
			synctest.Wait()
		}
		both.Wait()
		p.wantRuns("a attempt 1", "b attempt 1")
		p.wantEnded(ended[0], "Executed Executed")
		p.wantEnded(ended[1], "Replayed Replayed")
	})
}

// A handler whose lease is taken by another process learns it, and its completion is refused.
func TestRangeLostWhileAHandlerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPartitions(t, []string{"a", "b"})
		one := p.byPartition()
		p.handle = func(ctx context.Context, _ string) error {
			if one == nil {
				return nil
			}
			one.requests.cutOff.Store(true)
			<-ctx.Done()
			one.requests.cutOff.Store(false)
			if !errors.Is(context.Cause(ctx), idem.ErrLeaseLost) {
				t.Errorf("the context ended by %v", context.Cause(ctx))
			}
			one = nil
			p.wantEnded(p.byPartition().deliver(t.Context(), 0, 0, 2), "Executed Executed")
			return nil
		}
		p.wantEnded(one.deliver(t.Context(), 0, 0, 2), "Replayed NotStarted")
		p.wantRuns("a attempt 1", "a attempt 1", "b attempt 1")
	})
}

// A key of several records of a batch is claimed, so that the second is compared with what the first has
// requested.
func TestRangeClaimsAKeyOfTwoRecords(t *testing.T) {
	p := newPartitions(t, []string{"a", "b", "a"})
	one := p.byPartition()
	items := one.items(0, 0, 3)
	items[2].Task.Fingerprint = store.FingerprintOf([]byte("another request"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	one.run(ctx, items, rangeOf(0, items))
	p.wantEnded(endsOf(items), "Executed Executed Mismatched")
	p.wantRuns("a attempt 1", "b attempt 1")
}

// Items with one key in a batch, a redriven record, and a key that another process holds are claimed by their
// keys.
func TestRangeLeavesKeysToClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPartitions(t, []string{"a", "b", "a", "c"})
		p.store.Claim(t.Context(), []store.ClaimRequest{{Key: "b", Owner: "other", Lease: time.Second,
			Retention: time.Hour}})
		one := p.byPartition()
		p.wantEnded(one.deliver(t.Context(), 0, 0, 4), "Executed Executed Executed Executed")
		p.wantRuns("a attempt 1", "b attempt 2", "c attempt 1")
		lease := p.wantEntry("ns%t-0", "STARTED 0")
		if a := p.wantEntry("a", "COMPLETED 1"); a.Token < lease.Token {
			t.Errorf("a key that its range's owner claims has token %d; want at least that of the lease, %d",
				a.Token, lease.Token)
		}
	})
}

// Without the store no handler is called.
func TestRangeWithoutStore(t *testing.T) {
	p := newPartitions(t, []string{"a", "b"})
	one := p.byPartition()
	one.requests.cutOff.Store(true)
	p.wantEnded(one.deliver(t.Context(), 0, 0, 2), "StoreDown Behind")
	p.wantRuns()
}

// A bulk handler is called for the records that the lease holds, and for those whose keys are claimed.
func TestRangeOfABulkHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPartitions(t, []string{"a", "b", "c", "a"})
		p.bulk = true
		p.handle = func(_ context.Context, key string) error {
			switch key {
			case "a":
				pass(2 * rangeLease)
			case "b":
				return errors.New("broken")
			}
			return nil
		}
		var both sync.WaitGroup
		ended := make([]string, 2)
		one := p.byPartition()
		for i := range ended {
			both.Go(func() { ended[i] = one.deliver(t.Context(), 0, 0, 4) })
			synctest.Wait()
		}
		both.Wait()
		p.wantEnded(ended[0], "Executed Retry Executed Executed")
		p.wantEnded(ended[1], "Replayed Retry Replayed Replayed")
		p.wantEntry("b", "STARTED 2")
		p.handle = nil
		p.wantEnded(one.deliver(t.Context(), 0, 0, 4), "Replayed Executed Replayed Replayed")
		p.wantEntry("b", "COMPLETED 3")
	})
}

// An item is handled alone while the lease of another partition is waited for. What becomes of the items of
// that partition is the business of the goroutine that waits (found by the race detector).
func TestRangeIsWaitedForWhileAnItemIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPartitions(t, []string{"a", "b"}, []string{"c", "d"})
		p.handle = func(_ context.Context, key string) error {
			if key == "c" {
				pass(2 * time.Second)
			}
			return nil
		}
		go p.byPartition().deliver(t.Context(), 1, 0, 1)
		pass(time.Millisecond)
		const ofDead = 17 * time.Second // ends while partition 1 is read
		p.store.Claim(t.Context(), []store.ClaimRequest{{Key: "a", Owner: "dead", Lease: ofDead,
			Retention: time.Hour, Fingerprint: store.FingerprintOf([]byte("a"))}})
		engine, err := idem.New(slowReads{p.store}, idem.Config{ClaimByPartition: true, Lease: rangeLease})
		if err != nil {
			t.Fatal(err)
		}
		scheduler, err := schedule.New(engine, schedule.Config{})
		if err != nil {
			t.Fatal(err)
		}
		lanes := [][]*schedule.Item{p.items(0, 0, 2), p.items(1, 0, 2)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		scheduler.Run(ctx, lanes, rangeOf(0, lanes[0]), rangeOf(1, lanes[1]))
		p.wantEnded(endsOf(lanes[0]), "Executed Executed")
		p.wantEnded(endsOf(lanes[1]), "Replayed Executed")
	})
}

// slowReads is a store that answers reads late.
type slowReads struct{ *memstore.Store }

// Look implements store.Ranger.
func (s slowReads) Look(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results := s.Store.Look(ctx, reqs)
	// no timer and no heartbeat, which would hide the race, ends between the end of the dead owner's lease
	// and that of a read
	pass(9500 * time.Millisecond)
	return results
}
