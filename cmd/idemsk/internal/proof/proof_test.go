package proof_test

import (
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/expect"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/proof"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

func TestEveryRecordMustHaveEnded(t *testing.T) {
	t.Parallel()
	places := []expect.Place{
		{Source: "t-0@1", Key: "t#good", Fate: expect.Booked},
		{Source: "t-0@2", Key: "t#bad", Fate: expect.Failed},
		{Source: "t-0@3", Key: "t@t-0@3", Fate: expect.Rejected},
		{Source: "t-0@4", Key: "t#gone", Fate: expect.Booked},
		{Source: "t-0@5", Key: "t#open", Fate: expect.Booked},
		{Source: "t-0@6", Key: "t#mute", Fate: expect.Failed},
		{Source: "t-0@7", Key: "t#swapped", Fate: expect.Failed},
	}
	statuses := map[string]store.Status{
		"t#good": store.StatusCompleted, "t#bad": store.StatusFailed, "t@t-0@3": store.StatusFailed,
		"t#open": store.StatusStarted, "t#mute": store.StatusFailed, "t#swapped": store.StatusCompleted,
	}
	lost := proof.Lost(places, statuses, []kafka.DeadLetter{{IdempotencyKey: "t#bad"}, {IdempotencyKey: "t@t-0@3"}, {IdempotencyKey: "t#swapped"}})
	want := []string{
		`record t-0@4 is lost or unsettled: there is no item of its key (key "t#gone")`,
		`record t-0@5 is lost or unsettled: its key is STARTED, want COMPLETED (key "t#open")`,
		`record t-0@6 is lost or unsettled: its key is FAILED, but no dead letter was sent (key "t#mute")`,
		`record t-0@7 is lost or unsettled: its key is COMPLETED, want FAILED (key "t#swapped")`,
	}
	if got := strings.Join(lost, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("lost:\n%s", got)
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	off := proof.Differences(map[string]int64{"a/EUR": 5, "b/EUR": 7, "c/EUR": 1}, map[string]int64{"a/EUR": 5, "b/EUR": 6, "d/USD": 9, "e/EUR": 0})
	want := []proof.Difference{{"b/EUR", 7, 6}, {"c/EUR", 1, 0}, {"d/USD", 0, 9}}
	if len(off) != len(want) || off[0] != want[0] || off[1] != want[1] || off[2] != want[2] {
		t.Errorf("%+v, want %+v", off, want)
	}
	if got := proof.Amounts(proof.Off(off)); got != "0.02 EUR and 0.09 USD" {
		t.Errorf("off by %s", got)
	}
}

func TestBookings(t *testing.T) {
	t.Parallel()
	places := []expect.Place{{Key: "t#a", Fate: expect.Booked}, {Key: "t#b", Fate: expect.Booked}, {Key: "t#b", Fate: expect.Booked}, {Key: "t#bad", Fate: expect.Failed}}
	a, b := proof.Execution{Key: "t#a", RequestID: "r1", Token: 1, Attempt: 1, Amount: 5}, proof.Execution{Key: "t#b", RequestID: "r1", Token: 1, Attempt: 1, Amount: 7}
	again := proof.Execution{Key: "t#b", RequestID: "r2", Token: 3, Attempt: 2, Amount: 7}
	third := proof.Execution{Key: "t#b", RequestID: "r3", Token: 4, Attempt: 3, Amount: 7}
	kills := []proof.Kill{{RequestID: "r2", Batch: "second", At: time.Unix(2, 0)}, {RequestID: "r1", Batch: "first", At: time.Unix(1, 0)}}
	for name, test := range map[string]struct {
		executions []proof.Execution
		kills      []proof.Kill
		window     int
		repeats    string // the batches of their kills
		says       string // "" is no problem
	}{
		"once each":              {[]proof.Execution{a, b}, kills, 1, "", ""},
		"twice for a kill":       {[]proof.Execution{again, a, b}, kills, 1, "first", ""},
		"three times, two kills": {[]proof.Execution{third, again, a, b}, kills, 1, "first second", ""},
		"twice without a kill":   {[]proof.Execution{a, b, again}, nil, 1, "", `"t#b" was booked 2 times, and no kill accounts for attempt 1 (token 1, invocation r1)`},
		"killed, but the last":   {[]proof.Execution{a, b, again}, kills[:1], 1, "", "no kill accounts for attempt 1"},
		"never":                  {[]proof.Execution{a}, kills, 1, "", `no booking of "t#b"`},
		"not to be booked":       {[]proof.Execution{a, b, {Key: "t#bad"}}, kills, 1, "", `"t#bad", which must not be booked`},
		"more than a window":     {[]proof.Execution{a, {Key: "t#a", Token: 2}, b, again}, kills, 1, "first first", "the kill in first repeated more than 1 bookings"},
	} {
		repeats, problems := proof.Bookings(places, test.executions, test.kills, test.window)
		var batches []string
		for _, r := range repeats {
			batches = append(batches, r.Kill.Batch)
		}
		if got := strings.Join(problems, "; "); strings.Join(batches, " ") != test.repeats || (test.says == "") != (got == "") || !strings.Contains(got, test.says) {
			t.Errorf("%s: repeats %v, problems %q; want %q and %q", name, batches, got, test.repeats, test.says)
		}
	}
}
