//go:build localstack

// Package e2e_test runs the whole road end to end: a real Kafka, the event source, the real function as a process, DynamoDB
// Local.
package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const root = "../../../../.."

// handler is the real function, built for these tests.
var handler string //nolint:gochecknoglobals // set once, before any test

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "idemsk-e2e-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	handler = filepath.Join(dir, "bootstrap")
	if err := build(handler, theFunction); err != nil {
		return 0, err
	}
	if code = m.Run(); code == 0 {
		// The SDK keeps the connections of the clients that the tool makes, until they have been idle for a while.
		err = goleak.Find(goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
	}
	return code, err
}

// theFunction is the example's program with DynamoDB alone. The programs with other stores are in folders of it.
const theFunction = "github.com/idemsk/idemsk/lambda/handler"

// build builds a function as scripts/build.sh does.
func build(path, pkg string) error {
	command := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", path, pkg)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("the function can't be built: %w\n%s", err, out)
	}
	return nil
}

func bounded(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errors.New("the test took too long"))
	t.Cleanup(cancel)
	return ctx
}
