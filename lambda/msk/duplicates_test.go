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

// Duplicates share every kind of outcome, in all partitions.
func TestDuplicatesShareTheOutcomeAcrossPartitions(t *testing.T) {
	for name, tc := range map[string]struct {
		err      error
		reported []string
		letters  int
	}{
		"executed": {nil, nil, 0},
		"an error": {errBoom, []string{"payments-0@1", "payments-0@2", "payments-1@1"}, 0},
		"dependency down": {idem.Unavailable(errBoom),
			[]string{"payments-0@1", "payments-0@2", "payments-1@1"}, 0},
		"a permanent error": {idem.Permanent(errBoom), nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			s.ledger.fails("a", tc.err)
			equalSlices(t, "reported places",
				s.deliver(recordAt("payments-0@1", "a"), recordAt("payments-0@2", "b"),
					recordAt("payments-1@1", "a")), tc.reported...)
			equal(t, "calls", s.ledger.calls["a"], 1)
			equal(t, "claims", s.store.claimed(keyA), 1)
			equal(t, "dead letters", len(s.letters.sent), tc.letters)
			equal(t, "duplicates", s.last().Duplicates, 1)
			equal(t, "calls for the one behind", s.ledger.calls["b"], 1-len(tc.reported)/3)
		})
	}
}

// Partitions with the same keys in other orders would deadlock if a waiting duplicate held a slot.
func TestPartitionsWithTheSameKeysDoNotDeadlock(t *testing.T) {
	for _, concurrency := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			s := newFixture(t)
			s.cfg.Records.Concurrency = concurrency
			const keys = 7
			var records []record
			for p := range 12 {
				for n := range keys {
					key := strconv.Itoa((n*(p%(keys-1)+1) + p) % keys)
					s.ledger.takes(key, time.Second)
					records = append(records, recordAt(place("payments-"+strconv.Itoa(p), int64(n)), key))
				}
			}
			equalSlices(t, "reported places", s.deliver(records...))
			equal(t, "effects", s.ledger.total(), keys)
			equal(t, "claims", len(s.store.claims), keys)
		})
	}
}

// The first record with the key is after one that fails, and is not reached. Its duplicates must not wait for
// it.
func TestDuplicatesDoNotWaitForARecordThatIsNotReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.ledger.fails("bad", errBoom)
		begun := time.Now()
		equalSlices(t, "reported places",
			s.deliver(recordAt("payments-0@1", "bad"), recordAt("payments-0@2", "a"),
				recordAt("payments-1@1", "a")),
			"payments-0@1", "payments-0@2")
		equal(t, "effects", s.ledger.effects["a"], 1)
		equal(t, "it took", time.Since(begun), 0)
	})
}

// Another request under the key is processed when the first has ended, and is refused then.
func TestAnotherFingerprintInTheBatchIsProcessedAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		var version int64
		s.ledger.on["a"] = func(ctx context.Context, _ msk.Record) error {
			pass(10 * time.Second)
			a, _ := idem.AttemptFrom(ctx)
			version = a.Token
			return nil
		}
		// Each copy of the refused request gets its own dead letter under its place, so that no record is
		// lost.
		equalSlices(t, "reported places", s.deliver(
			recordAt("payments-0@1", "a"), recordAt("payments-0@2", "a").with("wrong"),
			recordAt("payments-0@3", "a"), recordAt("payments-0@4", "a").with("wrong")))
		equal(t, "calls", s.ledger.calls["a"], 1)
		equal(t, "executed", s.last().Executed, 1)
		equal(t, "duplicates", s.last().Duplicates, 1)
		equalSlices(t, "dead letters", s.letters.sources(), "payments-0@2", "payments-0@4")
		got := s.get(keyA)
		equal(t, "status of the key", got.Status, store.StatusCompleted)
		equal(t, "version of the key", got.Token, version)
		equal(t, "source of the key", got.Source, "payments-0@1")
		equal(t, "result of the key", string(got.Result), "receipt of a")
	})
}
