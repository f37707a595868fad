package adapters_test

import (
	"os"
	"strings"
	"testing"
)

// The configuration in docs/adapters.md is that of the example.
func TestDocumentShowsTheConfiguration(t *testing.T) {
	const configuration = "idem.Config{Wait: -1, RetryDelay: -1, OutageFailures: -1, MaxResult: 64 << 10}"
	for _, name := range []string{"../../docs/adapters.md", "example_test.go"} {
		if !strings.Contains(readFile(t, name), configuration) {
			t.Errorf("%s has another configuration than %s", name, configuration)
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
