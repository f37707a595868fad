package dynamostore_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

func TestRules(t *testing.T) { keepsTheRules(t, fake(t).URL()) }

func keepsTheRules(t *testing.T, url string) {
	t.Helper()
	onBothPaths(t, func(t *testing.T, batched bool) {
		storetest.Run(t, func(t *testing.T) storetest.Harness {
			h, _ := harness(t, url, batched)
			return h
		})
	})
}

func TestAgreesWithMemory(t *testing.T) {
	srv := fake(t)
	testkit.Histories(t, testkit.Size(t, 25, 100))
	onBothPaths(t, func(t *testing.T, batched bool) {
		storetest.AgreesWith(t, func(*rapid.T) (under, oracle storetest.Harness) {
			under, _ = harness(t, srv.URL(), batched)
			clock := storetest.NewClock()
			mem := memstore.New(memstore.Config{Clock: clock.Now, MaxClockSkew: under.Skew})
			return under, storetest.Harness{
				Store: mem, Now: clock.Now, Advance: clock.Advance, Skew: under.Skew,
				Sweep: func(testing.TB) { mem.Sweep() },
			}
		})
	})
}

// Two hosts have clocks that differ by a little less than MaxClockSkew, in either direction: a live lease is
// not taken, and a completion is replayed during its whole retention.
func TestClocksWithinTheSkew(t *testing.T) {
	const lease, retention = 30 * time.Second, time.Minute
	srv := fake(t)
	onBothPaths(t, func(t *testing.T, batched bool) {
		for _, off := range []time.Duration{-store.DefaultMaxClockSkew + time.Millisecond,
			store.DefaultMaxClockSkew - time.Millisecond} {
			h, _ := harness(t, srv.URL(), batched)
			other, err := dynamostore.New(client(newWire(t), srv.URL()), dynamostore.Config{
				Table: h.Store.(*dynamostore.Store).Table(),
				Clock: func() time.Time { return h.Now().Add(off) },
			})
			if err != nil {
				t.Fatal(err)
			}
			claim := func(s store.Store, owner string, want store.ClaimState) store.ClaimResult {
				return mustClaim(t, s, []store.ClaimRequest{{Key: "k", Owner: owner, Lease: lease,
					Retention: retention, TakeOver: true}}, want)[0]
			}
			entry := claim(h.Store, "one", store.Claimed).Entry
			h.Advance(lease - time.Millisecond)
			claim(other, "other", store.ClaimInFlight)
			complete := store.Settlement{Op: store.OpComplete, Key: "k", Token: entry.Token,
				Owner: entry.Owner, Retention: retention}
			if errs := h.Store.Settle(t.Context(), []store.Settlement{complete}); errs != nil {
				t.Fatal(errs)
			}
			h.Advance(retention - time.Millisecond)
			claim(other, "other", store.ClaimCompleted)
			h.Advance(2*store.DefaultMaxClockSkew + time.Second)
			claim(other, "other", store.Claimed)
		}
	})
}

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, newStore(b, client(newWire(b), fake(b).URL()), dynamostore.Config{}))
}
