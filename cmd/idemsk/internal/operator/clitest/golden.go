package clitest

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Golden compares a text with a file in testdata.
func Golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("not as in %s (go test ./cmd/... -update writes it anew):\n%s", path, text)
	}
}

// Scrub replaces text that differs between runs.
func Scrub(text string) string {
	for pattern, with := range map[string]string{
		`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}`: "2026-01-02 03:04:05.678",
		`http://127\.0\.0\.1:\d+`:               "http://127.0.0.1:1",
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, with)
	}
	return text
}
