package cli_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
)

// Bash completes verbs and flags by the script.
func TestCompletion(t *testing.T) {
	t.Parallel()
	script := clitest.Run(t, "completion", "bash")
	if script.Code != 0 {
		t.Fatalf("%+v", script)
	}
	for line, want := range map[string]string{
		"re":                  "resolve reconcile redrive relay",
		"redrive --queue":     "--queue-url",
		"help mig":            "migrate",
		"list --status x --l": "--limit",
		"nothing --l":         "",
	} {
		words := strings.Fields(line)
		bash := exec.CommandContext(t.Context(), "bash", append([]string{"-c", script.Out +
			`COMP_WORDS=(idemsk "$@"); COMP_CWORD=$#; _idemsk; echo "${COMPREPLY[*]}"`, "bash"}, words...)...)
		out, err := bash.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", line, got, err, want)
		}
	}
	if r := clitest.Run(t, "completion", "fish"); r.Code != 2 || !strings.Contains(r.Err, "bash or zsh") {
		t.Errorf("%+v", r)
	}
}
