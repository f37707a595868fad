package verify_test

import (
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/verify"
)

// A booking that was repeated is named with the kill of its invocation, also if that had several calls. One
// without a kill is a problem.
func TestDoubles(t *testing.T) {
	t.Parallel()
	const request = "8476a536-e9f4-11e8-9739-2dfe598c3fcd"
	kills := []verify.Kill{{Executor: request, Process: 3, During: "t-0@5+9",
		At: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)}}
	line := func(payment, request, attempt string) string {
		return `{"payment":"` + payment + `","request":"` + request + `","token":` + attempt + `,"attempt":` +
			attempt + "}\n"
	}
	for name, test := range map[string]struct {
		list  string
		wants []string
		not   string
	}{
		"none": {line("a", request, "1") + line("b", "r2", "1"),
			[]string{"2 payments were booked, 0 more than once"}, "again"},
		"after a kill": {line("a", "r2", "2") + line("a", request, "1"),
			[]string{"  a  attempt 1  killed 03:04:05.006  process 3  request " + request + "  in t-0@5+9\n",
				"1 payment was booked, 1 more"}, "without a kill"},
		"in a further call": {line("a", request+"-2", "1") + line("a", "r2", "2"),
			[]string{"attempt 1  killed 03:04:05.006"}, "without a kill"},
		"without a kill": {line("a", "r2", "1") + line("a", request, "2"),
			[]string{`Booked again without a kill:`,
				`"a" was booked 2 times, and no kill explains attempt 1 (token 1, executed by r2)`},
			"because"},
		"more than a window": {line("a", request, "1") + line("a", "r2", "2") + line("b", request, "1") +
			line("b", "r2", "2"), []string{"the kill in t-0@5+9 repeated more than 1 bookings"}, "explains"},
		"without layer or kill": {`{"payment":"a"}` + "\n" + `{"payment":"a"}`,
			[]string{"1 payment was booked, 1 more than once", "without a kill"}, "because"},
	} {
		d, err := verify.ReadDoubles(strings.NewReader(test.list), kills, 1)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text := d.Text()
		for _, want := range test.wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
		if strings.Contains(text, test.not) {
			t.Errorf("%s: %q in\n%s", name, test.not, text)
		}
	}
	for _, bad := range []string{"a\n", "{}\n", `{"payment":1}`} {
		if _, err := verify.ReadDoubles(strings.NewReader(line("a", "r", "1")+bad), nil, 1); err == nil ||
			!strings.Contains(err.Error(), "line 2 is") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
