package ledger

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/app/lambda"
)

// The package of the program with DynamoDB alone. The programs with other stores are in folders of it.
const theFunction = "github.com/idemsk/idemsk/lambda/handler"

// program is theFunction, built for these tests.
var program string //nolint:gochecknoglobals // set once, before any test

// asFunction is the variable that makes the test binary run as theFunction, with the race detector if it has
// one.
const asFunction = "LEDGER_TEST_FUNCTION"

func TestMain(m *testing.M) {
	if os.Getenv(asFunction) != "" {
		lambda.StartFunc(Build(nil))
	}
	dir, err := os.MkdirTemp("", "idemsk-ledger-")
	if err == nil {
		program = filepath.Join(dir, "bootstrap")
		err = build(program, theFunction)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, errors.Join(err, os.RemoveAll(dir)))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}

// build builds a function with the flags of scripts/build.sh, so that it compiles nothing that the script has
// compiled.
func build(path, pkg string) error {
	command := exec.Command("go", "build", "-trimpath", "-tags", "lambda.norpc", "-ldflags", "-s -w", "-o",
		path, pkg)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return nil
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v; want %v", what, got, want)
	}
}
