package replay

import (
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/gate"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/metrics"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/mskevent"
)

func batchOfTwo(t *testing.T) *mskevent.Batch {
	t.Helper()
	b, err := mskevent.New("test", []mskevent.Message{{Topic: "t", Offset: 5}, {Topic: "t", Offset: 6}})
	if err != nil {
		t.Fatal(err)
	}
	return b
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

// On a machine that is not Linux, the functions for Lambda are beside the one that runs here.
func TestTheFunctionOfThisMachine(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"handler-amd64": builtName("linux", "amd64", ""), "handler-arm64-postgres": builtName("linux", "arm64", "postgres"),
		"handler-darwin-arm64": builtName("darwin", "arm64", ""), "handler-darwin-arm64-redis": builtName("darwin", "arm64", "redis"),
	} {
		if got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
}
