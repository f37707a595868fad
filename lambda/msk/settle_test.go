package msk_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/lambda/msk"
)

// The key of recordAt("payments-0@7", "a") as it is stored.
const keyA = "ledger#payments#a"

// failing returns a handler that fails n times and then succeeds.
func failing(times int, err error) func(context.Context, msk.Record) error {
	return func(context.Context, msk.Record) error {
		if times--; times >= 0 {
			return err
		}
		return nil
	}
}

func TestPanicIsAFailureOfItsRecord(t *testing.T) {
	s := newFixture(t)
	s.ledger.on["a"] = func(context.Context, msk.Record) error { panic("nil map") }
	equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-1@3", "b")),
		"payments-0@7")
	line := s.log.about("payments-0@7")
	wantContains(t, line["error"].(string), "panicked: nil map")
	wantContains(t, line["stack"].(string), "settle_test.go")
	equal(t, "effects of the other partition", s.ledger.effects["b"], 1)
	for range 4 {
		s.deliver(recordAt("payments-0@7", "a"))
	}
	equal(t, "the letter's code", s.letters.sent[0].Error.Code, store.CodePanic)
}

// A handler that ends its goroutine does not settle its key.
func TestHandlerThatEndsItsGoroutineIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		leave := func(context.Context, msk.Record) error {
			runtime.Goexit()
			return nil
		}
		s.ledger.on["a"], s.ledger.on["c"] = leave, leave
		equalSlices(t, "reported places",
			s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-1@3", "a"),
				recordAt("payments-2@1", "b"), recordAt("payments-3@1", "c")),
			"payments-0@7", "payments-1@3", "payments-3@1")
		for _, place := range []string{"payments-0@7", "payments-1@3", "payments-3@1"} {
			wantContains(t, s.log.about(place)["error"].(string), "runtime.Goexit")
		}
		s.ledger.on["a"] = nil
		equal(t, "status", s.get(keyA).Status, store.StatusStarted)
		equal(t, "effects of the other key", s.ledger.effects["b"], 1)
		begun := time.Now()
		equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a")))
		equal(t, "it waited for the lease", time.Since(begun) > 29*time.Second, true)
		equal(t, "stolen", s.last().Stolen, 1)
	})
}
