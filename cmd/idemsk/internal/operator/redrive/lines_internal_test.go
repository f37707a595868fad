package redrive

import (
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "1": "1", "1-3": "1-3", "2,1": "1-2", "3-4,7,9-10": "3-4,7,9-10", "1-2,2-5": "1-5",
	} {
		done, err := parseLines(text)
		if got := linesText(&done); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "x", "3-2", "1-", "-1", "1,,2", "1 - 2", "99999999999"} {
		if _, err := parseLines(text); err == nil || !strings.Contains(err.Error(), "want such as 1-120,125") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParseRate(t *testing.T) {
	t.Parallel()
	if n, err := parseRate("50/s"); n != 50 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, text := range []string{"", "50", "0/s", "-1/s", "1.5/s", "1/m"} {
		if _, err := parseRate(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
