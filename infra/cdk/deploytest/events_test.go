//go:build rest

package deploytest

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
)

// sample is what a file of events/ leaves behind: how many keys are COMPLETED, and the place of the one that
// is a dead letter.
type sample struct {
	completed int
	dead      string
}

// sampleOutcomes are what events/README.md says, of the example without IDEMSK_SIMULATE: the samples of its
// last rows are plain payments.
func sampleOutcomes() map[string]sample {
	return map[string]sample{
		"one-record": {completed: 1}, "hundred-records-three-partitions": {completed: 100},
		"empty-records": {}, "empty-partition": {completed: 1},
		"duplicate-in-batch": {completed: 2}, "duplicate-across-batches-1": {completed: 2},
		"duplicate-across-batches-2": {completed: 1},
		"fingerprint-mismatch":       {1, "payments-0@2201"}, "composite-key": {completed: 2},
		"unsorted-offsets":      {completed: 3},
		"partition-ten-and-two": {completed: 4}, "topic-names-with-dashes": {completed: 2},
		"one-key-two-topics":        {completed: 2},
		"offset-beyond-2-to-the-53": {completed: 1}, "self-managed-kafka": {completed: 1},
		"schema-registry-json": {completed: 2},
		"log-append-time":      {completed: 1}, "unknown-fields": {completed: 1},
		"tombstone-null": {1, "payments-0@4401"}, "tombstone-absent": {1, "payments-0@4501"},
		"empty-value": {0, "payments-0@4600"},
		"null-key":    {completed: 2}, "signed-header-bytes": {completed: 1},
		"duplicate-header-keys-same-value": {completed: 1},
		"large-header":                     {completed: 1}, "hashed-keys": {completed: 2},
		"missing-key": {1, "payments-0@5400"}, "null-headers": {1, "payments-0@5500"},
		"absent-headers":                   {1, "payments-0@5600"},
		"duplicate-header-keys-two-values": {1, "payments-0@6000"}, "bad-header-byte": {1, "payments-0@6100"},
		"bad-base64":         {1, "payments-0@6200"},
		"value-not-a-string": {1, "payments-0@6300"}, "bad-json-value": {1, "payments-0@6400"},
		"poison-record": {completed: 3}, "fails-twice-then-succeeds": {completed: 2},
		"always-fails-retriable": {completed: 2},
		"handler-panics":         {completed: 2}, "process-dies": {completed: 3},
		"slow-record": {completed: 3},
	}
}

// checkEvents plays every file of events/ twice. Those that were played already leave nothing, as all do the
// second time.
func (s *stack) checkEvents(played ...string) {
	s.Helper()
	want := sampleOutcomes()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "events", "*.json"))
	s.must(err)
	same(s, "number of samples", len(files), len(want))
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		w, ok := want[name]
		if !ok {
			s.Errorf("nothing is said here of events/%s.json", name)
		}
		if slices.Contains(played, name) {
			w = sample{}
		}
		s.play(name, w)
		s.play(name, sample{})
	}
}

// play delivers a sample, and wants it to leave this and no more.
func (s *stack) play(name string, want sample) {
	s.Helper()
	before := s.keys()
	s.deliver(name)
	after := s.keys()
	var places []string
	for _, letter := range s.takeDeadLetters() {
		places = append(places, letter.Source())
	}
	same(s, name+": dead letters", strings.Join(places, ", "), want.dead)
	same(s, name+": keys COMPLETED", after[store.StatusCompleted]-before[store.StatusCompleted],
		want.completed)
	same(s, name+": keys FAILED", after[store.StatusFailed]-before[store.StatusFailed], len(places))
	same(s, name+": keys STARTED", after[store.StatusStarted], 0)
}

// keys counts those in the table.
func (s *stack) keys() map[store.Status]int {
	s.Helper()
	st, err := dynamostore.New(s.db, dynamostore.Config{Table: s.outputs.TableName})
	s.must(err)
	count := make(map[store.Status]int)
	for entry, err := range st.List(s.Context(), store.ListQuery{}) {
		s.must(err)
		count[entry.Status]++
	}
	return count
}
