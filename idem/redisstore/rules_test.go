//go:build servers

package redisstore_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/storetest"
)

// everyWay runs a test on every server with every clock.
func everyWay(t *testing.T, test func(t *testing.T, client redis.UniversalClient, w *wire, clock int)) {
	t.Helper()
	for _, way := range []struct {
		name  string
		url   string
		clock int
	}{
		{"Redis, a clock that stands still", server.URL(), stands},
		{"Redis, the server's clock", server.URL(), ticks},
		{"Redis, by RESP2", server.URL() + "?protocol=2", stands},
		{"Redis Cluster", cluster.URL(), stands},
		{"Valkey, a clock that stands still", valkey.URL(), stands},
		{"Valkey, the server's clock", valkey.URL(), ticks},
	} {
		t.Run(way.name, func(t *testing.T) {
			var w wire
			test(t, newClient(t, way.url, w.option, unhurried), &w, way.clock)
		})
	}
}

func TestRules(t *testing.T) {
	everyWay(t, func(t *testing.T, client redis.UniversalClient, w *wire, clock int) {
		storetest.Run(t, func(t *testing.T) storetest.Harness { return harness(t, client, w, clock) })
		if w.lost.Load() < 9 {
			t.Errorf("%d replies were lost; want one for each test of rule 5 that asks for it", w.lost.Load())
		}
	})
}

func TestAgreesWithMemory(t *testing.T) {
	for name, url := range map[string]string{"Redis": server.URL(), "Redis Cluster": cluster.URL(),
		"Valkey": valkey.URL()} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, url, unhurried)
			storetest.AgreesWith(t, func(*rapid.T) (under, oracle storetest.Harness) {
				under = harness(t, client, new(wire), stands)
				return under, memory(under)
			})
		})
	}
}

// memory returns a store in memory with the same time as under.
func memory(under storetest.Harness) storetest.Harness {
	clock := storetest.NewClock()
	mem := memstore.New(memstore.Config{Clock: clock.Now, MaxClockSkew: under.Skew})
	return storetest.Harness{Store: mem, Now: clock.Now, Advance: clock.Advance, Skew: under.Skew,
		Sweep: func(testing.TB) { mem.Sweep() }}
}
