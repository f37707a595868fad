//go:build servers

package e2e_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
)

// Functions in Python and JavaScript, on AWS's runtime interface clients, get batches, return partial responses, and are killed and
// restarted.
func TestOtherLanguages(t *testing.T) {
	runtimes, err := exec.Command(filepath.Join(root, "scripts/runtimes.sh")).Output()
	if err != nil {
		t.Fatalf("scripts/runtimes.sh: %v", err)
	}
	installed := strings.TrimSpace(string(runtimes))
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for name, function := range map[string]string{
		"Python": "'" + filepath.Join(installed, "python/bin/python") + "' -m awslambdaric payments.handler",
		"Node": "node '" + filepath.Join(installed, "node/node_modules/aws-lambda-ric/bin/index.mjs") + "' '" +
			filepath.Join(testdata, "payments.handler") + "'",
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{
				"local", "--function", function, "--store", "none", "--env", "PYTHONPATH=" + testdata, "--env", "PYTHONDONTWRITEBYTECODE=1",
				"--pollers", "1", "--produce", "300", "--until-drained", "--function-response-types", "ReportBatchItemFailures", "--seed", "1",
			}
			out := runLocal(t, args)
			for _, want := range []string{"300 done", "300 executed", "1 record named as failed, and delivered again", "everything is committed"} {
				if !strings.Contains(out, want) {
					t.Errorf("the closing table does not have %q", want)
				}
			}
			out = runLocal(t, append(args, "--produce", "100", "--kill", "0.6", "--batch-size", "5"))
			for _, want := range []string{"processes killed", "100 done", "everything is committed"} {
				if !strings.Contains(out, want) {
					t.Errorf("with kills, the closing table does not have %q", want)
				}
			}
		})
	}
}

func runLocal(t *testing.T, args []string) string {
	t.Helper()
	var out, said bytes.Buffer
	code := cli.Main(bounded(t, 5*time.Minute), args, cli.Streams{Out: &out, Err: &said}, "test")
	t.Logf("%s\n%s", &said, &out)
	if code != 0 {
		t.Fatalf("exit status %d", code)
	}
	return out.String()
}
