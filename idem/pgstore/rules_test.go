//go:build servers

package pgstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/storetest"
)

// everyWay runs a test with each configuration of the suite.
func everyWay(t *testing.T, test func(t *testing.T, pool *pgxpool.Pool, clock int)) {
	t.Helper()
	for _, way := range []struct {
		name   string
		clock  int
		params string
	}{
		{"a clock that stands still", stands, ""},
		{"the server's clock", ticks, ""},
		{"without prepared statements, as through a pooler", stands, "&default_query_exec_mode=exec"},
	} {
		t.Run(way.name, func(t *testing.T) { test(t, newPool(t, server.URL()+way.params), way.clock) })
	}
}

func TestRules(t *testing.T) {
	everyWay(t, func(t *testing.T, pool *pgxpool.Pool, clock int) {
		storetest.Run(t, func(t *testing.T) storetest.Harness { return harness(t, pool, clock) })
	})
}

func TestAgreesWithMemory(t *testing.T) {
	pool := newPool(t, server.URL())
	storetest.AgreesWith(t, func(*rapid.T) (under, oracle storetest.Harness) {
		under = harness(t, pool, stands)
		return under, memory(under)
	})
}

// memory returns a memory store with the same clock as under.
func memory(under storetest.Harness) storetest.Harness {
	clock := storetest.NewClock()
	mem := memstore.New(memstore.Config{Clock: clock.Now, MaxClockSkew: under.Skew})
	return storetest.Harness{Store: mem, Now: clock.Now, Advance: clock.Advance, Skew: under.Skew,
		Sweep: func(testing.TB) { mem.Sweep() }}
}
