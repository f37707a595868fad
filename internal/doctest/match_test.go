package doctest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// What may differ between two runs of a command: durations, and numbers.
var (
	duration = regexp.MustCompile(`\b(?:\d+(?:\.\d+)?(?:h|ms|m|s|µs))+\b`)
	number   = regexp.MustCompile(`\d+(?:[,.]\d+)*`)
)

// plain is a line without what may differ: a number stands for any number, a duration for any duration, blanks for blanks.
func plain(line string) string {
	line = duration.ReplaceAllString(line, "<time>")
	return strings.Join(strings.Fields(number.ReplaceAllString(line, "<n>")), " ")
}

// match compares the output of a command with what a document shows of it. A line "…" stands for any lines, an "…" within a line for
// any text; every other line has to be there, as it is but for numbers and durations, and there must be no more of them. It returns
// how many lines of the output were matched by what is shown, and what is wrong.
func match(shown, output []string) (matched int, err error) {
	if len(shown) == 0 {
		if len(output) > 0 {
			return 0, fmt.Errorf("more was printed than is shown: %q", output[0])
		}
		return 0, nil
	}
	if strings.TrimSpace(shown[0]) == "…" {
		for skipped := 0; ; skipped++ {
			n, err := match(shown[1:], output[skipped:])
			if err == nil || len(shown) == 1 {
				return len(output), nil
			}
			if skipped == len(output) {
				return n, err
			}
		}
	}
	if len(output) == 0 {
		return 0, fmt.Errorf("not printed: %q", shown[0])
	}
	if !matchLine(shown[0], output[0]) {
		return 0, fmt.Errorf("shown: %q; printed: %q", shown[0], output[0])
	}
	n, err := match(shown[1:], output[1:])
	return n + 1, err
}

func matchLine(shown, printed string) bool {
	var parts []string
	for part := range strings.SplitSeq(plain(shown), "…") {
		parts = append(parts, regexp.QuoteMeta(part))
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(plain(printed))
}

func TestMatch(t *testing.T) {
	t.Parallel()
	printed := []string{"with idemsk   10,000 in 1m3.5s", "", "the end of it"}
	for _, shown := range [][]string{
		{"with idemsk 9 in 59s", "", "the end of it"}, {"…"}, {"with idemsk 9 in 59s", "…"}, {"…", "the end of it"}, {"with … in 5ms", "", "the … it"}, {"…", "", "…"},
		{"…", "with idemsk 9 in 59s", "…", "the end of it", "…"},
	} {
		if _, err := match(shown, printed); err != nil {
			t.Errorf("%q: %v", shown, err)
		}
	}
	for says, shown := range map[string][]string{
		"more was printed than is shown": {"with idemsk 9 in 59s"}, `printed: "with idemsk`: {"without idemsk 9 in 59s", "…"}, `printed: "the end`: {"with … in 59s", "", "the end"},
		`not printed: "and more"`: {"with … in 59s", "", "the end of it", "and more"}, "not printed: \"nonsense\"": {"…", "nonsense"},
	} {
		if _, err := match(shown, printed); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want an error that says %s", shown, err, says)
		}
	}
}
