package replay

import (
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/expect"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/gate"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/metrics"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/lambda/msk"
)

func batchOfTwo(t *testing.T) *mskevent.Batch {
	t.Helper()
	b, err := mskevent.New("test", []mskevent.Message{{Topic: "t", Offset: 5}, {Topic: "t", Offset: 6}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

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
	statuses := map[string]idem.Status{
		"t#good": idem.StatusCompleted, "t#bad": idem.StatusFailed, "t@t-0@3": idem.StatusFailed,
		"t#open": idem.StatusStarted, "t#mute": idem.StatusFailed, "t#swapped": idem.StatusCompleted,
	}
	p := &pass{}
	p.checkPlaces(places, statuses, []msk.DeadLetter{{IdempotencyKey: "t#bad"}, {IdempotencyKey: "t@t-0@3"}, {IdempotencyKey: "t#swapped"}})
	want := []string{
		`record t-0@4 is lost or unsettled: there is no item of its key (key "t#gone")`,
		`record t-0@5 is lost or unsettled: its key is STARTED, must be COMPLETED (key "t#open")`,
		`record t-0@6 is lost or unsettled: its key is FAILED, but no dead letter was sent (key "t#mute")`,
		`record t-0@7 is lost or unsettled: its key is COMPLETED, must be FAILED (key "t#swapped")`,
	}
	if got := strings.Join(p.problems, "\n"); got != strings.Join(want, "\n") || p.report.Lost != len(want) {
		t.Errorf("%d lost:\n%s", p.report.Lost, got)
	}
}

func TestMetricsAreHeldAgainstWhatWasSeen(t *testing.T) {
	t.Parallel()
	b := batchOfTwo(t)
	for name, test := range map[string]struct {
		printed []metrics.Outcomes
		seen    gate.Delivery
		says    string // "" is no problem
	}{
		"right":            {[]metrics.Outcomes{{Executed: 1, Replayed: 1, BatchSize: 2}}, gate.Delivery{Completions: 1, Effects: 1}, ""},
		"fenced":           {[]metrics.Outcomes{{Executed: 1, Fenced: 1, BatchSize: 2}}, gate.Delivery{Completions: 1, Effects: 1}, ""},
		"nothing printed":  {nil, gate.Delivery{}, "0 lines of metrics"},
		"printed twice":    {make([]metrics.Outcomes, 2), gate.Delivery{}, "2 lines of metrics"},
		"another batch":    {[]metrics.Outcomes{{Replayed: 2, BatchSize: 3}}, gate.Delivery{}, "a batch of 3"},
		"a record missing": {[]metrics.Outcomes{{Replayed: 1, BatchSize: 2}}, gate.Delivery{}, "have 1 outcomes"},
		"not completed":    {[]metrics.Outcomes{{Executed: 2, BatchSize: 2}}, gate.Delivery{Completions: 1, Effects: 2}, "Executed 2, but 1 keys"},
		"not done":         {[]metrics.Outcomes{{Executed: 2, BatchSize: 2}}, gate.Delivery{Completions: 2, Effects: 1}, "changed 1 times"},
	} {
		p := &pass{protected: true}
		p.check(b, test.printed, test.seen)
		switch got := strings.Join(p.problems, "\n"); {
		case test.says == "" && got != "", !strings.Contains(got, test.says):
			t.Errorf("%s: %q, want %q", name, got, test.says)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	b := batchOfTwo(t)
	for payload, lowest := range map[string]int64{
		`{"batchItemFailures":[]}`: -1,
		`{}`:                       -1,
		`{"batchItemFailures":[{"itemIdentifier":{"partition":"t-0","offset":6}},{"itemIdentifier":{"partition":"t-0","offset":5}}]}`: 5,
		`{"batchItemFailures":[{"itemIdentifier":{"partition":"t-0","offset":6}}]}`:                                                   6,
	} {
		got, err := failures(b, []byte(payload))
		if offset, ok := got["t-0"]; err != nil || ok != (lowest >= 0) || ok && offset != lowest {
			t.Errorf("%s: %v, %v; want %d", payload, got, err, lowest)
		}
	}
	for _, payload := range []string{
		`null!`, `[]`, `{"batchItemFailures":[{}]}`, `{"batchItemFailures":[{"itemIdentifier":"t-0@5"}]}`,
		`{"batchItemFailures":[{"itemIdentifier":{"partition":"t-0","offset":7}}]}`,
		`{"batchItemFailures":[{"itemIdentifier":{"partition":"t","offset":5}}]}`,
		`{"batchItemFailures":[{"itemIdentifier":{"partition":"t-0"}}]}`,
	} {
		if got, err := failures(b, []byte(payload)); err == nil {
			t.Errorf("%s was taken for %v", payload, got)
		}
		p := &pass{}
		if d := p.answered(b, []byte(payload)); d.next != b || len(p.problems) != 1 {
			t.Errorf("%s: delivered again %v, problems %q; want all of it, and one", payload, d.next, p.problems)
		}
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	off := differences(map[string]int64{"a/EUR": 5, "b/EUR": 7, "c/EUR": 1}, map[string]int64{"a/EUR": 5, "b/EUR": 6, "d/USD": 9, "e/EUR": 0})
	want := []Difference{{"b/EUR", 7, 6}, {"c/EUR", 1, 0}, {"d/USD", 0, 9}}
	if len(off) != len(want) || off[0] != want[0] || off[1] != want[1] || off[2] != want[2] {
		t.Errorf("%+v, want %+v", off, want)
	}
	p := Pass{Off: off}
	if got := sums(p.offBy()); got != "0.02 EUR and 0.09 USD" {
		t.Errorf("off by %s", got)
	}
}
