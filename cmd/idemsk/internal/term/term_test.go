package term_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEscape(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"payments#köln-№1 日本":        "payments#köln-№1 日本",
		"\x1b]0;owned\a":             `\x1b]0;owned\a`,
		"a\nb\tc\r":                  `a\nb\tc\r`,
		"c1: \u009b31m":              `c1: \u009b31m`,
		"bidi \u202egnp.exe":         `bidi \u202egnp.exe`,
		"zero\u200bwidth \ufeff":     `zero\u200bwidth \ufeff`,
		"bad \xff\xc3 utf-8":         `bad \xff\xc3 utf-8`,
		"a real replacement: \uFFFD": "a real replacement: \uFFFD",
		"del \x7f":                   `del \x7f`,
		`it's "quoted"`:              `it's "quoted"`,
	} {
		if got := term.Escape(in); got != want {
			t.Errorf("Escape(%q) = %s, want %s", in, got, want)
		}
	}
	if got := term.EscapeLines("a\n\tb\x1b[2J"); got != "a\n\tb\\x1b[2J" {
		t.Errorf("EscapeLines: %q", got)
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("\x1b[31m\u202e\xff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range term.Escape(s) {
			if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
				t.Fatalf("Escape(%q) leaves %U", s, r)
			}
		}
	})
}

func TestJSONKeepsTheMeaning(t *testing.T) {
	t.Parallel()
	want := map[string]string{"key": "a<b>&\u009b1m\u202e\U000e0001 ü\x1b \"quoted\"\n"}
	out, err := term.JSON(want, "  ")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), `a<b>&\u009b1m\u202e\udb40\udc01 ü\u001b`) {
		t.Errorf("encoded as %s", out)
	}
	var got map[string]string
	if err := json.Unmarshal(out, &got); err != nil || got["key"] != want["key"] {
		t.Errorf("decoded as %q, %v; want %q", got["key"], err, want["key"])
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var table term.Table
	table.Right(1)
	table.Row("KEY", "N", "WHY")
	table.Row("köln", "7", "")
	table.Row("a\x1bb", "1,234", "because")
	want := "KEY         N  WHY\nköln        7\na\\x1bb  1,234  because\n"
	if got := table.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		term.Count(0): "0", term.Count(-1234567): "-1,234,567", term.Count(999): "999",
		term.Count(1000):   "1,000",
		term.Money(123456): "1,234.56", term.Money(-5): "-0.05", term.Money(100): "1.00",
		term.Plural(1, "record", "records"):    "1 record",
		term.Plural(2000, "record", "records"): "2,000 records",
		term.Cut("köln", 3):                    "kö…", term.Cut("köln", 4): "köln",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestWhen(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "now", -500 * time.Millisecond: "now", 3*time.Minute + 20*time.Second: "in 3m",
		-2 * time.Hour:  "2h ago",
		-47 * time.Hour: "47h ago", 72 * time.Hour: "in 3d", -time.Second: "1s ago",
	} {
		if got := term.Age(now.Add(d), now); got != want {
			t.Errorf("Age(%v) = %s, want %s", d, got, want)
		}
	}
	if got := term.Age(time.Time{}, now); got != "unknown" {
		t.Errorf("Age of the zero time: %s", got)
	}
	berlin := time.FixedZone("CET", 3600)
	if got := term.When(now.Add(-time.Hour).In(berlin), now); got != "2026-01-02 02:04:05.000 (1h ago)" {
		t.Errorf("When: %s", got)
	}
	if got := term.When(time.Time{}, now); got != "-" {
		t.Errorf("When of no time: %s", got)
	}
}

func TestNoTerminal(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if term.IsTerminal(null) || term.IsTerminal(&bytes.Buffer{}) || term.IsTerminal(nil) {
		t.Error("what is none was taken for a terminal")
	}
}

// A terminal would break a long line within a word.
func TestFold(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"short\n": "short\n", "": "", "one two three\n": "one two\nthree\n",
		"one two three": "one two\nthree", "1234567890 1 2\n": "1234567890\n1 2\n",
		"  one two three four\n": "  one two\n  three\n  four\n",
		"12345678901234\nx y\n":  "12345678901234\nx y\n",
		"äöü äöü äöü\n":          "äöü äöü\näöü\n", "  123456789012 b": "  123456789012\n  b",
		"a b  c d e f g": "a b  c d e\nf g",
	} {
		if got := term.Fold(text, 10); got != want {
			t.Errorf("%q becomes %q; want %q", text, got, want)
		}
	}
	if got := term.FoldFor(new(bytes.Buffer), strings.Repeat("word ", 100)); strings.Contains(got, "\n") {
		t.Errorf("what is no terminal gets the text as it is, not %q", got)
	}
}
