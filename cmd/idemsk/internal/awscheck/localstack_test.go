//go:build rest

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

// The whole check on LocalStack: the stack of the consumer is deployed, payments are delivered, an invocation
// is killed by its time-out, the ledger is exact, and the stack is gone.
func TestCheckOnLocalStack(t *testing.T) {
	endpoint := awstest.LocalStack(t)
	root, err := filepath.Abs(filepath.Join("..", "..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "lambda.norpc", "-o",
		filepath.Join(dir, "bootstrap"), "github.com/idemsk/idemsk/lambda/handler")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_PROFILE": ""} {
		t.Setenv(name, value)
	}
	name := awstest.Name("aws-check")
	var out, said strings.Builder
	err = run(t.Context(), []string{"--yes", "--name", name, "--local", endpoint, "--region", "us-east-1",
		"--cdk", filepath.Join(root, "scripts", "cdk.sh"), "--handler", dir, "--producer", dir,
		"--work", t.TempDir(), "--records", "400", "--seed", "1"},
		command.Streams{Out: &out, Err: &said})
	report := out.String()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, report, said.String())
	}
	for _, want := range []string{"the ledger is exact", "| deploy the consumer |", "| destroy everything |",
		"| 1 of 1 were booked in a later attempt |", "not run: LocalStack has no part for it", "timed out"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report does not have %q:\n%s", want, report)
		}
	}
	if strings.Contains(report, "000000000000") || strings.Contains(report, "LEFT") {
		t.Errorf("the report names the account, or something is left:\n%s", report)
	}
	if !strings.Contains(said.String(), name+"-consumer: destroyed") {
		t.Error("the stack is not destroyed")
	}
}
