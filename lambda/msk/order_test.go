package msk_test

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

// orders lists the lanes of one batch: a partition with the Kafka keys x, y, x and two records without a key,
// and another one with x.
func TestOrder(t *testing.T) {
	keyed := func(place, kafkaKey string) record {
		r := recordAt(place, place)
		r.kafkaKey = kafkaKey
		return r
	}
	batch := []record{
		keyed("payments-0@1", "x"), keyed("payments-0@2", "y"), keyed("payments-0@3", "x"),
		keyed("payments-0@4", ""),
		keyed("payments-0@5", ""), keyed("payments-1@1", "x"),
	}
	for name, tc := range map[string]struct {
		order kafka.Order
		units []string
	}{
		"by partition": {kafka.ByPartition,
			[]string{"payments-0@1 payments-0@2 payments-0@3 payments-0@4 payments-0@5", "payments-1@1"}},
		"by key": {kafka.ByKey, []string{"payments-0@1 payments-0@3", "payments-0@2", "payments-0@4",
			"payments-0@5", "payments-1@1"}},
		"none": {kafka.Unordered,
			[]string{"payments-0@1", "payments-0@2", "payments-0@3", "payments-0@4", "payments-0@5",
				"payments-1@1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFixture(t)
				s.cfg.Records.Order = tc.order
				for _, r := range batch {
					s.ledger.takes(r.key, time.Second)
				}
				begun := time.Now()
				equalSlices(t, "reported places", s.deliver(batch...))
				equal(t, "units at once", s.ledger.most, len(tc.units))
				longest := 0
				for _, unit := range tc.units {
					places := strings.Fields(unit)
					longest = max(longest, len(places))
					equal(t, "in order: "+unit, slices.IsSortedFunc(places, func(a, b string) int {
						return slices.Index(s.ledger.order, a) - slices.Index(s.ledger.order, b)
					}), true)
				}
				equal(t, "it took", time.Since(begun), time.Duration(longest)*time.Second)
			})
		})
	}
}

// An empty Kafka key counts as a key; a null key does not.
func TestEmptyKafkaKeyIsAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.cfg.Records.Order, s.cfg.Records.MissingKey = kafka.ByKey, kafka.Process
		empty := func(place string) record { return record{place: place, raw: `"key":""`} }
		none := func(place string) record { return record{place: place, raw: `"key":null`} }
		batch := []record{empty("payments-0@1"), none("payments-0@2"), empty("payments-0@3"),
			none("payments-0@4")}
		for _, r := range batch {
			s.ledger.takes(r.place, time.Second)
		}
		s.deliver(batch...)
		equal(t, "units at once", s.ledger.most, 3)
	})
}

// A lane stops at its first record that is not settled. Other lanes continue.
func TestLaneStopsAtItsFirstUnsettledRecord(t *testing.T) {
	for name, tc := range map[string]struct {
		order kafka.Order
		calls []string
	}{
		"by partition": {kafka.ByPartition, []string{"payments-0@1"}},
		"by key":       {kafka.ByKey, []string{"payments-0@1", "payments-0@2"}},
		"none":         {kafka.Unordered, []string{"payments-0@1", "payments-0@2", "payments-0@3"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			s.cfg.Records.Order = tc.order
			s.ledger.fails("a", errBoom)
			a, b, c := recordAt("payments-0@1", "a"), recordAt("payments-0@2", "b"), recordAt("payments-0@3",
				"c")
			a.kafkaKey, b.kafkaKey, c.kafkaKey = "x", "y", "x"
			// Records after it are reported even if they have completed; they are duplicates next time.
			equalSlices(t, "reported places", s.deliver(a, b, c), "payments-0@1", "payments-0@2",
				"payments-0@3")
			slices.Sort(s.ledger.order)
			equalSlices(t, "calls", s.ledger.order, tc.calls...)
			checkCounts(t, s.last())
			s.ledger.on["a"] = nil
			equalSlices(t, "reported places", s.deliver(a, b, c))
			equal(t, "effects", s.ledger.total(), 3)
		})
	}
}

func TestConcurrencyIsBounded(t *testing.T) {
	for _, bound := range []int{1, 3, 100} {
		synctest.Test(t, func(t *testing.T) {
			s := newFixture(t)
			s.cfg.Records.Order, s.cfg.Records.Concurrency = kafka.Unordered, bound
			var records []record
			for n := range 20 {
				key := strconv.Itoa(n)
				s.ledger.takes(key, time.Second)
				records = append(records, recordAt(place("payments-0", int64(n)), key))
			}
			equalSlices(t, "reported places", s.deliver(records...))
			equal(t, "records at once", s.ledger.most, min(bound, len(records)))
		})
	}
}

// Ten thousand goroutines would exceed the memory of a small function.
func TestGoroutinesAreBoundedByTheSlots(t *testing.T) {
	s := newFixture(t)
	s.cfg.Records.Order, s.cfg.Records.Concurrency = kafka.Unordered, 4
	var records []record
	for n := range 2000 {
		records = append(records, recordAt(place("payments-0", int64(n)), strconv.Itoa(n)))
	}
	before, most := runtime.NumGoroutine(), 0
	s.ledger.book = func(context.Context, msk.Record) ([]byte, error) {
		s.ledger.mu.Lock()
		defer s.ledger.mu.Unlock()
		most = max(most, runtime.NumGoroutine()-before)
		return nil, nil
	}
	equalSlices(t, "reported places", s.deliver(records...))
	equal(t, "executed", s.last().Executed, len(records))
	if most > 20 {
		t.Errorf("%d goroutines for %d slots", most, s.cfg.Records.Concurrency)
	}
}
