package msk_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/lambda/msk"
)

// elsewhere is a claim of another process on the key of a record.
func elsewhere(key string, lease time.Duration) store.ClaimRequest {
	return store.ClaimRequest{
		Key: "ledger#payments#" + key, Fingerprint: idem.FingerprintOf([]byte("value of " + key)), Source: "payments-9@9",
		Lease: lease, Retention: time.Hour,
	}
}

func TestKeyInFlightElsewhereForTooLongIsReported(t *testing.T) {
	for name, tc := range map[string]struct {
		wait, took time.Duration
	}{
		"up to the deadline": {0, timeout - idem.Defaults().DeadlineMargin},
		"as configured":      {7 * time.Second, 7 * time.Second},
		"not at all":         {-1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFixture(t)
				s.engine.Wait = tc.wait
				s.store.hold(elsewhere("a", time.Hour))
				begun := time.Now()
				equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-1@3", "b")), "payments-0@7")
				equal(t, "it took", time.Since(begun), tc.took)
				equal(t, "in flight", s.last().InFlight, 1)
				equal(t, "effects of the other partition", s.ledger.effects["b"], 1)
				wantContains(t, s.log.about("payments-0@7")["error"].(string), "in flight elsewhere", "payments-9@9", "lease until")
			})
		})
	}
}

// With one slot, all other records are handled while one record waits.
func TestWaitingForAKeyHoldsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.cfg.Records.Concurrency = 1
		s.store.hold(elsewhere("a", 20*time.Second))
		var otherDone time.Duration
		begun := time.Now()
		s.ledger.on["b"] = func(context.Context, msk.Record) error {
			otherDone = time.Since(begun)
			return nil
		}
		equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-1@3", "b")))
		equal(t, "the other record was done after", otherDone, 0)
		equal(t, "effects", s.ledger.effects["a"], 1)
		equal(t, "stolen", s.last().Stolen, 1)
	})
}

// The key was held all the time. The error must name this, and not the missing slot.
func TestKeyInFlightElsewhereIsReportedWithoutASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.cfg.Records.Concurrency = 1
		s.store.hold(elsewhere("a", 20*time.Second))
		s.ledger.on["b"] = func(ctx context.Context, _ msk.Record) error {
			<-ctx.Done()
			return nil
		}
		equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-1@3", "b")), "payments-0@7")
		equal(t, "in flight", s.last().InFlight, 1)
		wantContains(t, s.log.about("payments-0@7")["error"].(string), "in flight elsewhere", "payments-9@9")
	})
}

// A record whose lease is over may have killed its process: it runs with nothing else in progress.
func TestRecordOfADeadOwnerRunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.store.hold(elsewhere("a", time.Second))
		pass(2 * time.Second)
		beside := -1
		s.ledger.on["a"] = func(context.Context, msk.Record) error {
			pass(10 * time.Second) // long enough for others to begin, if they could
			s.ledger.mu.Lock()
			defer s.ledger.mu.Unlock()
			beside = s.ledger.running - 1
			return nil
		}
		records := []record{recordAt("payments-0@7", "a")}
		for _, place := range []string{"payments-1@3", "payments-2@3", "payments-3@3", "payments-4@3"} {
			s.ledger.takes(place, time.Second)
			records = append(records, recordAt(place, place), recordAt(place+"0", place+"0"))
		}
		equalSlices(t, "reported places", s.deliver(records...))
		equal(t, "records beside it", beside, 0)
		equal(t, "stolen", s.last().Stolen, 1)
		equal(t, "records at once, before and after", s.ledger.most > 1, true)
		equal(t, "attempts", s.get(keyA).Attempts, 2)
	})
}

// Two such records do not run concurrently, and do not wait for each other.
func TestRecordsOfDeadOwnersRunOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.store.hold(elsewhere("a", time.Second))
		s.store.hold(elsewhere("b", time.Second))
		pass(2 * time.Second)
		s.ledger.takes("a", time.Second)
		s.ledger.takes("b", time.Second)
		equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-1@3", "b")))
		equal(t, "records at once", s.ledger.most, 1)
		equal(t, "stolen", s.last().Stolen, 2)
	})
}

// While a record waits for the slots that it needs to run alone, another process takes its key.
func TestKeyTakenOverElsewhereIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.store.hold(elsewhere("a", time.Second))
		pass(2 * time.Second)
		begun := make(chan struct{})
		s.ledger.on["b"] = func(context.Context, msk.Record) error {
			close(begun)
			pass(5 * time.Second)
			return nil
		}
		s.store.onClaim = func(_ context.Context, req *store.ClaimRequest, land func() store.ClaimResult) store.ClaimResult {
			if req.Key == keyA {
				<-begun
			}
			return land()
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			pass(time.Second)
			thief := elsewhere("a", 30*time.Second)
			thief.Owner, thief.TakeOver = "the new owner", true
			equal(t, "state of the theft", s.store.hold(thief).State, store.Claimed)
		})
		equalSlices(t, "reported places", s.deliver(recordAt("payments-1@3", "b"), recordAt("payments-0@7", "a")))
		wg.Wait()
		equal(t, "effects", s.ledger.effects["a"], 1)
		equal(t, "attempts", s.get(keyA).Attempts, 3)
	})
}

func TestFencedRecordIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.engine.Lease = 10 * time.Second
		s.store.losing(errNetwork, store.OpExtend)
		var cause error
		s.ledger.on["a"] = func(ctx context.Context, _ msk.Record) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			thief := elsewhere("a", time.Hour)
			thief.Owner, thief.TakeOver = "the new owner", true
			equal(t, "state of the theft", s.store.hold(thief).State, store.Claimed)
			return nil
		}
		equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-0@8", "b")), "payments-0@7", "payments-0@8")
		wantErr(t, cause, idem.ErrLeaseLost)
		equal(t, "fenced", s.last().Fenced, 1)
		equal(t, "the new owner's key", s.get(keyA).Owner, "the new owner")
		equal(t, "outcome in the log", s.log.about("payments-0@7")["outcome"], any("Fenced"))
		checkCounts(t, s.last())
	})
}

// The thief had completed it meanwhile: then the record is done, with the new owner's result.
func TestFencedRecordCompletedByAnotherOwnerIsAReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.engine.Lease = 10 * time.Second
		s.store.losing(errNetwork, store.OpExtend)
		s.ledger.on["a"] = func(ctx context.Context, _ msk.Record) error {
			<-ctx.Done()
			thief := elsewhere("a", time.Hour)
			thief.Owner, thief.TakeOver = "the new owner", true
			held := s.store.hold(thief).Entry
			s.store.Store.Settle(context.Background(), []store.Settlement{
				{Op: store.OpComplete, Key: keyA, Token: held.Token, Owner: held.Owner, Retention: time.Hour},
			})
			return nil
		}
		equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a")))
		equal(t, "replayed", s.last().Replayed, 1)
		equal(t, "fenced", s.last().Fenced, 1)
		equal(t, "level", s.log.about("payments-0@7")["level"], any("WARN"))
		equal(t, "fenced in the log", s.log.about("payments-0@7")["fenced"], any(true))
		checkCounts(t, s.last())
	})
}
