package verify_test

import (
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/verify"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// Letters are grouped by what does not differ between records: neither quoted texts nor numbers.
func TestLettersByCause(t *testing.T) {
	t.Parallel()
	var letters []kafka.DeadLetter
	for i, message := range []string{`no key "a" 1`, "simulated failure", `no key "b\"" 22`, `no key "" 3`} {
		letters = append(letters, kafka.DeadLetter{Topic: "t", Offset: int64(9 - i),
			Error: store.Failure{Code: "permanent", Message: message}})
	}
	want := `Dead letters: t-0@6 permanent no key "" 3 and 2 more for this reason t-0@8 permanent simulated failure `
	if got := verify.Letters(letters); unwrapped(got) != strings.TrimSpace(want) {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := verify.Letters(nil); got != "" {
		t.Errorf("without letters: %q", got)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	repeat := verify.Repeat{
		Execution: testenv.Execution{Key: "f#t#k", Attempt: 1, Amount: 1234},
		Kill:      verify.Kill{During: "t-0@5+9", At: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)},
	}
	letter := kafka.DeadLetter{Topic: "t", Offset: 7,
		Error: store.Failure{Code: "permanent", Message: "no\x1b[31m"}}
	for name, test := range map[string]struct {
		result    verify.Result
		delivered int
		kills     int
		without   *verify.Result
		want      []string
	}{
		"exact": {verify.Result{Records: 1200, Payments: 1100}, 2400, 0, nil,
			[]string{"1,200 records, delivered 2,400 times, booked 1,100 payments exactly once each, to the cent."}},
		"with kills and dead letters": {verify.Result{Records: 2, Payments: 1,
			Letters: []kafka.DeadLetter{letter}}, 3, 1, nil, []string{
			"Dead letters:\n  t-0@7  permanent  no\\x1b[31m\n",
			"2 records, delivered 3 times to processes of which 1 was killed, booked 1 payment exactly once each, to the cent; " +
				"what can't be booked is in 1 dead letter, and nothing is lost.",
		}},
		"with repeats": {verify.Result{Records: 9, Payments: 9, Audited: true,
			Repeats: []verify.Repeat{repeat, repeat}}, 12, 2, nil, []string{
			"completion was not stored:\n  f#t#k  attempt 1  12.34  killed 03:04:05.006  in t-0@5+9\n",
			"of which 2 were killed, booked 9 payments: 8 exactly once each, and 1 again, because no completion",
		}},
		"audited, without repeats": {verify.Result{Audited: true}, 0, 1, nil,
			[]string{"No kill fell between a booking and its completion this time."}},
		"beside a wrong ledger": {verify.Result{}, 0, 0,
			&verify.Result{Off: []verify.Difference{{"a/EUR", 5, 7}, {"b/EUR", 9, 8}}},
			[]string{"; without idemsk the ledger would be off by 0.03 EUR on 2 accounts."}},
		"beside a right ledger": {verify.Result{}, 0, 0, &verify.Result{},
			[]string{"; without idemsk the ledger would be right too"}},
		"problems": {verify.Result{Problems: strings.Split(strings.Repeat("wrong\x1b ", 12), " ")[:12]}, 0, 0,
			nil,
			[]string{"PROBLEMS\n  wrong\\x1b\n", "  and 2 more\n\nNot proven: 12 checks failed.\n"}},
	} {
		text := test.result.Summary(test.delivered, test.kills, test.without)
		for _, want := range test.want {
			if !strings.Contains(unwrapped(text), unwrapped(want)) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
	}
}

// unwrapped replaces each run of blanks and line breaks by one blank.
func unwrapped(text string) string { return strings.Join(strings.Fields(text), " ") }
