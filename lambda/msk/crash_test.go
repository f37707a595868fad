package msk_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/msk"
)

var errDead = errors.New("the process is dead")

// dies makes the ledger end the process for a key. A dead process sends no requests and has no effects. Its
// remaining goroutines end with the invocation.
func (s *fixture) dies(key string) {
	s.ledger.on[key] = func(ctx context.Context, _ msk.Record) error { return s.die(ctx) }
}

func (s *fixture) die(ctx context.Context) error {
	s.ledger.mu.Lock()
	s.ledger.dead = true
	s.ledger.mu.Unlock()
	s.store.mu.Lock()
	s.store.down(errDead)
	s.store.losing(errDead, store.OpComplete, store.OpFail, store.OpRelease, store.OpExtend)
	s.store.mu.Unlock()
	s.letters.mu.Lock()
	s.letters.on = func(context.Context, kafka.DeadLetter) error { return errDead }
	s.letters.mu.Unlock()
	s.end()
	<-ctx.Done()
	return errDead
}

// deliverOnce delivers an event to a process that may die. It returns the records to be delivered again, or
// false if all are.
func (s *fixture) deliverOnce(event *msk.Event) (reported []string, answered bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	s.end = cancel
	resp, err := s.processUnder(ctx, event)
	if s.ledger.dead {
		s.ledger.dead, s.letters.on, s.consumer = false, nil, nil
		s.store.up()
		return nil, false
	}
	var batchErr *eventsource.BatchError
	if err != nil && !errors.As(err, &batchErr) {
		s.t.Fatal(err)
	}
	return places(resp), err == nil
}

// deliverAll delivers records as an ESM does until all are settled, and returns the number of deliveries: the
// whole batch after a failed invocation, otherwise the reported records of each partition.
func (s *fixture) deliverAll(records ...record) (deliveries int) {
	s.t.Helper()
	for len(records) > 0 || deliveries == 0 {
		if deliveries++; deliveries > 200 {
			s.t.Fatal("there is no end to it")
		}
		pass(time.Second) // an ESM does not hurry, and a breaker that is open needs time
		reported, answered := s.deliverOnce(batchOf(s.t, records...))
		if answered {
			records = slices.DeleteFunc(slices.Clone(records),
				func(r record) bool { return !slices.Contains(reported, r.place) })
		}
	}
	return deliveries
}

// Only the record that kills its process runs out of attempts, not those of other partitions or those after
// it.
func TestOnlyTheRecordThatKillsItsProcessRunsOutOfAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.dies("killer")
		records := []record{recordAt("payments-0@1", "before"), recordAt("payments-0@2", "killer"),
			recordAt("payments-0@3", "behind")}
		for _, p := range []string{"1", "2", "3", "4", "5", "6"} {
			s.ledger.takes("slow "+p, 5*time.Second) // in mid-flight when the process dies for the first time
			records = append(records, recordAt("payments-"+p+"@1", "slow "+p),
				recordAt("payments-"+p+"@2", "more "+p))
		}
		deaths := 0
		s.ledger.on["killer"] = func(ctx context.Context, _ msk.Record) error {
			deaths++
			pass(time.Second)
			return s.die(ctx)
		}
		deliveries := s.deliverAll(records...)
		equal(t, "deaths", deaths, idem.Defaults().MaxAttempts)
		equal(t, "deliveries", deliveries, idem.Defaults().MaxAttempts+1)
		equalSlices(t, "dead letters", s.letters.sources(), "payments-0@2")
		letter := s.letters.sent[0]
		equal(t, "code", letter.Error.Code, store.CodeExhausted)
		wantContains(t, letter.Error.Message, "a process died")
		for key, status := range s.keys() {
			killer := key == "ledger#payments#killer"
			equal(t, "FAILED: "+key, status == store.StatusFailed, killer)
			// Those beside the first two deaths were charged for these, and run alone after that.
			most := 1
			if strings.Contains(key, "slow") {
				most = 3
			}
			if got := s.get(key); !killer && got.Attempts > most {
				t.Errorf("%s was charged %d attempts", key, got.Attempts)
			}
		}
		equal(t, "effects", s.ledger.total(), len(records)-1)
	})
}

// A process that dies between the effect and the completion repeats the effect. Effects are therefore not
// exactly once in general.
func TestDeathBeforeTheCompletionRepeatsTheEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		died := false
		s.ledger.on["a"] = func(ctx context.Context, _ msk.Record) error {
			if !died {
				died = true
				s.ledger.mu.Lock()
				s.ledger.effects["a"]++
				s.ledger.mu.Unlock()
				return s.die(ctx)
			}
			return nil
		}
		begun := time.Now()
		equal(t, "deliveries", s.deliverAll(recordAt("payments-0@1", "a")), 2)
		equal(t, "effects", s.ledger.effects["a"], 2)
		equal(t, "attempts", s.get(keyA).Attempts, 2)
		equal(t, "it waited for the lease", time.Since(begun) >= idem.Defaults().Lease, true)
		equal(t, "stolen", s.last().Stolen, 1)
	})
}
