package msk_test

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// checkCounts checks that every record of a batch was counted once.
func checkCounts(t testing.TB, r kafka.Report) {
	t.Helper()
	sum := r.Executed + r.Replayed + r.ReplayedFailed + r.Duplicates + r.DeadLettered + r.FailedOpen +
		r.Retried +
		r.InFlight + r.NotStarted + r.CompletionFailed + r.StoreDown + r.Overruns
	if sum != r.Records {
		t.Errorf("%d outcomes were counted for %d records: %+v", sum, r.Records, r)
	}
}

// counts is an observer that adds up what it is told of records.
type counts struct{ kafka.Report }

// Observe implements idem.Observer. Steps before the end are told concurrently.
func (c *counts) Observe(_ context.Context, e idem.Event) {
	if e.Step == observe.End || e.Step == observe.Overrun {
		c.Add(&e)
	}
}

// mixed returns a batch with many outcomes: one executed, one replayed, one duplicate, one dead letter, one
// replayed failure, one retried and two after it.
func mixed(s *fixture) []record {
	s.ledger.fails("poison", idem.Permanent(errBoom))
	s.ledger.fails("later", errBoom)
	s.ledger.fails("failed", idem.Permanent(errBoom))
	s.deliver(recordAt("payments-0@1", "before"), recordAt("payments-0@2", "failed"))
	return []record{
		recordAt("payments-0@4", "new"), recordAt("payments-0@5", "before"), recordAt("payments-0@6", "new"),
		recordAt("payments-0@7", "poison"),
		recordAt("payments-0@8", "failed"), recordAt("payments-1@1", "later"),
		recordAt("payments-1@2", "behind"), recordAt("payments-1@3", "behind too"),
	}
}

func TestEveryRecordIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, told := newFixture(t), &counts{}
		s.engine.Observer = told
		records := mixed(s)
		told.Report = kafka.Report{}
		s.deliver(records...)
		r := s.last()
		checkCounts(t, r)
		r.Took, r.RecordAge, r.StoreLatency = 0, 0, nil
		want := kafka.Report{
			Records: 8, Partitions: 2, Executed: 1, Replayed: 1, ReplayedFailed: 1, Duplicates: 1,
			DeadLettered: 1, Retried: 1, NotStarted: 2,
			Reported: 3,
		}
		if !reflect.DeepEqual(r, want) {
			t.Errorf("the report is %+v; want %+v", r, want)
		}
		if want.Partitions, want.Reported = 0, 0; !reflect.DeepEqual(told.Report, want) {
			t.Errorf("the observer was told %+v; want %+v", told.Report, want)
		}
	})
}

// InProgressAge covers keys that stay in progress: of an owner that does not settle, of repeated failures,
// and of an owner whose lease is over.
func TestInProgressAgeIsThatOfTheOldestKey(t *testing.T) {
	for name, tc := range map[string]struct {
		lease time.Duration // of the one that holds the key
		want  time.Duration
		kind  func(r kafka.Report) int
	}{
		"in flight elsewhere": {time.Hour, 10 * time.Minute,
			func(r kafka.Report) int { return r.InFlight }},
		"its owner's lease over": {time.Minute, 10 * time.Minute,
			func(r kafka.Report) int { return r.Stolen }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFixture(t)
				s.engine.Wait = -1
				s.store.hold(store.ClaimRequest{Key: keyA,
					Fingerprint: store.FingerprintOf([]byte("value of a")), Lease: tc.lease,
					Retention: time.Hour})
				pass(10 * time.Minute)
				s.deliver(recordAt("payments-0@1", "b"))
				equal(t, "age without it", s.last().InProgressAge, 0)
				s.deliver(recordAt("payments-0@7", "a"))
				equal(t, "records of its kind", tc.kind(s.last()), 1)
				equal(t, "age", s.last().InProgressAge, tc.want)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.ledger.fails("a", idem.Unavailable(errBoom))
		for n := range 3 {
			s.deliver(recordAt("payments-0@7", "a"))
			equal(t, "age of one that fails", s.last().InProgressAge, time.Duration(n)*time.Minute)
			pass(time.Minute)
		}
	})
}

func TestRecordAgeIsThatOfTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		sent := time.UnixMilli(1767225600000)
		pass(time.Until(sent) + 90*time.Second)
		s.deliver(recordAt("payments-0@4", "a"),
			record{place: "payments-0@5", raw: `"timestamp":1767225660000`},
			record{place: "payments-0@6", raw: `"timestamp":-1`},
			record{place: "payments-0@7", raw: `"timestamp":99999999999999`})
		equal(t, "age of the oldest", s.last().RecordAge, 90*time.Second)
	})
}

func TestStoreLatencyIsOfClaimsAndSettlements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.store.onClaim = func(_ context.Context, _ *store.ClaimRequest,
			land func() store.ClaimResult) store.ClaimResult {
			pass(7 * time.Millisecond)
			return land()
		}
		s.store.onSettle = func(_ context.Context, _ *store.Settlement, land func() error) error {
			pass(11 * time.Millisecond)
			return land()
		}
		s.deliver(recordAt("payments-0@4", "a"))
		equalSlices(t, "latencies", s.last().StoreLatency, 7*time.Millisecond, 11*time.Millisecond)
		equal(t, "the batch took", s.last().Took, 18*time.Millisecond)
	})
}
