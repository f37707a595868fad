// Package clitest runs the command line of idemsk in tests, with what its verbs work on.
package clitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/handlertest"
)

// Result is the result of a run of the tool.
type Result struct {
	Code     int
	Out, Err string
}

// Run runs the tool. Its standard input answers a question with yes.
func Run(t *testing.T, args ...string) Result {
	t.Helper()
	return RunWith(t, "y\n", args...)
}

// RunWith runs the tool with a text on its standard input.
func RunWith(t *testing.T, input string, args ...string) Result {
	t.Helper()
	var out, err output
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	code := cli.Main(ctx, args, cli.Streams{In: strings.NewReader(input), Out: &out, Err: &err}, "v1.2.3")
	return Result{Code: code, Out: out.String(), Err: err.String()}
}

// output is a buffer for concurrent writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Endless is an output that ends the run after a number of occurrences of a text.
type Endless struct {
	bytes.Buffer
	Text string
	Left int
	End  func()
}

// Write implements io.Writer.
func (e *Endless) Write(p []byte) (int, error) {
	if strings.Contains(string(p), e.Text) {
		if e.Left--; e.Left == 0 {
			e.End()
		}
	}
	return e.Buffer.Write(p)
}

// File writes a text to a file with a name, in a folder of the test.
func File(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Main runs the tests of a package in a temporary folder, because the tool keeps files there beyond its run,
// and looks for leaked goroutines. It builds the example function for them if handler is not nil, and sets
// handler to its path.
func Main(m *testing.M, handler *string) { os.Exit(runAll(m, handler)) }

func runAll(m *testing.M, handler *string) (code int) {
	dir, err := os.MkdirTemp("", "idemsk-cli-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		// A PostgreSQL that root starts is another user's.
		err = errors.Join(os.Setenv("TMPDIR", dir), os.Chmod(dir, 0o711))
	}
	switch {
	case err != nil:
	case handler != nil:
		return handlertest.Main(m, handler, handlertest.IdleConnections()...)
	default:
		if code = m.Run(); code == 0 {
			err = goleak.Find(handlertest.IdleConnections()...)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
