//go:build rest

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

// Functions in Python and JavaScript, on AWS's runtime interface clients, get batches, return partial
// responses, and are killed and restarted.
func TestOtherLanguages(t *testing.T) {
	python, node := languages(t, "payments.handler")
	for name, function := range map[string]string{"Python": python, "Node": node} {
		t.Run(name, func(t *testing.T) {
			args := []string{
				"local", "--function", function, "--store", "none", "--pollers", "1", "--produce", "300",
				"--until-drained",
				"--function-response-types", "ReportBatchItemFailures", "--seed", "1",
			}
			out := runLocal(t, args)
			for _, want := range []string{"300 done", "300 executed",
				"1 record named as failed, and delivered again", "everything is committed"} {
				if !strings.Contains(out, want) {
					t.Errorf("the closing table does not have %q", want)
				}
			}
			out = runLocal(t, append(args, "--produce", "40", "--kill", "0.3", "--batch-size", "5"))
			for _, want := range []string{"processes killed", "40 done", "everything is committed"} {
				if !strings.Contains(out, want) {
					t.Errorf("with kills, the closing table does not have %q", want)
				}
			}
		})
	}
}

// languages returns the commands of a function in testdata, in Python and in JavaScript. The one in Python
// also imports from the folders.
func languages(t *testing.T, function string, folders ...string) (python, node string) {
	t.Helper()
	output, err := exec.Command(filepath.Join(root, "scripts/runtimes.sh")).Output()
	if err != nil {
		t.Fatalf("scripts/runtimes.sh: %v", err)
	}
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	runtimes := strings.TrimSpace(string(output))
	python = "env 'PYTHONPATH=" + strings.Join(append(folders, testdata), ":") + "' PYTHONDONTWRITEBYTECODE=1 '" +
		filepath.Join(runtimes, "python/bin/python") + "'"
	return python + " -m awslambdaric " + function,
		"node '" + filepath.Join(runtimes, "node/node_modules/aws-lambda-ric/bin/index.mjs") + "' '" +
			filepath.Join(testdata, function) + "'"
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
