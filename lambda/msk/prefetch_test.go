package msk_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

// newBatchedFixture returns a fixture whose store takes n elements per request.
func newBatchedFixture(t testing.TB, n int) *fixture {
	s := newFixture(t)
	s.store.Store = memstore.New(memstore.Config{BatchSize: n})
	return s
}

// records returns n records with different keys, distributed over the partitions.
func manyRecords(n, partitions int) []record {
	records := make([]record, n)
	for i := range records {
		records[i] = recordAt(place(fmt.Sprintf("payments-%d", i%partitions), int64(i)),
			fmt.Sprintf("k%d", i))
	}
	return records
}

// Claims are sent in full requests, whatever the lanes of the batch are.
func TestClaimsAreSentInFullRequests(t *testing.T) {
	const batch, total = 25, 1000
	for _, tc := range []struct {
		name       string
		order      kafka.Order
		partitions int
	}{
		{"units of one record", kafka.Unordered, 1}, {"1 partition", kafka.ByPartition, 1},
		{"3 partitions", kafka.ByPartition, 3},
		{"6 partitions", kafka.ByPartition, 6}, {"40 partitions", kafka.ByPartition, 40},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newBatchedFixture(t, batch)
				s.cfg.Records.Order = tc.order
				s.ledger.book = func(context.Context, msk.Record) ([]byte, error) {
					<-time.After(time.Millisecond) // a claim that is not in time costs
					return nil, nil
				}
				equalSlices(t, "reported places", s.deliver(manyRecords(total, tc.partitions)...))
				equal(t, "executed", s.last().Executed, total)
				requests, claims := 0, 0
				for _, n := range s.store.calls {
					requests += (n + batch - 1) / batch
					claims += n
				}
				equal(t, "claims", claims, total)
				if requests > total/batch+6 { // a partition's end need not fill a request
					t.Errorf("%d requests for %d claims, in calls of %v", requests, claims, s.store.calls)
				}
			})
		})
	}
}

// On a store that takes one element per request, each record is claimed when it is its turn.
func TestPlainStoreClaimsEachRecordInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.ledger.fails("k2", errBoom)
		s.deliver(manyRecords(5, 1)...)
		equalSlices(t, "calls", s.store.calls, 1, 1, 1)
	})
}

// The claims of records after one that fails are released in one request, and their attempts refunded.
func TestClaimsAfterAFailureAreReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBatchedFixture(t, 25)
		s.ledger.fails("k2", errBoom)
		reported := s.deliver(manyRecords(6, 1)...)
		equalSlices(t, "reported places", reported, "payments-0@2", "payments-0@3", "payments-0@4",
			"payments-0@5")
		for _, key := range []string{"k3", "k4", "k5"} {
			entry := s.get("ledger#payments#" + key)
			equal(t, "released: "+key, entry.Released(), true)
			equal(t, "attempts of "+key, entry.Attempts, 0)
			equal(t, "calls of the handler for "+key, s.ledger.calls[key], 0)
		}
		equal(t, "attempts of the one that failed", s.get("ledger#payments#k2").Attempts, 1)
		equal(t, "releases", s.store.count(store.OpRelease), 4)
		delete(s.ledger.on, "k2")
		equalSlices(t, "reported places", s.deliver(manyRecords(6, 1)...))
		equal(t, "effects", s.ledger.total(), 6)
	})
}

// The same holds at the deadline, for lanes that wait for a slot and for a lane that runs.
func TestUnusedClaimsAreReleasedAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBatchedFixture(t, 25)
		s.cfg.Records.Concurrency = 2
		for _, key := range []string{"k0", "k1"} {
			s.ledger.takes(key, timeout-400*time.Millisecond) // into the margin
		}
		equal(t, "reported records", len(s.deliver(manyRecords(12, 4)...)), 10)
		for key := range s.keys() {
			if key == "ledger#payments#k0" || key == "ledger#payments#k1" {
				continue
			}
			entry := s.get(key)
			equal(t, "attempts of "+key, entry.Attempts, 0)
			equal(t, "released: "+key, entry.Released(), true)
		}
	})
}

// Before a lane waits for a key that is in flight elsewhere, it releases its other claims: another process
// may wait for one of them while it holds the key.
func TestWaitingLaneHoldsNoClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBatchedFixture(t, 25)
		held := s.store.hold(elsewhere("k1", time.Minute)).Entry
		held.Fingerprint = store.FingerprintOf([]byte("value of k1"))
		free := false
		go func() {
			pass(10 * time.Second)
			entry := s.get("ledger#payments#k2")
			free = entry.Released() && entry.Attempts == 0
			s.store.Store.Settle(context.Background(), []store.Settlement{
				{Op: store.OpComplete, Key: held.Key, Token: held.Token, Owner: held.Owner,
					Retention: time.Hour},
			})
		}()
		equalSlices(t, "reported places", s.deliver(manyRecords(4, 1)...))
		equal(t, "what is behind is free meanwhile", free, true)
		equal(t, "executed", s.last().Executed, 3)
		equal(t, "replayed", s.last().Replayed, 1)
	})
}

