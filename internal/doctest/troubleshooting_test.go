package doctest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const troubleshooting = "docs/troubleshooting.md"

// Each text that the page explains occurs in the code. The parts between "…" must each be in one string of a program or a script.
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
				if part = strings.TrimSpace(part); part != "" && part != ":" && !strings.Contains(code, part) {
					t.Errorf("%s:%d: nothing in the code says %q", troubleshooting, i+1, part)
				}
			}
		}
	}
	const least = 50
	if rows < least {
		t.Errorf("%s has %d rows; want %d or more: is its form another?", troubleshooting, rows, least)
	}
}

// source returns the text of all programs and scripts without tests. Strings that span several lines are joined.
func source(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "dist" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".sh"):
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
