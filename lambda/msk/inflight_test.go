package msk_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/lambda/msk"
)

// elsewhere is a claim of another process on the key of a record.
func elsewhere(key string, lease time.Duration) store.ClaimRequest {
	return store.ClaimRequest{
		Key: "ledger#payments#" + key, Fingerprint: store.FingerprintOf([]byte("value of " + key)),
		Source: "payments-9@9",
		Lease:  lease, Retention: time.Hour,
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
		equalSlices(t, "reported places",
			s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-1@3", "b")))
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
		equalSlices(t, "reported places",
			s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-1@3", "b")), "payments-0@7")
		equal(t, "in flight", s.last().InFlight, 1)
		wantContains(t, s.log.about("payments-0@7")["error"].(string), "in flight elsewhere", "payments-9@9")
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
