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
	"github.com/idemsk/idemsk/internal/mskevent/redriven"
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

// The redriven letter of an unknown outcome comes back also if its key has no entry: after the retention, or
// because the record has another key now. So do the letters of the records that it becomes, also of those that
// can't be identified in between. A letter of a known outcome is handled.
func TestRedriveOfAnUnknownOutcomeWithoutAnEntry(t *testing.T) {
	const retention = time.Hour
	expire := func(*fixture) { pass(2 * retention) }
	rename := func(s *fixture) { s.cfg.Records.Namespace = "renamed" }
	for name, tc := range map[string]struct {
		key       string
		meanwhile []func(*fixture) // before each redrive
	}{
		"after the retention": {"a", []func(*fixture){expire, expire, expire}},
		"another namespace":   {"a", []func(*fixture){rename}},
		"a place":             {"", []func(*fixture){func(*fixture) {}, expire}},
		"a token that was never issued": {"a", []func(*fixture){
			func(s *fixture) { s.letters.sent[len(s.letters.sent)-1].Token += time.Hour.Milliseconds() * 24 * 365 }, expire}},
		"and another code": {"a", []func(*fixture){func(s *fixture) {
			last := &s.letters.sent[len(s.letters.sent)-1]
			last.Token, last.Error.Code = last.Token+time.Hour.Milliseconds()*24*365, store.CodeExhausted
		}, expire}},
		"not identified": {"a", []func(*fixture){
			func(s *fixture) {
				expire(s)
				s.cfg.Records.Key = func(context.Context, *kafka.Record) (string, error) { return "", errBoom }
			},
			func(s *fixture) { s.cfg.Records.Key = nil },
		}},
	} {
		for _, known := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := newFixture(t)
				s.engine.AtMostOnce, s.engine.Retention, s.cfg.Records.MissingKey = true, retention, kafka.Process
				calls, failure := 0, idem.OutcomeUnknown(errBoom)
				if known {
					failure = idem.Permanent(errBoom)
				}
				s.ledger.book = func(context.Context, msk.Record) ([]byte, error) { calls++; return nil, failure }
				offset := 7
				deliver := func(r record) {
					offset++
					r.place = "payments-0@" + strconv.Itoa(offset)
					s.start() // with the configuration of now
					equalSlices(t, name, s.deliver(r))
				}
				deliver(recordAt("", tc.key))
				failure = nil
				for i, change := range tc.meanwhile {
					change(s)
					letter := s.letters.sent[len(s.letters.sent)-1]
					again := recordAt("", tc.key)
					for _, h := range redriven.Headers(&letter) {
						if h.Key == kafka.RedriveHeader {
							again = again.header(h.Key, string(h.Value))
						}
					}
					deliver(again)
					if known && calls == 2 {
						return
					}
					last := s.letters.sent[len(s.letters.sent)-1]
					if !known && (last.Error.Code != store.CodeOutcomeUnknown || len(s.letters.sent) != i+2) {
						t.Errorf("%s: after redrive %d, %d letters: %+v", name, i+1, len(s.letters.sent), last.Error)
					}
				}
				if want := map[bool]int{false: 1, true: 2}[known]; calls != want {
					t.Errorf("%s, known %t: %d calls; want %d", name, known, calls, want)
				}
			})
		}
	}
}

// Without a place for dead letters, or without claims, a processor can't keep the promise.
func TestAtMostOnceIsRefusedWithoutDeadLetters(t *testing.T) {
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{AtMostOnce: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = kafka.NewProcessor(engine, kafka.HandlerFunc(
		func(context.Context, kafka.Record) ([]byte, error) { return nil, nil }), kafka.Config{Namespace: "ledger"})
	if !errors.Is(err, idem.ErrInvalidConfig) {
		t.Fatal(err)
	}
	wantContains(t, err.Error(), "AtMostOnce", "without DeadLetters")
}
