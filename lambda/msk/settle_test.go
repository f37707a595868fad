package msk_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/lambda/msk"
)

// The key of recordAt("payments-0@7", "a") as it is stored.
const keyA = "ledger#payments#a"

func TestFreshRecordIsExecutedAndCompleted(t *testing.T) {
	s := newFixture(t)
	var seen idem.Attempt
	s.ledger.on["a"] = func(ctx context.Context, _ msk.Record) error {
		seen, _ = idem.AttemptFrom(ctx)
		return nil
	}
	equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a")))
	got := s.get(keyA)
	equal(t, "status", got.Status, store.StatusCompleted)
	equal(t, "stored result", string(got.Result), "receipt of a")
	equal(t, "source", got.Source, "payments-0@7")
	equal(t, "what the handler knows", seen, idem.Attempt{Key: keyA, Token: got.Token, Number: 1, Source: "payments-0@7"})
	equal(t, "claims", len(s.store.claims), 1)
	equal(t, "settlements", len(s.store.settled), 1)
	equal(t, "executed", s.last().Executed, 1)
	equal(t, "lines about records", len(s.log.of("record")), 0)
}

// failing returns a handler that fails n times and then succeeds.
func failing(times int, err error) func(context.Context, msk.Record) error {
	return func(context.Context, msk.Record) error {
		if times--; times >= 0 {
			return err
		}
		return nil
	}
}

// The function does not wait for a delay beyond the deadline.
func TestRetryAfterBeyondTheDeadlineIsReportedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.ledger.fails("a", idem.RetryAfter(errBoom, time.Hour))
		s.deliver(recordAt("payments-0@7", "a"))
		begun := time.Now()
		equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a")), "payments-0@7")
		equal(t, "it took", time.Since(begun), 0)
		equal(t, "in flight", s.last().InFlight, 1)
		wantContains(t, s.log.about("payments-0@7")["error"].(string), "released until", "last failure error: boom")
	})
}

func TestPanicIsAFailureOfItsRecord(t *testing.T) {
	s := newFixture(t)
	s.ledger.on["a"] = func(context.Context, msk.Record) error { panic("nil map") }
	equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-1@3", "b")), "payments-0@7")
	line := s.log.about("payments-0@7")
	wantContains(t, line["error"].(string), "panicked: nil map")
	wantContains(t, line["stack"].(string), "settle_test.go")
	equal(t, "effects of the other partition", s.ledger.effects["b"], 1)
	for range 4 {
		s.deliver(recordAt("payments-0@7", "a"))
	}
	equal(t, "the letter's code", s.letters.sent[0].Error.Code, store.CodePanic)
}

// A panic is never permanent, whatever its value is: the record has all its attempts.
func TestPanicWithAPermanentErrorIsNotPermanent(t *testing.T) {
	s := newFixture(t)
	s.ledger.on["a"] = func(context.Context, msk.Record) error { panic(idem.Permanent(errBoom)) }
	equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a")), "payments-0@7")
	equal(t, "retried", s.last().Retried, 1)
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
			s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-1@3", "a"), recordAt("payments-2@1", "b"), recordAt("payments-3@1", "c")),
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
