package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/oracle"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/verify"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
)

// expected is the ledger of payments of 5 to the account a, one for each key, with a commit window of 1. The
// key bad is never booked, and the key "" is none.
func expected(t *testing.T, keys ...string) *oracle.Ledger {
	t.Helper()
	want := oracle.New(oracle.Rules{Key: "key", Namespace: "f", MaxAttempts: 5, CommitWindow: 1})
	for i, key := range keys {
		m := mskevent.Message{Topic: "t", Offset: int64(i), Key: []byte(key),
			Value: []byte(`{"paymentId":"p","account":"a","amount":5,"currency":"EUR"}`)}
		if key == "bad" {
			m.Value = nil
		}
		if err := want.Add([]mskevent.Record{m.Record()}); err != nil {
			t.Fatal(err)
		}
	}
	return want
}

func TestEveryRecordMustBeSettled(t *testing.T) {
	t.Parallel()
	want := expected(t, "good", "bad", "", "gone", "open")
	found := &testenv.State{Balances: map[string]int64{"a/EUR": 15}, Statuses: map[string]store.Status{
		"f#t#good": store.StatusCompleted, "f#t#bad": store.StatusFailed, "f@t-0@2@0": store.StatusFailed,
		"f#t#open": store.StatusStarted,
	}}
	letters := []kafka.DeadLetter{{IdempotencyKey: "f#t#bad"}, {IdempotencyKey: "f@t-0@2@0"}}
	check := func(letters []kafka.DeadLetter, want *verify.Result, problems ...string) {
		t.Helper()
		if !slices.Equal(want.Problems, problems) || want.OK() != (len(problems) == 0) ||
			len(want.Letters) != len(letters) {
			t.Errorf("problems:\n%s\nwant:\n%s", strings.Join(want.Problems, "\n"),
				strings.Join(problems, "\n"))
		}
	}
	check(letters, verify.Run(want, found, letters, nil, 0),
		`record t-0@3 is lost or unsettled: there is no item of its key (key "f#t#gone")`,
		`record t-0@4 is lost or unsettled: its key is STARTED, want COMPLETED (key "f#t#open")`,
	)
	found.Statuses["f#t#gone"], found.Statuses["f#t#open"] = store.StatusCompleted, store.StatusCompleted
	check(letters, verify.Run(want, found, letters, nil, 0))
	found.Statuses["f#t#bad"], found.Statuses["f#t#new"] = store.StatusCompleted, store.StatusCompleted
	check(letters[:1], verify.Run(want, found, letters[:1], nil, 0),
		`record t-0@1 is lost or unsettled: its key is COMPLETED, want FAILED (key "f#t#bad")`,
		`record t-0@2 is lost or unsettled: its key is FAILED, but no dead letter was sent (key "f@t-0@2@0")`,
		`the store has the key "f#t#new", which no record has`,
	)
}

func TestEveryBalanceMustBeRight(t *testing.T) {
	t.Parallel()
	want := expected(t, "one", "two")
	found := &testenv.State{
		Balances: map[string]int64{"a/EUR": 9, "b/EUR": 0, "c/EUR": 7, "d/USD": -8},
		Statuses: map[string]store.Status{"f#t#one": store.StatusCompleted, "f#t#two": store.StatusCompleted},
	}
	r := verify.Run(want, found, nil, nil, 0)
	off := []verify.Difference{{"a/EUR", 10, 9}, {"c/EUR", 0, 7}, {"d/USD", 0, -8}}
	problems := []string{
		"the ledger is wrong: a/EUR has 9, want 10 (minor units)",
		"the ledger is wrong: c/EUR has 7, want 0 (minor units)",
		"the ledger is wrong: d/USD has -8, want 0 (minor units)",
	}
	if !slices.Equal(r.Off, off) || !slices.Equal(r.Problems, problems) {
		t.Errorf("off %+v, problems %q; want %+v and %q", r.Off, r.Problems, off, problems)
	}
	if got := fmt.Sprint(verify.Amounts(r.Expected), "; ", verify.Amounts(r.Found), "; ",
		verify.Amounts(r.OffBy())); got != "0.10 EUR; 0.16 EUR and -0.08 USD; 0.08 EUR and 0.08 USD" {
		t.Errorf("expected, found and off by are %s", got)
	}
}

