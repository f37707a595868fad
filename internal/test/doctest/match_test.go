package doctest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// The parts of an output that may differ between two runs: durations and numbers.
var (
	duration = regexp.MustCompile(`\b(?:\d+(?:\.\d+)?(?:h|ms|m|s|µs))+\b`)
	number   = regexp.MustCompile(`\d+(?:[,.]\d+)*`)
)

// plain replaces the parts of a line that may differ: numbers, durations and blanks.
func plain(line string) string {
	line = duration.ReplaceAllString(line, "<time>")
	return strings.Join(strings.Fields(number.ReplaceAllString(line, "<n>")), " ")
}

// match compares the output of a command with the lines that a document shows. A line "…" matches any lines,
// and "…" within a line matches any text. Every other line must be in the output, except for numbers and
// durations, and the output must have no further lines. match returns the number of output lines that
// matched, and an error that describes the difference.
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
		{"with idemsk 9 in 59s", "", "the end of it"}, {"…"}, {"with idemsk 9 in 59s", "…"},
		{"…", "the end of it"}, {"with … in 5ms", "", "the … it"}, {"…", "", "…"},
		{"…", "with idemsk 9 in 59s", "…", "the end of it", "…"},
	} {
		if _, err := match(shown, printed); err != nil {
			t.Errorf("%q: %v", shown, err)
		}
	}
	for says, shown := range map[string][]string{
		"more was printed than is shown": {"with idemsk 9 in 59s"},
		`printed: "with idemsk`:          {"without idemsk 9 in 59s", "…"},
		`printed: "the end`:              {"with … in 59s", "", "the end"},
		`not printed: "and more"`:        {"with … in 59s", "", "the end of it", "and more"},
		"not printed: \"nonsense\"":      {"…", "nonsense"},
	} {
		if _, err := match(shown, printed); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want an error that says %s", shown, err, says)
		}
	}
}
