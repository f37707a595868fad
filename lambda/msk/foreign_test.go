package msk_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// A key whose entry is foreign blocks only its own partition and raises an alarm, because redeliveries do not
// help.
func TestForeignEntryIsReportedWithAnAlarm(t *testing.T) {
	for name, size := range map[string]int{"one claim a request": 1, "many claims a request": 25} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			s.engine.FailOpen = true
			s.store.Store = memstore.New(memstore.Config{BatchSize: size})
			s.store.onClaim = func(_ context.Context, req *store.ClaimRequest,
				land func() store.ClaimResult) store.ClaimResult {
				if req.Key == keyA {
					return store.ClaimResult{Err: fmt.Errorf("claim %q: %w", req.Key, store.ErrForeignEntry)}
				}
				return land()
			}
			for range 6 { // failures of a store would open the circuit breaker
				equalSlices(t, "reported places",
					s.deliver(recordAt("payments-0@6", "z"), recordAt("payments-0@7", "a"),
						recordAt("payments-0@8", "b"), recordAt("payments-1@1", "c")), "payments-0@7",
					"payments-0@8")
				equal(t, "retried", s.last().Retried, 1)
				equal(t, "blocked", s.last().Blocked, 1)
				equal(t, "store down", s.last().StoreDown, 0)
			}
			line := s.log.about("payments-0@7")
			equal(t, "level", line["level"], any("ERROR"))
			equal(t, "alarm", line["alarm"], any(true))
			equal(t, "key", line["key"], any(keyA))
			wantContains(t, line["error"].(string), keyA, "not written by idemsk")
			equal(t, "calls for it", s.ledger.calls["a"], 0)
			equal(t, "effects of the others", s.ledger.total(), 2)
			equal(t, "dead letters", len(s.letters.sent), 0)

			s.store.up()
			equalSlices(t, "reported places once it is fixed",
				s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-0@8", "b")))
			equal(t, "effects", s.ledger.total(), 4)
		})
	}
}
