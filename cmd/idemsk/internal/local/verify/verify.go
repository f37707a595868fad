// Package verify compares what the example function has written to its test environment with what the oracle
// expects.
//
// A process that is killed between a booking and its completion leaves a payment that is booked again in
// plain mode. The audit tells such bookings from others: for each there must be a kill.
package verify

import (
	"fmt"
	"maps"
	"slices"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/oracle"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// Result is the result of a verification.
type Result struct {
	Records  int              // number of different records
	Payments int              // number of payments to be booked
	Expected map[string]int64 // the ledger's sums by currency, in minor units
	Found    map[string]int64
	Off      []Difference // the accounts with other balances than if each payment was booked once
	Letters  []kafka.DeadLetter
	Audited  bool     // the function kept an audit
	Repeats  []Repeat // bookings that were repeated after a kill, or a refused completion
	Problems []string // why the verification failed
}

// OK reports whether the verification succeeded.
func (r *Result) OK() bool { return len(r.Problems) == 0 }

// Run compares what was found in a test environment with the expected ledger. Kills are the processes that
// were killed, refused the number of completions that the function reported as refused or failed.
func Run(want *oracle.Ledger, found *testenv.State, letters []kafka.DeadLetter, kills []Kill, refused int) *Result {
	r := &Result{
		Records: len(want.Records()), Payments: want.Booked(), Expected: totals(want.Balances()),
		Found: totals(found.Balances),
		Off:   differences(want.Balances(), found.Balances), Letters: letters,
		Audited: len(found.Executions) > 0,
	}
	balances := maps.Clone(want.Balances())
	var unexplained []string
	if r.Audited {
		r.Repeats, unexplained = bookings(want, found.Executions, kills, refused)
		for i := range r.Repeats {
			balances[r.Repeats[i].Account] += r.Repeats[i].Amount
		}
	}
	for _, off := range differences(balances, found.Balances) {
		r.Problems = append(r.Problems, fmt.Sprintf("the ledger is wrong: %s has %d, want %d (minor units)",
			off.Account, off.Found, off.Expected))
	}
	r.Problems = append(r.Problems, unexplained...)
	r.Problems = append(r.Problems, unsettled(want.Records(), found.Statuses, letters)...)
	return r
}

// unsettled returns a problem for each record that has not ended as expected, and for each key that no record
// has.
func unsettled(records []oracle.Record, statuses map[string]store.Status,
	letters []kafka.DeadLetter) (problems []string) {
	dead := make(map[string]bool, len(letters))
	for i := range letters {
		dead[letters[i].IdempotencyKey] = true
	}
	expected := make(map[string]bool, len(records))
	for _, r := range records {
		expected[r.Key] = true
		if problem := settlementProblem(r.Outcome, statuses[r.Key], dead[r.Key]); problem != "" {
			problems = append(problems, fmt.Sprintf("record %s is lost or unsettled: %s (key %q)", r.Source,
				problem, r.Key))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(statuses)) {
		if !expected[key] {
			problems = append(problems, fmt.Sprintf("the store has the key %q, which no record has", key))
		}
	}
	return problems
}

func settlementProblem(outcome oracle.Outcome, status store.Status, dead bool) string {
	want := store.StatusFailed
	if outcome == oracle.Booked {
		want = store.StatusCompleted
	}
	switch {
	case status == "":
		return "there is no item of its key"
	case status != want:
		return fmt.Sprintf("its key is %s, want %s", status, want)
	case want == store.StatusFailed && !dead:
		return "its key is FAILED, but no dead letter was sent"
	}
	return ""
}
