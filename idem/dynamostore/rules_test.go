package dynamostore_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/storetest"
)

func TestRules(t *testing.T) {
	srv := fake(t)
	onBothPaths(t, func(t *testing.T, batched bool) {
		storetest.Run(t, func(t *testing.T) storetest.Harness {
			h, _ := harness(t, srv.URL(), batched)
			return h
		})
	})
}

func TestAgreesWithMemory(t *testing.T) {
	srv := fake(t)
	onBothPaths(t, func(t *testing.T, batched bool) {
		storetest.AgreesWith(t, func(*rapid.T) (under, oracle storetest.Harness) {
			under, _ = harness(t, srv.URL(), batched)
			clock := storetest.NewClock()
			mem := memstore.New(memstore.Config{Clock: clock.Now, MaxClockSkew: under.Skew})
			return under, storetest.Harness{
				Store: mem, Now: clock.Now, Advance: clock.Advance, Skew: under.Skew, Sweep: func(testing.TB) { mem.Sweep() },
			}
		})
	})
}

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, newStore(b, client(newWire(b), fake(b).URL()), dynamostore.Config{}))
}