// A record that was in flight elsewhere when it was prefetched is claimed again when it is its turn, together
// with the records after it. The lane does not wait because of the old answer.
func TestRecordsInFlightAreClaimedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBatchedFixture(t, 25)
		const n = 100
		var held []store.Settlement
		for i := range n {
			entry := s.store.hold(elsewhere(fmt.Sprint("k", i), time.Minute)).Entry
			held = append(held, store.Settlement{Op: store.OpComplete, Key: entry.Key, Token: entry.Token,
				Owner: entry.Owner, Retention: time.Hour})
		}
		go func() {
			pass(20 * time.Second)
			s.store.Store.Settle(context.Background(), held)
		}()
		begun := time.Now()
		equalSlices(t, "reported places", s.deliver(manyRecords(n, 1)...))
		equal(t, "replayed", s.last().Replayed, n)
		if took := time.Since(begun); took > 23*time.Second { // the longest pause is 2 s
			t.Errorf("it took %v", took)
		}
		many := 0
		for _, size := range s.store.calls {
			if size > 1 {
				many++
			}
		}
		if many > 6 {
			t.Errorf("%d calls with more than one claim: %v", many, s.store.calls)
		}
		if last := s.store.calls[len(s.store.calls)-1]; last == 1 {
			t.Errorf("the last ones were claimed one by one: %v", s.store.calls)
		}
	})
}

// Records with one key are claimed one after another, and a later one is claimed when it is the next of its
// partition.
func TestRecordsThatShareAKeyAreNotPrefetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBatchedFixture(t, 25)
		equalSlices(t, "reported places", s.deliver(
			recordAt("payments-0@1", "a"), recordAt("payments-0@2", "b"), recordAt("payments-0@3", "shared"),
			recordAt("payments-0@4", "c"), recordAt("payments-0@5", "d"),
			recordAt("payments-0@6", "shared").with("another value"), recordAt("payments-0@7", "e"),
		))
		// the first teaches the pace; the mismatch is claimed anew under its place, and the last one after it
		equalSlices(t, "calls", s.store.calls, 1, 1, 3, 2, 1, 1)
		equal(t, "dead letters", len(s.letters.sent), 1)
	})
}

// A record whose owners died twice runs while no other record is in progress or claimed, and no completion
// unconfirmed.
func TestTakeOverRunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBatchedFixture(t, 25)
		s.store.die("k3", 2)
		var claimed, running int
		s.ledger.on["k3"] = func(context.Context, msk.Record) error {
			for entry, err := range s.store.List(context.Background(),
				store.ListQuery{Status: store.StatusStarted}) {
				if err != nil {
					return err
				}
				if !entry.Released() {
					claimed++
				}
			}
			s.ledger.mu.Lock()
			running = s.ledger.running
			s.ledger.mu.Unlock()
			return nil
		}
		for i := range 12 {
			if i != 3 {
				s.ledger.takes(fmt.Sprint("k", i), time.Second)
			}
		}
		equalSlices(t, "reported places", s.deliver(manyRecords(12, 4)...))
		equal(t, "claims held meanwhile", claimed, 1)
		equal(t, "handlers at work meanwhile", running, 1)
		equal(t, "stolen", s.last().Stolen, 1)
		equal(t, "executed", s.last().Executed, 12)
	})
}

// Before a key of a dead owner is taken over all claims are released. Afterwards they are sent in groups
// again, and not one by one.
func TestClaimsReleasedByATakeOverAreGroupedAgain(t *testing.T) {
	const total, batch = 1000, 25
	for name, c := range map[string]struct{ dead, apart, most int }{
		"one": {1, 1, 70}, "ten, here and there": {10, 90, 85}, "what one process had claimed": {250, 1, 320},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newBatchedFixture(t, batch)
				s.cfg.Records.Order, s.cfg.Records.Concurrency = kafka.Unordered, 32
				for i := range c.dead {
					s.store.die(fmt.Sprint("k", 40+i*c.apart), 2)
				}
				for i := range total {
					s.ledger.takes(fmt.Sprint("k", i), 5*time.Millisecond)
				}
				s.store.calls = nil
				equalSlices(t, "reported places", s.deliver(manyRecords(total, 1)...))
				equal(t, "taken over", s.last().Stolen, c.dead)
				requests := 0
				for _, claims := range s.store.calls {
					requests += (claims + batch - 1) / batch
				}
				if requests > c.most {
					t.Errorf("%d requests for claims; want at most %d", requests, c.most)
				}
			})
		})
	}
}

// Prefetched claims never need an extension, whatever the handlers' latency is.
func TestPrefetchIsBoundedByTheLease(t *testing.T) {
	for name, c := range map[string]struct {
		order               kafka.Order
		partitions, records int
		takes               time.Duration
	}{
		"a partition":             {kafka.ByPartition, 1, 100, 2 * time.Second},
		"partitions":              {kafka.ByPartition, 3, 300, 2 * time.Second},
		"half a second":           {kafka.ByPartition, 3, 300, time.Second / 2},
		"longer than a lease":     {kafka.ByPartition, 3, 12, 35 * time.Second},
		"units of one":            {kafka.Unordered, 1, 1000, 2500 * time.Millisecond},
		"units of one, very slow": {kafka.Unordered, 1, 200, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newBatchedFixture(t, 25)
				s.cfg.Records.Order, s.cfg.Records.Concurrency = c.order, 32
				var extends atomic.Int64
				s.store.onSettle = func(_ context.Context, set *store.Settlement, land func() error) error {
					if set.Op == store.OpExtend {
						extends.Add(1)
					}
					return land()
				}
				for i := range c.records {
					s.ledger.takes(fmt.Sprint("k", i), c.takes)
				}
				equalSlices(t, "reported places", s.deliver(manyRecords(c.records, c.partitions)...))
				// of handlers that are longer than a third of a lease
				beats := c.records * int(c.takes/(10*time.Second))
				equal(t, "renewed leases", int(extends.Load()), beats)
			})
		})
	}
}
