package proof

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/expect"
)

// Kill is an invocation whose process was killed.
type Kill struct {
	RequestID string
	Batch     string // for people
	At        time.Time
}

// Repeat is a booking that was done again, and the kill that fell between it and its completion.
type Repeat struct {
	Execution

	Kill Kill
}

// Bookings holds the audit against the records: each payment was booked at least once, what can't be booked never, and more
// than once only where a kill fell between a booking and its completion; a kill accounts for at most window payments. It
// returns the bookings that were done again, in the order of the kills, and what is wrong.
func Bookings(places []expect.Place, executions []Execution, kills []Kill, window int) (repeats []Repeat, problems []string) {
	byKey := make(map[string][]Execution)
	for _, e := range executions {
		byKey[e.Key] = append(byKey[e.Key], e)
	}
	killed := make(map[string]Kill, len(kills))
	for _, k := range kills {
		killed[k.RequestID] = k
	}
	booked := make(map[string]bool)
	for _, place := range places {
		if place.Fate == expect.Booked {
			booked[place.Key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(booked)) {
		if len(byKey[key]) == 0 {
			problems = append(problems, fmt.Sprintf("the audit has no booking of %q", key))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		if !booked[key] {
			problems = append(problems, fmt.Sprintf("the audit has a booking of %q, which must not be booked", key))
			continue
		}
		all := byKey[key]
		slices.SortFunc(all, func(a, b Execution) int { return cmp.Compare(a.Token, b.Token) })
		for _, e := range all[:len(all)-1] {
			kill, ok := killed[e.RequestID]
			if !ok {
				problems = append(problems, fmt.Sprintf("%q was booked %d times, and no kill accounts for attempt %d (token %d, invocation %s)",
					key, len(all), e.Attempt, e.Token, e.RequestID))
				continue
			}
			repeats = append(repeats, Repeat{Execution: e, Kill: kill})
		}
	}
	slices.SortStableFunc(repeats, func(a, b Repeat) int { return a.Kill.At.Compare(b.Kill.At) })
	return repeats, append(problems, tooMany(repeats, window)...)
}

// tooMany says which kills account for more than there can be.
func tooMany(repeats []Repeat, window int) (problems []string) {
	counts := make(map[string]int)
	for i := range repeats {
		k := &repeats[i].Kill
		if counts[k.RequestID]++; counts[k.RequestID] == window+1 {
			problems = append(problems, fmt.Sprintf("the kill in %s repeated more than %d bookings", k.Batch, window))
		}
	}
	return problems
}
