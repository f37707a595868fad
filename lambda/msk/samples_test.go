package msk_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/msk"
)

const samples = "../../events"

// sample is what events/README.md says of a file.
type sample struct {
	executed   int
	replayed   int
	duplicates int
	dead       []string // places
	deliveries int      // 0: one
	failed     []string // the keys that are FAILED; none: those of dead, under their places
	before     string   // a file that is delivered before
	check      func(t *testing.T, s *fixture)
}

func sampleOutcomes() map[string]sample {
	// rejected is a record that is refused without a look at its key, in front of one that is executed.
	rejected := func(place string) sample { return sample{executed: 1, dead: []string{place}} }
	// tombstone is one that reaches the handler, which reads JSON and refuses it, behind a payment.
	tombstone := func(place, key string) sample {
		return sample{executed: 1, dead: []string{place}, failed: []string{key}}
	}
	return map[string]sample{
		"one-record":                       {executed: 1},
		"hundred-records-three-partitions": {executed: 100},
		"empty-records":                    {},
		"empty-partition":                  {executed: 1},
		"duplicate-in-batch":               {executed: 2, duplicates: 2, check: claims(2)},
		"duplicate-across-batches-1":       {executed: 2},
		"duplicate-across-batches-2":       {executed: 1, replayed: 2, before: "duplicate-across-batches-1"},
		"fingerprint-mismatch":             {executed: 1, dead: []string{"payments-0@2201"}},
		"composite-key":                    {executed: 2, duplicates: 1},
		"unsorted-offsets": {executed: 3,
			check: inOrder("payments-0@3000", "payments-0@3001", "payments-0@3002")},
		"partition-ten-and-two": {executed: 4},
		"topic-names-with-dashes": {executed: 2,
			check: stored("ledger#payments#topic-names-1", "ledger#payments-1#topic-names-2")},
		"one-key-two-topics": {executed: 2,
			check: stored("ledger#payments#one-key-two-topics-1",
				"ledger#payments-mirror#one-key-two-topics-1")},
		"offset-beyond-2-to-the-53": {executed: 1,
			check: source("ledger#payments#large-offset-1", "payments-0@9007199254740993")},
		"self-managed-kafka":   {executed: 1},
		"schema-registry-json": {executed: 2},
		"log-append-time":      {executed: 1},
		"unknown-fields":       {executed: 1},
		"tombstone-null":       tombstone("payments-0@4401", "ledger#payments#tombstone-null-2"),
		"tombstone-absent": tombstone("payments-0@4501",
			"ledger#payments#tombstone-absent-2"),
		"empty-value": {dead: []string{"payments-0@4600"},
			failed: []string{"ledger#payments#empty-value-1"}},
		"null-key":                         {executed: 2},
		"signed-header-bytes":              {executed: 1, check: stored("ledger#payments#zahlung-köln-№1")},
		"duplicate-header-keys-same-value": {executed: 1},
		"large-header":                     {executed: 1},
		"hashed-keys":                      {executed: 2, check: allHashed},
		"missing-key":                      rejected("payments-0@5400"),
		"null-headers":                     rejected("payments-0@5500"),
		"absent-headers":                   rejected("payments-0@5600"),
		"duplicate-header-keys-two-values": rejected("payments-0@6000"),
		"bad-header-byte":                  rejected("payments-0@6100"),
		"bad-base64":                       rejected("payments-0@6200"),
		"value-not-a-string":               rejected("payments-0@6300"),
		"bad-json-value": {executed: 1, dead: []string{"payments-0@6400"},
			failed: []string{"ledger#payments#bad-json-value-1"}},
		"poison-record": {executed: 2, dead: []string{"payments-0@7001"},
			failed: []string{"ledger#payments#poison-record-2"}},
		"fails-twice-then-succeeds": {executed: 2, deliveries: 3},
		"always-fails-retriable": {executed: 1, deliveries: 5, dead: []string{"payments-0@7200"},
			failed: []string{"ledger#payments#always-fails-1"}},
		"handler-panics": {executed: 1, deliveries: 5, dead: []string{"payments-0@7300"},
			failed: []string{"ledger#payments#handler-panics-1"}},
		"process-dies": {executed: 2, deliveries: 6, dead: []string{"payments-0@7401"},
			failed: []string{"ledger#payments#process-dies-2"}},
		"slow-record": {executed: 3, check: took(200 * time.Millisecond)},
	}
}

func TestSampleEvents(t *testing.T) {
	want := sampleOutcomes()
	readme := string(must(os.ReadFile(filepath.Join(samples, "README.md"))))
	for _, file := range must(filepath.Glob(filepath.Join(samples, "*.json"))) {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		wantContains(t, readme, "["+name+".json]("+name+".json)")
		w, ok := want[name]
		delete(want, name)
		if !ok {
			t.Errorf("nothing is said here of events/%s.json", name)
			continue
		}
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { playSample(t, name, w) }) })
	}
	for name := range want {
		t.Errorf("events/%s.json is not there", name)
	}
}

