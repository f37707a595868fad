package local

import (
	"testing"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// Each record that is done is counted once in the last line.
func TestEachRecordIsCountedOnce(t *testing.T) {
	t.Parallel()
	keys := func(completed, failed int) map[store.Status]int {
		return map[store.Status]int{store.StatusCompleted: completed, store.StatusFailed: failed}
	}
	letters := func(n int) []kafka.DeadLetter { return make([]kafka.DeadLetter, n) }
	for want, r := range map[string]Report{
		"5 records done":                       {Counts: Counts{Done: 5}},
		"5 records completed, no dead letters": {Counts: Counts{Done: 5}, Keys: keys(5, 0)},
		"2 records completed, 1 with the key of another, 2 dead letters": {Counts: Counts{Done: 5}, Keys: keys(2, 2), Messages: 3,
			Letters: letters(2)},
		// 1 is done after its redrive; the records of 2 failed again and have new letters
		"2 records completed, 1 with the key of another, 2 dead letters left (3 redriven or discarded)": {
			Counts: Counts{Done: 8}, Keys: keys(2, 4), Messages: 2, Letters: letters(2), Taken: 3},
		"1 record completed, 0 dead letters left (1 redriven or discarded)": {
			Counts: Counts{Done: 2}, Keys: keys(1, 1), Taken: 1},
		"2 records completed, 1 with the key of another, 3 failed":                {Counts: Counts{Done: 6}, Keys: keys(2, 3)},
		"2 records completed, 1 with the key of another, 2 lost, no dead letters": {Counts: Counts{Done: 5, Ignored: 2}, Keys: keys(2, 0)},
		"4 records done, 2 dead letters":                                          {Counts: Counts{Done: 4}, Messages: 2, Unexpected: 2},
		"4 records done, 1 dead letter left (1 redriven or discarded)":            {Counts: Counts{Done: 4}, Messages: 1, Unexpected: 1, Taken: 1},
	} {
		if got := r.settled(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
