package msk_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

// In at-most-once mode the records whose handlers a death has ended become dead letters, and no others:
// neither those behind them, nor those that a store with batches could have claimed ahead.
func TestRecordsOfADeadProcessAreHandledAtMostOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.store = &spy{Store: memstore.New(memstore.Config{BatchSize: 25})}
		s.engine.AtMostOnce = true
		records := []record{recordAt("payments-0@1", "before"), recordAt("payments-0@2", "killer"),
			recordAt("payments-0@3", "behind")}
		want := []string{"payments-0@2"}
		for _, p := range []string{"1", "2", "3"} {
			s.ledger.takes("slow "+p, 5*time.Second) // in progress when the process dies
			records = append(records, recordAt("payments-"+p+"@1", "slow "+p),
				recordAt("payments-"+p+"@2", "more "+p))
			want = append(want, "payments-"+p+"@1")
		}
		s.ledger.on["killer"] = func(ctx context.Context, _ msk.Record) error {
			pass(time.Second)
			return s.die(ctx)
		}
		equal(t, "deliveries", s.deliverAll(records...), 2)
		equalSlices(t, "dead letters", s.letters.sources(), want...)
		for i := range s.letters.sent {
			letter := s.letters.sent[i]
			equal(t, "code", letter.Error.Code, store.CodeOutcomeUnknown)
			wantContains(t, letter.Error.Message, "attempt 1 of owner ", letter.Source(), "did not end")
		}
		for key, calls := range s.ledger.calls {
			equal(t, "calls of "+key, calls, 1)
		}
	})
}

// The redriven letter of an unknown outcome comes back as a dead letter with the token of its key, until the
// key is resolved. One of another failure is handled.
func TestRedriveOfAnUnknownOutcomeComesBack(t *testing.T) {
	s := newFixture(t)
	s.engine.AtMostOnce = true
	s.ledger.on["a"] = failing(1, idem.OutcomeUnknown(errors.New("no answer of the bank")))
	s.ledger.on["b"] = failing(1, idem.Permanent(errBoom))
	equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-0@8", "b")))
	equalSlices(t, "dead letters", s.letters.sources(), "payments-0@7", "payments-0@8")
	redriven := func(place, key string, letter kafka.DeadLetter) record {
		return recordAt(place, key).header(kafka.RedriveHeader, strconv.FormatInt(letter.Token, 10))
	}
	equalSlices(t, "reported places", s.deliver(redriven("payments-0@9", "a", s.letters.sent[0]),
		redriven("payments-0@10", "b", s.letters.sent[1])))
	equal(t, "calls for a", s.ledger.calls["a"], 1)
	equal(t, "calls for b", s.ledger.calls["b"], 2)
	equalSlices(t, "dead letters", s.letters.sources(), "payments-0@7", "payments-0@8", "payments-0@9")
	again := s.letters.sent[2]
	equal(t, "its key", again.IdempotencyKey, keyA)
	equal(t, "its token", again.Token, s.get(keyA).Token)
	wantContains(t, again.Error.Message, "idemsk resolve", "no answer of the bank")
}

// Without a place for dead letters, or without claims, a processor can't keep the promise.
func TestAtMostOnceIsRefusedWithoutDeadLetters(t *testing.T) {
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{AtMostOnce: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []kafka.Config{{Namespace: "ledger"}, {Unprotected: true, DeadLetters: &letters{}}} {
		_, err := kafka.NewProcessor(engine, kafka.HandlerFunc(
			func(context.Context, kafka.Record) ([]byte, error) { return nil, nil }), cfg)
		if !errors.Is(err, idem.ErrInvalidConfig) {
			t.Fatalf("%+v: %v", cfg, err)
		}
		wantContains(t, err.Error(), "AtMostOnce", "set DeadLetters")
	}
}
