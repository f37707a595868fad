// Package handlertest builds the example function for tests.
package handlertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// Package is the example function on DynamoDB.
const Package = "github.com/idemsk/idemsk/lambda/handler"

// Main builds the example function, sets program to its path, runs the tests and looks for leaked goroutines.
// It returns the exit code of the tests.
func Main(m *testing.M, program *string, leaks ...goleak.Option) int {
	code, err := run(m, program, leaks)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func run(m *testing.M, program *string, leaks []goleak.Option) (code int, err error) {
	dir, err := os.MkdirTemp("", "idemsk-test-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	*program = filepath.Join(dir, "bootstrap")
	if err := Build(*program, Package); err != nil {
		return 0, err
	}
	if code = m.Run(); code == 0 {
		err = goleak.Find(leaks...)
	}
	return code, err
}

// IdleConnections ignores connections that the clients of AWS keep open until they have been idle for a
// while.
func IdleConnections() []goleak.Option {
	return []goleak.Option{goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop")}
}

// Build builds a program at path with the flags of scripts/build.sh, so that it compiles nothing that the
// script has compiled. It has no time limit of its own: on a busy machine a build takes many minutes.
func Build(path, pkg string) error {
	flags := []string{"build", "-trimpath", "-tags", "lambda.norpc", "-ldflags", "-s -w", "-o", path}
	command := exec.CommandContext(context.Background(), "go", append(flags, pkg)...) //nolint:gosec // a package of this repository
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return nil
}
