//go:build servers

package pgstore_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/storetest"
)

func TestRules(t *testing.T) {
	const unprepared = "&default_query_exec_mode=exec"
	for _, way := range []struct {
		name   string
		clock  int
		params string
		enlist bool
	}{
		{"a clock that stands still", stands, "", false},
		{"the server's clock, effects enlisted", ticks, "", true},
		{"without prepared statements, as through a pooler", stands, unprepared, false},
		{"without prepared statements, effects enlisted", stands, unprepared, true},
	} {
		t.Run(way.name, func(t *testing.T) {
			pool := newPool(t, server.URL()+way.params)
			storetest.Run(t, func(t *testing.T) storetest.Harness {
				return harness(t, pool, way.clock, way.enlist)
			})
		})
	}
}

func TestAgreesWithMemory(t *testing.T) {
	pool := newPool(t, server.URL())
	storetest.AgreesWith(t, func(*rapid.T) (under, oracle storetest.Harness) {
		under = harness(t, pool, stands, false)
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