// A payment may be booked more than once only if a kill explains each booking but the last.
func TestRepeatedBookings(t *testing.T) {
	t.Parallel()
	execution := func(key, executor string, token int64, attempt int) testenv.Execution {
		return testenv.Execution{Key: "f#t#" + key, Executor: executor, Token: token, Attempt: attempt,
			Account: "a/EUR", Amount: 5}
	}
	one, two := execution("one", "r1", 1, 1), execution("two", "r1", 1, 1)
	again, third := execution("two", "r2", 3, 2), execution("two", "r3", 4, 3)
	kills := []verify.Kill{{Executor: "r2", During: "second", At: time.Unix(2, 0)},
		{Executor: "r1", During: "first", At: time.Unix(1, 0)}}
	for name, test := range map[string]struct {
		executions []testenv.Execution
		kills      []verify.Kill
		repeats    string // what their kills interrupted
		problem    string // "" is none
		refused    int    // completions
	}{
		"once each":              {[]testenv.Execution{one, two}, kills, "", "", 0},
		"twice with a kill":      {[]testenv.Execution{again, one, two}, kills, "first", "", 0},
		"three times, two kills": {[]testenv.Execution{third, again, one, two}, kills, "first second", "", 0},
		"twice without a kill": {[]testenv.Execution{one, two, again}, nil, "",
			`"f#t#two" was booked 2 times, and no kill explains attempt 1 (token 1, executed by r1)`, 0},
		"twice with a refused completion": {[]testenv.Execution{one, two, again}, nil, "", "", 1},
		"three times with a refused completion": {[]testenv.Execution{one, two, again, third}, nil, "",
			"no kill explains attempt 2", 1},
		"the last was killed": {[]testenv.Execution{one, two, again}, kills[:1], "",
			"no kill explains attempt 1", 0},
		"never": {[]testenv.Execution{one}, kills, "", `no booking of "f#t#two"`, 0},
		"must not be booked": {[]testenv.Execution{one, two, execution("bad", "r1", 1, 1)}, kills, "",
			`"f#t#bad", which must not be booked`, 0},
		"more than a window": {[]testenv.Execution{one, execution("one", "r4", 2, 2), two, again}, kills,
			"first first", "the kill in first repeated more than 1 bookings", 0},
		"a wrong balance as well": {[]testenv.Execution{again, one, two, execution("other", "r1", 1, 1)},
			kills, "first", "the ledger is wrong: a/EUR has 20, want 15", 0},
	} {
		found := &testenv.State{Executions: test.executions, Balances: make(map[string]int64),
			Statuses: map[string]store.Status{
				"f#t#one": store.StatusCompleted, "f#t#two": store.StatusCompleted,
				"f#t#bad": store.StatusFailed,
			}}
		for _, e := range test.executions {
			found.Balances[e.Account] += e.Amount
		}
		r := verify.Run(expected(t, "one", "two", "two", "bad"), found,
			[]kafka.DeadLetter{{IdempotencyKey: "f#t#bad"}}, test.kills, test.refused)
		var interrupted []string
		for _, repeat := range r.Repeats {
			interrupted = append(interrupted, repeat.Kill.During)
		}
		got := strings.Join(r.Problems, "; ")
		if strings.Join(interrupted, " ") != test.repeats || (test.problem == "") != (got == "") ||
			!strings.Contains(got, test.problem) || !r.Audited {
			t.Errorf("%s: repeats %v, problems %q; want %q and %q", name, interrupted, got, test.repeats,
				test.problem)
		}
	}
}
