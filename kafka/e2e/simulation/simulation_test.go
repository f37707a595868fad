package simulation_test

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/internal/testkit"
)

func TestMain(m *testing.M) {
	// With Go 1.26 and -race, several Ps that run the timers of a synctest bubble corrupt the race detector's context (see kafka/e2e). One P
	// also makes the order of goroutines almost the same in each run of a seed.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400) // the live heap is small
	goleak.VerifyTestMain(m)
}

// The environment variables that make simulate sets.
const (
	seedsVariable = "SIMULATE_SEEDS" // N or N-M
	firstVariable = "SIMULATE_FIRST" // how many of the records are produced, empty for all
	onlyVariable  = "SIMULATE_ONLY"  // the faults that may occur, by ID; empty for all
)

// repeats is how often a single seed is run at most until it fails, because the order of goroutines can differ.
const repeats = 20

// shortSeeds are the seeds of make test.
const shortSeeds = "1-12"

func TestSimulation(t *testing.T) {
	first, last := seedsOf(t)
	times := 1
	if first == last {
		times = repeats
	}
	begun, steps, count := time.Now(), 0, map[string]int{}
	for seed := first; seed <= last; seed++ {
		s := scenario{seed: seed, records: testkit.Number(t, firstVariable, 0, 1), only: faultsOf(t)}
		for range times {
			res := run(t, s)
			steps += res.steps
			for _, f := range res.injected {
				count[f.kind]++
			}
			if res.err != nil {
				report(t, s, &res)
				return
			}
		}
	}
	took := time.Since(begun)
	t.Logf("seeds %d to %d, %d steps in %v, %.0f steps a second; faults: %v",
		first, last, steps, took.Round(time.Millisecond), float64(steps)/took.Seconds(), count)
}

// report reports a failure with the smallest scenario that still fails.
func report(t *testing.T, s scenario, res *result) {
	t.Helper()
	t.Errorf("seed %d: %v\n%s", s.seed, res.err, s.command())
	small, res, runs := shrink(t, s, res)
	var b strings.Builder
	for _, e := range res.trace[max(0, len(res.trace)-200):] {
		fmt.Fprintf(&b, "%12v  %-70s %s\n", e.at, e.name, e.what)
	}
	t.Errorf("after shrinking in %d runs: %v\n%sfaults: %v\n%s\n%s", runs, res.err, res.about, res.injected, b.String(), small.command())
}

func seedsOf(t *testing.T) (first, last uint64) {
	t.Helper()
	text := os.Getenv(seedsVariable)
	if text == "" {
		text = shortSeeds
	}
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, err := strconv.ParseUint(from, 10, 64)
	if err != nil {
		t.Fatalf("%s is %q: want N or N-M", seedsVariable, text)
	}
	if last, err = strconv.ParseUint(to, 10, 64); err != nil || last < first {
		t.Fatalf("%s is %q: want N or N-M", seedsVariable, text)
	}
	return first, last
}

func faultsOf(t *testing.T) []uint64 {
	t.Helper()
	text := os.Getenv(onlyVariable)
	if text == "" {
		return nil
	}
	only := []uint64{}
	for word := range strings.SplitSeq(text, ",") {
		if word == "none" {
			continue
		}
		id, err := strconv.ParseUint(word, 16, 64)
		if err != nil {
			t.Fatalf("%s is %q: want the IDs of faults", onlyVariable, text)
		}
		only = append(only, id)
	}
	return only
}
