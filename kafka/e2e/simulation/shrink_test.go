package simulation_test

import (
	"strings"
	"testing"
)

// The bounds of shrinking: the runs in total, and those of one scenario before it counts as one that does not fail, because the order of
// goroutines can differ.
const (
	maxShrinkRuns = 600
	tries         = 2
)

// shrinker looks for a smaller scenario that still fails.
type shrinker struct {
	t    *testing.T
	best scenario
	res  *result
	runs int
}

// shrink returns the smallest scenario found, its result, and the number of runs: first with fewer faults, then with fewer records, then
// with fewer faults again.
func shrink(t *testing.T, s scenario, res *result) (small scenario, smallRes *result, runs int) {
	t.Helper()
	sh := &shrinker{t: t, best: s, res: res}
	sh.fewerFaults()
	sh.fewerRecords()
	sh.fewerFaults()
	return sh.best, sh.res, sh.runs
}

// fails runs a scenario, and keeps it if it fails.
func (sh *shrinker) fails(s scenario) bool {
	for range tries {
		if sh.runs >= maxShrinkRuns {
			return false
		}
		sh.runs++
		if res := run(sh.t, s); res.err != nil {
			sh.best, sh.res = s, &res
			return true
		}
	}
	return false
}

// fewerFaults leaves out parts of the faults, in halves, quarters and so on.
func (sh *shrinker) fewerFaults() {
	ids := idsOf(sh.res.injected)
	for size := len(ids); size > 0; size /= 2 {
		for from := 0; from < len(ids); {
			without := append(append([]uint64{}, ids[:from]...), ids[min(from+size, len(ids)):]...)
			s := sh.best
			s.only = without
			if sh.fails(s) {
				ids = without
				continue
			}
			from += size
		}
	}
}

// fewerRecords keeps the first records only.
func (sh *shrinker) fewerRecords() {
	most := 0
	for _, records := range produce(dice(sh.best.seed), new(settingsOf(dice(sh.best.seed))), sh.best.records) {
		most += len(records)
	}
	for size := most / 2; size > 0; size /= 2 {
		for most > size {
			s := sh.best
			s.records = most - size
			if !sh.fails(s) {
				break
			}
			most = s.records
		}
	}
}

func TestAFailureIsFoundAndShrunk(t *testing.T) {
	s := scenario{seed: 3, careless: true}
	res := run(t, s)
	if res.err == nil || !strings.Contains(res.err.Error(), `is booked "1" times`) || len(res.injected) == 0 {
		t.Fatalf("a handler that books outside of the transaction, with %d faults: %v", len(res.injected), res.err)
	}
	small, res2, _ := shrink(t, s, &res)
	if small.only == nil || len(small.only) > 0 || small.records == 0 || small.records > 3 || res2.err == nil {
		t.Errorf("after shrinking: %s: %v; want no faults, and at most 3 records", small.command(), res2.err)
	}
	if got := small.command(); !strings.HasPrefix(got, "make simulate SEEDS=3 FIRST=") || !strings.HasSuffix(got, " ONLY=none") {
		t.Errorf("the command is %q", got)
	}
}
