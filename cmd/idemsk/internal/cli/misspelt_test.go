package cli_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
)

// A verb would silently read another table than the one that is meant.
func TestMisspeltVariableIsNamed(t *testing.T) {
	t.Setenv("IDEMSK_TABEL", "prod")
	t.Setenv("IDEMSK_COLOUR", "red") // of somebody else
	const want = "WARNING: IDEMSK_TABEL is set, but the configuration does not read it: is the name misspelt? " +
		"Perhaps IDEMSK_TABLE is meant.\n"
	if r := clitest.Run(t, "completion", "bash"); r.Code != 0 || r.Err != want {
		t.Errorf("exit %d, %q; want %q", r.Code, r.Err, want)
	}
	if r := clitest.Run(t, "list", "--endpoint-url", "x"); !strings.HasPrefix(r.Err, want) {
		t.Errorf("%q; want first %q", r.Err, want)
	}
	if r := clitest.Run(t, "local", "--function", "f", "--events", "nowhere"); strings.Contains(r.Err, want) {
		t.Errorf("%q; want no warning, because the verb says which variables the function does not get", r.Err)
	}
}

// The shell of an operator may have the variables of a function, a process and the tool.
func TestNoDocumentedVariableIsMisspelt(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`IDEMSK_[A-Z_]*[A-Z]`).FindAllString(string(page), -1)
	if len(names) == 0 {
		t.Fatal("docs/configuration.md names no variables")
	}
	for _, name := range names {
		t.Setenv(name, "x")
	}
	if r := clitest.Run(t, "completion", "bash"); r.Err != "" {
		t.Errorf("with all variables set: %q", r.Err)
	}
}
