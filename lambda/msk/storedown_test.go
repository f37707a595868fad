package msk_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/lambda/msk"
)

func TestNoHandlerIsCalledWhileTheStoreIsDown(t *testing.T) {
	s := newFixture(t)
	s.store.down(errNetwork)
	equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-0@8", "b"),
		recordAt("payments-1@1", "c")),
		"payments-0@7", "payments-0@8", "payments-1@1")
	equal(t, "calls", len(s.ledger.order), 0)
	equal(t, "store down", s.last().StoreDown, 2)
	equal(t, "not started", s.last().NotStarted, 1)
	line := s.log.about("payments-0@7")
	equal(t, "level", line["level"], any("ERROR"))
	wantContains(t, line["error"].(string), "the store is unavailable", "connection refused")
	s.store.up()
	equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-0@8", "b"),
		recordAt("payments-1@1", "c")))
	equal(t, "effects", s.ledger.total(), 3)
}

func TestFailOpenCallsHandlersWithoutProtection(t *testing.T) {
	s := newFixture(t)
	s.engine.FailOpen = true
	s.store.down(errNetwork)
	protected := true
	s.ledger.on["a"] = func(ctx context.Context, _ msk.Record) error {
		_, protected = idem.AttemptFrom(ctx)
		return nil
	}
	s.ledger.fails("b", errBoom)
	s.ledger.fails("c", idem.Permanent(errBoom))
	equalSlices(t, "reported places",
		s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-1@1", "b"), recordAt("payments-2@1", "c"),
			undecodable("payments-3@1")), "payments-1@1")
	equal(t, "protected", protected, false)
	r := s.last()
	equal(t, "failed open", r.FailedOpen, 1)
	equal(t, "retried", r.Retried, 1)
	equalSlices(t, "dead letters", s.letters.sources(), "payments-2@1", "payments-3@1")
	checkCounts(t, r)
	line := s.log.about("payments-0@7")
	equal(t, "level", line["level"], any("ERROR"))
	wantContains(t, line["error"].(string), "connection refused")
}

func TestFailedCompletionRaisesAnAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.store.losing(errNetwork, store.OpComplete)
		begun := time.Now()
		equalSlices(t, "reported places",
			s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-0@8", "b"),
				recordAt("payments-1@1", "c").with("x")),
			"payments-0@7", "payments-0@8", "payments-1@1")
		equal(t, "tried until", time.Since(begun), timeout-idem.Defaults().DeadlineMargin/4)
		got := s.get(keyA)
		equal(t, "status", got.Status, store.StatusStarted)
		equal(t, "released", got.Released(), false)
		equal(t, "completion failed", s.last().CompletionFailed, 2)
		line := s.log.about("payments-0@7")
		equal(t, "level", line["level"], any("ERROR"))
		equal(t, "alarm", line["alarm"], any(true))
		equal(t, "key", line["key"], any(keyA))
		equal(t, "token", int64(line["token"].(float64)), got.Token)
		wantContains(t, line["error"].(string), keyA, strconv.FormatInt(got.Token, 10), "payments-0@7",
			"connection refused", "30s")

		s.store.up()
		equalSlices(t, "reported places",
			s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-0@8", "b"),
				recordAt("payments-1@1", "c").with("x")))
		equal(t, "effects, of which the second is why it is an alarm", s.ledger.effects["a"], 2)
	})
}
