package simulation_test

import (
	"slices"
	"strings"
	"testing"
)

// maxShrinkRuns is the maximum number of runs of each part of shrinking: that of settings, and the others.
const maxShrinkRuns = 1500

// otherSeeds is how many other seeds are run with a configuration before it counts as one that does not fail.
// A violation that needs rare faults needs another seed when a setting is gone. With an order there are fewer
// seeds, because a run takes some ten times longer.
const otherSeeds, otherSeedsInOrder = 150, 25

// shrinker looks for a smaller scenario that still fails.
type shrinker struct {
	run    func(scenario) result
	others uint64 // how many other seeds are run with a configuration
	best   scenario
	res    *result
	runs   int
}

// shrink returns the smallest scenario found, its result, and the number of runs: first with fewer settings,
// if need be with another seed, then with fewer faults and fewer records.
func shrink(run func(scenario) result, others uint64, s scenario, res *result) (
	small scenario, smallRes *result, runs int,
) {
	sh := &shrinker{run: run, others: others, best: s, res: res}
	sh.fewerSettings()
	runs, sh.runs = sh.runs, 0
	for range 2 {
		sh.fewerFaults()
		sh.fewerRecords()
	}
	return sh.best, sh.res, runs + sh.runs
}

// alike reports whether a run has a violation of the same kind: its text is the same but for keys, numbers
// and times.
func (sh *shrinker) alike(res *result) bool {
	return res.Violation != "" && kindOf(res.Violation) == kindOf(sh.res.Violation)
}

func kindOf(violation string) string {
	first, _, _ := strings.Cut(violation, "\n")
	words := strings.Fields(first)
	return strings.Join(slices.DeleteFunc(words,
		func(word string) bool { return strings.ContainsAny(word, "0123456789#@:{[") }), " ")
}

// tries is how often a scenario is run before it counts as one that does not fail.
func (sh *shrinker) tries() int {
	if sh.best.order > 0 {
		return 1
	}
	return 2
}

// fails runs a scenario, and keeps it if it fails.
func (sh *shrinker) fails(s scenario) bool {
	for range sh.tries() {
		if sh.runs >= maxShrinkRuns {
			return false
		}
		sh.runs++
		if res := sh.run(s); sh.alike(&res) {
			sh.best, sh.res = s, &res
			return true
		}
	}
	return false
}

// fewerSettings gives dimensions their first values: half of them, a quarter and so on.
func (sh *shrinker) fewerSettings() {
	names := sh.best.Config.names()
	for size := len(names); size > 0; size /= 2 {
		for from := 0; from < len(names); {
			c := sh.best.Config
			for _, name := range names[from:min(from+size, len(names))] {
				c = c.without(name)
			}
			if sh.failsWith(c) {
				names = c.names()
				continue
			}
			from += size
		}
	}
}

// failsWith reports whether a configuration fails with the seed or with another one, and keeps the first
// scenario that does. Without an order, another seed may have a violation of another kind, because a defect
// has several.
func (sh *shrinker) failsWith(c config) bool {
	s := sh.best
	s.Config, s.Only, s.Records = c, nil, 0
	if sh.fails(s) {
		return true
	}
	for s.Seed = 1; s.Seed <= sh.others && sh.runs < maxShrinkRuns; s.Seed++ {
		sh.runs++
		if res := sh.run(s); res.Violation != "" && (s.order == 0 || sh.alike(&res)) {
			sh.best, sh.res = s, &res
			return true
		}
	}
	return false
}

// fewerFaults leaves out parts of the faults, in halves, quarters and so on.
func (sh *shrinker) fewerFaults() {
	ids := idsOf(sh.res.Injected)
	for size := len(ids); size > 0; size /= 2 {
		for from := 0; from < len(ids); {
			without := append(append([]uint64{}, ids[:from]...), ids[min(from+size, len(ids)):]...)
			s := sh.best
			s.Only = without
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
	most := sh.best.Records
	if most == 0 {
		d := dice(sh.best.Seed)
		most = len(new(settingsOf(d, sh.best.Config)).drafts(d))
	}
	for size := most / 2; size > 0; size /= 2 {
		for most > size {
			s := sh.best
			s.Records = most - size
			if !sh.fails(s) {
				break
			}
			most = s.Records
		}
	}
}

func TestAFailureIsFoundAndShrunk(t *testing.T) {
	run := func(s scenario) result { return runHere(t, s) }
	s := scenario{Seed: 3, Config: configOf(t, "IDEMSK_ORDER=key,copies=same partition,effects=enlisted"),
		Careless: true}
	res := run(s)
	if !strings.Contains(res.Violation, `is booked "1" times`) || len(res.Injected) == 0 {
		t.Fatalf("a handler that books outside of the transaction, with %d faults: %s", len(res.Injected),
			res.Violation)
	}
	small, res2, _ := shrink(run, otherSeedsInOrder, s, &res)
	if small.Only == nil || len(small.Only) > 0 || small.Records == 0 || small.Records > 3 ||
		res2.Violation == "" {
		t.Errorf("after shrinking: %s: %s; want no faults, and at most 3 records", small.command(),
			res2.Violation)
	}
	if got := small.command(); !strings.HasPrefix(got,
		"make simulate SEEDS=3 CONFIG='effects=enlisted' FIRST=") || !strings.HasSuffix(got, " ONLY=none") {
		t.Errorf("the command is %q", got)
	}
}

// configOf reads a configuration.
func configOf(t *testing.T, text string) config {
	t.Helper()
	c, err := parseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
