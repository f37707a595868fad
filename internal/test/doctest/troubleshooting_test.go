package doctest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/idem"
)

const troubleshooting = "docs/troubleshooting.md"

// Each text that the page explains occurs in the code. The parts between "…" must each be in one string of a
// program or a script.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, troubleshooting))
	if err != nil {
		t.Fatal(err)
	}
	code := source(t)
	rows := 0
	for i, line := range strings.Split(string(page), "\n") {
		first, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !ok || !strings.HasPrefix(first, "`") {
			continue
		}
		rows++
		for _, said := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
			for part := range strings.SplitSeq(said[1], "…") {
				if part = strings.TrimSpace(part); part != "" && part != ":" &&
					!strings.Contains(code, part) {
					t.Errorf("%s:%d: nothing in the code says %q", troubleshooting, i+1, part)
				}
			}
		}
	}
	const least = 40
	if rows < least {
		t.Errorf("%s has %d rows; want %d or more: is its form another?", troubleshooting, rows, least)
	}
}

// source returns the text of all programs and scripts without tests. Strings that span several lines are
// joined.
func source(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "dist" ||
			d.Name() == "node_modules"):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go") &&
			!strings.HasSuffix(path, ".sh"):
			return nil
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`"\s*\+\s*"`).ReplaceAllString(all.String(), "")
	return strings.ReplaceAll(code, `\"`, `"`)
}

// The page explains each error that callers can test for, and docs/telemetry.md each outcome in the log.
func TestErrorsAndOutcomesAreExplained(t *testing.T) {
	t.Parallel()
	page := read(t, troubleshooting)
	errs := 0
	for _, folder := range []string{"idem", "idem/store", "kafka"} {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range regexp.MustCompile(
				`\bErr[A-Z]\w+ += errors\.New\("(.+)"\)`).FindAllSubmatch(text, -1) {
				if errs++; !strings.Contains(page, string(found[1])) {
					t.Errorf("%s does not explain %q", troubleshooting, found[1])
				}
			}
		}
	}
	const least = 20
	if errs < least {
		t.Errorf("%d errors were found; want %d or more: is their form another?", errs, least)
	}
	outcomes := read(t, "docs/telemetry.md")
	for k := idem.Executed; k.String() != idem.KindUnknown.String(); k++ {
		if !strings.Contains(outcomes, "`"+k.String()+"`") {
			t.Errorf("docs/telemetry.md does not explain the outcome %s", k)
		}
	}
}

func read(t *testing.T, document string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
