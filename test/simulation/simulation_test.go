package simulation_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/internal/test/testkit"
)

func TestMain(m *testing.M) {
	// With Go 1.26 and -race, several Ps that run the timers of a synctest bubble corrupt the race detector's
	// context (see test/kafka). One P also makes the order of goroutines almost the same in each run of a
	// seed without an order.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400) // the live heap is small
	goleak.VerifyTestMain(m)
}

// The environment variables that make simulate sets.
const (
	seedsVariable = "SIMULATE_SEEDS" // N or N-M
	// N or N-M, from 1: each seed is run in each order, exactly. Empty for one run of each seed as it
	// happens, of which a violation is looked for in some orders. "none" for one run, and no order.
	ordersVariable = "SIMULATE_ORDERS"
	// the configuration, NAME=VALUE,… of what is not the first value; unset for that of each seed.
	configVariable = "SIMULATE_CONFIG"
	firstVariable  = "SIMULATE_FIRST" // how many of the records are produced, empty for all
	onlyVariable   = "SIMULATE_ONLY"  // the faults that may occur, by ID; empty for all
)

const noOrder = "none"

// shortSeeds are the seeds of make test.
const shortSeeds = "1-12"

// maxOrders is how many orders are tried to repeat the violation of a run that had none.
const maxOrders = 50

func TestSimulation(t *testing.T) {
	if text := os.Getenv(instanceVariable); text != "" {
		runInstance(t, text)
		return
	}
	first, last := rangeOf(t, seedsVariable, shortSeeds)
	order, lastOrder := uint64(0), uint64(0)
	if os.Getenv(ordersVariable) != noOrder {
		order, lastOrder = rangeOf(t, ordersVariable, "0")
	}
	run := func(s scenario) result { return runHere(t, s) }
	if order > 0 {
		m := newMachine(t)
		run = func(s scenario) result { return m.run(t, s) }
	}
	var seeds configs
	sum := newTally()
	for seed := first; seed <= last; seed++ {
		for order := order; order <= lastOrder; order++ {
			s := scenario{Seed: seed, order: order, Config: configFrom(t, &seeds, seed),
				Records: testkit.Number(t, firstVariable, 0, 1), Only: faultsOf(t)}
			res := run(s)
			if res.Violation != "" {
				report(t, run, s, &res)
				return
			}
			sum.add(&res)
		}
	}
	t.Logf("seeds %d to %d, %s", first, last, sum)
}

// configFrom returns the configuration that the environment names, or that of a seed.
func configFrom(t *testing.T, seeds *configs, seed uint64) config {
	t.Helper()
	if text, ok := os.LookupEnv(configVariable); ok {
		return configOf(t, text)
	}
	return seeds.of(seed)
}

// tally counts what runs had.
type tally struct {
	begun   time.Time
	steps   int
	drained time.Duration
	faults  map[string]int // by kind
	pairs   pairs          // of values, in runs that had a kill, an outage and a redelivery
}

func newTally() *tally {
	return &tally{begun: time.Now(), faults: make(map[string]int), pairs: newPairs()}
}

func (c *tally) add(res *result) {
	c.steps += res.Steps
	c.drained = max(c.drained, res.Drained)
	kinds := make(map[string]bool)
	for _, f := range res.Injected {
		kinds[f.Kind] = true
		c.faults[f.Kind]++
	}
	if kinds[crash] && (kinds[outage] || kinds[storeDown]) &&
		(kinds[redelivery] || kinds[duplicate] || kinds[rebalance]) {
		c.pairs.add(res.Config)
	}
}

func (c *tally) String() string {
	took := time.Since(c.begun)
	missing, possible := c.pairs.missing()
	text := fmt.Sprintf("%d steps in %v, %.0f steps a second; everything was settled %v after the last fault at most; faults: %v\n"+
		"%d of %d pairs of values were run together with a kill, an outage and a redelivery", c.steps,
		took.Round(time.Millisecond), float64(c.steps)/took.Seconds(),
		max(0, c.drained-faulty).Round(time.Second), c.faults, possible-len(missing), possible)
	if len(missing) > 0 {
		text += fmt.Sprintf("; some of the others: %q", missing[:min(len(missing), 5)])
	}
	return text
}

// runInstance runs the scenario of a machine, and prints the result.
func runInstance(t *testing.T, text string) {
	t.Helper()
	var s scenario
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(runHere(t, s))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%s%s\n", beginResult, out)
}

// report reports a violation with the smallest scenario that still has one, in an order that repeats it if
// there is one.
func report(t *testing.T, run func(scenario) result, s scenario, res *result) {
	t.Helper()
	t.Errorf("seed %d: %s\n%v", s.Seed, res.Violation, s.Config)
	if s.order == 0 && os.Getenv(ordersVariable) != noOrder {
		m := newMachine(t)
		if ordered, orderedRes, found := inSomeOrder(t, m, s); found {
			run, s, res = func(s scenario) result { return m.run(t, s) }, ordered, &orderedRes
		} else {
			t.Errorf("orders 1 to %d of the seed have no violation: more of them with %s ORDERS=%d-%d",
				maxOrders, s.command(), maxOrders+1, 20*maxOrders)
		}
	}
	others := uint64(otherSeeds)
	if s.order > 0 {
		others = otherSeedsInOrder
	}
	small, res, runs := shrink(run, others, s, res)
	var b strings.Builder
	for _, e := range res.Trace[max(0, len(res.Trace)-200):] {
		fmt.Fprintf(&b, "%12v  %-70s %s\n", e.At, e.Name, e.What)
	}
	t.Errorf("after shrinking in %d runs: %s\nconfiguration: %v\nfaults: %v\n%s\n%s", runs, res.Violation,
		res.Config, res.Injected, b.String(), small.command())
}

// inSomeOrder returns the first order in which a scenario has a violation.
func inSomeOrder(t *testing.T, m *machine, s scenario) (_ scenario, res result, found bool) {
	t.Helper()
	for s.order = 1; s.order <= maxOrders; s.order++ {
		if res = m.run(t, s); res.Violation != "" {
			return s, res, true
		}
	}
	return s, res, false
}

// rangeOf returns the numbers of an environment variable, N or N-M.
func rangeOf(t *testing.T, variable, otherwise string) (first, last uint64) {
	t.Helper()
	text := cmp.Or(os.Getenv(variable), otherwise)
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, err := strconv.ParseUint(from, 10, 64)
	if err != nil {
		t.Fatalf("%s is %q: want N or N-M", variable, text)
	}
	if last, err = strconv.ParseUint(to, 10, 64); err != nil || last < first {
		t.Fatalf("%s is %q: want N or N-M", variable, text)
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