func playSample(t *testing.T, name string, want sample) {
	s := newFixture(t)
	s.cfg.Failures = eventsource.FailBatch
	s.ledger.book = payments(s)
	play := func(name string) (deliveries int) {
		event := decode(t, must(os.ReadFile(filepath.Join(samples, name+".json"))))
		for answered := false; !answered; deliveries++ {
			_, answered = s.deliverOnce(event)
			if deliveries > 10 {
				t.Fatal("there is no end to it")
			}
		}
		return deliveries
	}
	if want.before != "" {
		play(want.before)
		s.reports, s.ledger.effects = nil, map[string]int{}
	}
	equal(t, "deliveries", play(name), max(1, want.deliveries))
	equal(t, "effects", s.ledger.total(), want.executed)
	equalSlices(t, "dead letters", s.letters.sources(), want.dead...)
	checkCounts(t, s.last())
	if want.deliveries == 0 {
		r := s.last()
		equal(t, "executed", r.Executed, want.executed)
		equal(t, "replayed", r.Replayed, want.replayed)
		equal(t, "duplicates", r.Duplicates, want.duplicates)
		equal(t, "dead-lettered", r.DeadLettered, len(want.dead))
	}
	if want.failed == nil {
		for _, place := range want.dead {
			want.failed = append(want.failed, s.placeKey(place))
		}
	}
	checkStatuses(t, s, want.failed)
	if want.check != nil {
		want.check(t, s)
	}
	// Played again, what was executed is replayed and a dead letter stays one.
	effects, letters := s.ledger.total(), len(s.letters.sent)
	equal(t, "deliveries of the same again", play(name), 1)
	equal(t, "effects of the same again", s.ledger.total(), effects)
	equal(t, "dead letters of the same again", len(s.letters.sent), letters)
}

func checkStatuses(t *testing.T, s *fixture, failed []string) {
	t.Helper()
	for key, status := range s.keys() {
		want := store.StatusCompleted
		if slices.Contains(failed, key) {
			want = store.StatusFailed
		}
		equal(t, "the status of "+key, status, want)
	}
	stored(failed...)(t, s)
}

func stored(keys ...string) func(t *testing.T, s *fixture) {
	return func(t *testing.T, s *fixture) {
		for _, key := range keys {
			if _, ok := s.keys()[key]; !ok {
				t.Errorf("the key %s is not stored", key)
			}
		}
	}
}

func claims(n int) func(t *testing.T, s *fixture) {
	return func(t *testing.T, s *fixture) { equal(t, "claims", len(s.store.claims), n) }
}

func inOrder(places ...string) func(t *testing.T, s *fixture) {
	return func(t *testing.T, s *fixture) { equalSlices(t, "calls", s.ledger.order, places...) }
}

func source(key, place string) func(t *testing.T, s *fixture) {
	return func(t *testing.T, s *fixture) { equal(t, "source", s.get(key).Source, place) }
}

func took(d time.Duration) func(t *testing.T, s *fixture) {
	return func(t *testing.T, s *fixture) { equal(t, "the batch took", s.last().Took, d) }
}

func allHashed(t *testing.T, s *fixture) {
	for key := range s.keys() {
		equal(t, "hashed: "+key, strings.HasPrefix(key, "sha256:"), true)
	}
}

type payment struct {
	PaymentID string `json:"paymentId"`
	Amount    int64  `json:"amount"`
	Simulate  string `json:"simulate"`
}

// payments does what the example handler does with IDEMSK_SIMULATE=on.
func payments(s *fixture) msk.HandlerFunc {
	return msk.JSON(func(ctx context.Context, p payment, _ msk.Record) (string, error) {
		kind, arg, _ := strings.Cut(p.Simulate, ":")
		switch kind {
		case "permanent":
			return "", idem.Permanent(errBoom)
		case "retry":
			if n, err := strconv.Atoi(arg); arg == "" || err == nil &&
				must2(idem.AttemptFrom(ctx)).Number <= n {
				return "", errBoom
			}
		case "panic":
			panic(errBoom)
		case "exit":
			return "", s.die(ctx)
		case "sleep":
			pass(must(time.ParseDuration(arg)))
		}
		if p.PaymentID == "" || p.Amount == 0 {
			return "", idem.Permanent(errors.New("no payment"))
		}
		return p.PaymentID, nil
	})
}

func must2[T any](v T, ok bool) T {
	if !ok {
		panic("it is not there")
	}
	return v
}

// A batch near the limit of 6 MB.
func TestBatchNearThePayloadLimit(t *testing.T) {
	var records []record
	for n := range 1000 {
		key := fmt.Sprintf("near-6-mb-%03d", n)
		records = append(records, recordAt(place("payments-"+strconv.Itoa(n%3), int64(n)),
			key).with(strings.Repeat("x", 4300)))
	}
	event := payload(records...)
	equal(t, "the payload is near the limit", len(event) > 5_900_000 && len(event) < 6<<20, true)
	s := newFixture(t)
	equalSlices(t, "reported places", s.deliver(records...))
	equal(t, "executed", s.last().Executed, 1000)
}
