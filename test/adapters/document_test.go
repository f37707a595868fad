package adapters_test

import (
	"os"
	"strings"
	"testing"
)

// The code of docs/adapters.md is that of http.go, and its configuration that of the example.
func TestDocumentShowsTheCode(t *testing.T) {
	document := readFile(t, "../../docs/adapters.md")
	_, function, _ := strings.Cut(readFile(t, "http.go"), "\nfunc Idempotent(")
	function, _, found := strings.Cut(function, "\n}\n")
	if !found || !strings.Contains(document, "```go\nfunc Idempotent("+function+"\n}\n```") {
		t.Error("docs/adapters.md does not show func Idempotent as it is in http.go")
	}
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
