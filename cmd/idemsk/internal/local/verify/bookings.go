package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/oracle"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
)

// Kill is the kill of a process.
type Kill struct {
	Executor string // as in the audit: the request ID of the invocation; "" if it had not started
	Process  int    // which process of the function it was, from 1; 0 if that is in During
	During   string // what it interrupted, for messages: the batch
	At       time.Time
}

// Repeat is a booking that was repeated, and the kill between the booking and its completion. Without a kill
// its process lost the claim, or could not store the completion.
type Repeat struct {
	testenv.Execution

	Kill Kill
}

// cause returns what came between the booking and its completion.
func (r *Repeat) cause() string {
	if r.Kill.At.IsZero() {
		return "not killed: claim lost, or completion not stored"
	}
	return "killed " + r.Kill.At.Format(timeOfDay) + "  in " + r.Kill.During
}

// bookings compares the audit with the records. Each payment must have been booked at least once, and other
// payments never. All bookings of a payment but the last must be of an executor that was killed, or there is a
// completion that the function reported as refused or failed: there were refused of these. A kill explains at
// most as many bookings as the commit window has. It returns the repeated bookings in the order of the kills,
// and the problems.
func bookings(want *oracle.Ledger, executions []testenv.Execution, kills []Kill, refused int) (repeats []Repeat,
	problems []string) {
	byKey := make(map[string][]testenv.Execution)
	for _, e := range executions {
		byKey[e.Key] = append(byKey[e.Key], e)
	}
	booked := make(map[string]bool)
	for _, r := range want.Records() {
		if r.Outcome == oracle.Booked {
			booked[r.Key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(booked)) {
		if len(byKey[key]) == 0 {
			problems = append(problems, fmt.Sprintf("the audit has no booking of %q", key))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		if !booked[key] {
			problems = append(problems, fmt.Sprintf("the audit has a booking of %q, which must not be booked",
				key))
			delete(byKey, key)
		}
	}
	repeats, unexplained := explain(byKey, kills, refused)
	problems = append(problems, unexplained...)
	return repeats, append(problems, tooMany(repeats, want.Rules().CommitWindow)...)
}

// explain finds for each booking of a key, but the last, the kill of its executor. It returns these bookings
// in the order of the kills, and a problem for each without one, beyond the completions that were refused.
func explain(byKey map[string][]testenv.Execution, kills []Kill, refused int) (repeats []Repeat, problems []string) {
	killed := make(map[string]Kill, len(kills))
	for _, k := range kills {
		if k.Executor != "" {
			killed[k.Executor] = k
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		all := byKey[key]
		slices.SortFunc(all, func(a, b testenv.Execution) int { return cmp.Compare(a.Token, b.Token) })
		for _, e := range all[:len(all)-1] {
			kill, ok := killed[e.Executor]
			if !ok && refused == 0 {
				problems = append(problems,
					fmt.Sprintf("%q was booked %d times, and no kill explains attempt %d (token %d, executed by %s)",
						key, len(all), e.Attempt, e.Token, e.Executor))
				continue
			}
			if !ok {
				refused--
			}
			repeats = append(repeats, Repeat{Execution: e, Kill: kill})
		}
	}
	slices.SortStableFunc(repeats, func(a, b Repeat) int { return a.Kill.At.Compare(b.Kill.At) })
	return repeats, problems
}

// tooMany returns a problem for each kill with more repeated bookings than the commit window.
func tooMany(repeats []Repeat, window int) (problems []string) {
	counts := make(map[string]int)
	for i := range repeats {
		k := &repeats[i].Kill
		if k.Executor == "" {
			continue
		}
		if counts[k.Executor]++; counts[k.Executor] == window+1 {
			problems = append(problems, fmt.Sprintf("the kill in %s repeated more than %d bookings", k.During,
				window))
		}
	}
	return problems
}
