package msk_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

// TestEveryRecordIsSettledOnceUnderFaults delivers batches with duplicates, mismatches and invalid records, in every order, to
// processes that fail, panic and die, with a store and a queue that fail at random, until every record is settled. Then every
// key has one effect, or none and a dead letter, and every record is accounted for.
func TestEveryRecordIsSettledOnceUnderFaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { rapid.SyncTest(t, settleAll) })
}

func settleAll(t *rapid.T) {
	s := newFixture(t)
	s.store.Store = memstore.New(memstore.Config{BatchSize: rapid.SampledFrom([]int{1, 2, 25}).Draw(t, "batch size")})
	s.engine = idem.Config{MaxAttempts: rapid.IntRange(1, 4).Draw(t, "max attempts"), Lease: 10 * time.Second}
	s.cfg.Records.Order = rapid.SampledFrom([]kafka.Order{kafka.ByPartition, kafka.ByKey, kafka.Unordered}).Draw(t, "order")
	s.cfg.Failures = rapid.SampledFrom([]msk.Failures{msk.FailBatch, msk.FailPartial}).Draw(t, "failures")
	s.cfg.Records.Concurrency = rapid.IntRange(1, 4).Draw(t, "concurrency")
	records := drawRecords(t)
	for _, key := range keysOf(records) {
		s.ledger.on[key] = play(s, rapid.SliceOfN(rapid.SampledFrom(fates), 0, 4).Draw(t, "fates of "+key))
	}
	faults := &faults{draws: rapid.SliceOfN(rapid.IntRange(0, 9), 0, 60).Draw(t, "faults")}
	faults.install(s)
	s.revive = func() { faults.install(s) }

	s.deliverAll(records...)

	checkEffects(t, s, records)
	checkLetters(t, s, records)
	if s.cfg.Records.Order == kafka.ByPartition {
		checkOrder(t, s)
	}
	for _, r := range s.reports {
		checkCounts(t, r)
	}
}

// drawRecords draws up to 6 records in each of up to 3 partitions, with few keys, so that duplicates are frequent.
func drawRecords(t *rapid.T) []record {
	var records []record
	for p := range rapid.IntRange(1, 3).Draw(t, "partitions") {
		for n := range rapid.IntRange(1, 6).Draw(t, "records") {
			r := rec(place(fmt.Sprintf("payments-%d", p), int64(n)), rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key"))
			r.kafkaKey = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "Kafka key")
			switch rapid.IntRange(0, 15).Draw(t, "kind") {
			case 0:
				r = r.with("another value")
			case 1:
				r = undecodable(r.place)
			}
			records = append(records, r)
		}
	}
	return records
}

func keysOf(records []record) []string {
	var keys []string
	for _, r := range records {
		if r.raw == "" {
			keys = append(keys, r.key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// fates lists the results of an attempt.
var fates = []string{"succeed", "fail", "fail later", "be unavailable", "panic", "never succeed", "die", "take long"}

// play returns a handler whose attempts for a key end as given, and succeed afterwards. A permanent failure is repeated. All
// durations are whole seconds except a death's, so that no death occurs between an effect and its completion.
func play(s *fixture, fates []string) func(ctx context.Context, r msk.Record) error {
	next := map[string]int{} // by value: where claims come with completions, records that share a key and differ are called too
	return func(ctx context.Context, r msk.Record) error {
		s.ledger.mu.Lock()
		fate := "succeed"
		if n := next[string(r.Value)]; n < len(fates) {
			if fate = fates[n]; fate != "never succeed" {
				next[string(r.Value)]++
			}
		}
		s.ledger.mu.Unlock()
		switch fate {
		case "fail":
			return errBoom
		case "fail later":
			pass(time.Second)
			return idem.RetryAfter(errBoom, 3*time.Second)
		case "be unavailable":
			return idem.Unavailable(errBoom)
		case "panic":
			panic(errBoom)
		case "never succeed":
			return idem.Permanent(errBoom)
		case "take long":
			pass(25 * time.Second)
		case "die":
			pass(time.Second / 2)
			if ctx.Err() == nil {
				return s.die(ctx)
			}
			return errDead
		}
		return nil
	}
}

// faults makes the store and the queue fail at random. A completion is always applied, although its answer may be lost: a
// completion that is not applied before the process dies is the known cause of a second effect.
type faults struct {
	draws []int
}

// next returns true at random. It is called under the lock of the store or of the letters.
func (f *faults) next() bool {
	if len(f.draws) == 0 {
		return false
	}
	n := f.draws[0]
	f.draws = f.draws[1:]
	return n == 0
}

func (f *faults) install(s *fixture) {
	step := func() bool {
		s.store.mu.Lock()
		defer s.store.mu.Unlock()
		return f.next()
	}
	s.store.onClaim = func(_ context.Context, _ *store.ClaimRequest, land func() store.ClaimResult) store.ClaimResult {
		if step() {
			return store.ClaimResult{Err: errNetwork}
		}
		res := land()
		if step() {
			return store.ClaimResult{Err: errNetwork} // the answer is lost
		}
		return res
	}
	s.store.onSettle = func(_ context.Context, set *store.Settlement, land func() error) error {
		if set.Op != store.OpComplete && step() {
			return errNetwork
		}
		if err := land(); err != nil || !step() {
			return err
		}
		return errNetwork
	}
	s.letters.on = func(context.Context, kafka.DeadLetter) error {
		if step() {
			return errNetwork
		}
		return nil
	}
}

// checkEffects checks that each completed key has one effect and each failed key none, and that no key is in progress.
func checkEffects(t *rapid.T, s *fixture, records []record) {
	for _, key := range keysOf(records) {
		rec, err := s.store.Get(context.Background(), "ledger#payments#"+key)
		switch {
		case errors.Is(err, store.ErrNotFound) || err == nil && rec.Status == store.StatusStarted:
			t.Errorf("the key %s is not settled: %+v, %v", key, rec, err)
		case rec.Status == store.StatusCompleted:
			equal(t, "effects of the completed key "+key, s.ledger.effects[key], 1)
		default:
			equal(t, "effects of the failed key "+key, s.ledger.effects[key], 0)
		}
	}
}

// checkLetters checks that a record has the effect of its key, or a letter: its own, or that of its failed request.
func checkLetters(t *rapid.T, s *fixture, records []record) {
	lettered := map[string]bool{}
	for i := range s.letters.sent {
		lettered[s.letters.sent[i].Source()] = true
	}
	for _, r := range records {
		key, _ := s.store.Get(context.Background(), "ledger#payments#"+r.key)
		own := key.Fingerprint == idem.FingerprintOf([]byte(r.value))
		rejected := s.placeKey(r.place) != ""
		switch {
		case r.raw != "" || !own:
			equal(t, r.place+" can never succeed and has a letter", lettered[r.place], true)
			equal(t, r.place+" can never succeed and is remembered", rejected, true)
		case key.Status == store.StatusFailed:
			equal(t, r.place+" failed and "+key.Source+", which stands for it, has a letter", lettered[key.Source], true)
		default:
			equal(t, r.place+" succeeded and is rejected", rejected, false)
		}
	}
}

// checkOrder checks that the effects of a partition's records are in the order of their offsets.
func checkOrder(t *rapid.T, s *fixture) {
	last := map[string]string{}
	for _, place := range s.ledger.booked {
		id, offset, _ := strings.Cut(place, "@")
		if offset < last[id] {
			t.Errorf("the effect of %s came after that of %s@%s", place, id, last[id])
		}
		last[id] = offset
	}
}
