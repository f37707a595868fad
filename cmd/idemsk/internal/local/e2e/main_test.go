//go:build localstack

// Package e2e_test tests idemsk local end to end: a real Kafka, the event source, the real function as a process, DynamoDB Local.
package e2e_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/handlertest"
)

const root = "../../../../.."

// handler is the path of the example function.
var handler string //nolint:gochecknoglobals // set once, before any test

func TestMain(m *testing.M) { os.Exit(handlertest.Main(m, &handler, handlertest.IdleConnections()...)) }

// startServer starts a script that prints "listening ADDRESS" when it is ready. It ends the script with the test.
func startServer(t *testing.T, script string, args ...string) string {
	t.Helper()
	command := exec.Command(filepath.Join(root, script), args...)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if at, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
				address <- strings.TrimSpace(at)
			}
		}
		ended <- command.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // fails if it has ended by itself
		for range ended {                           // until it is closed
		}
	})
	const patience = 5 * time.Minute // the script may have to install it first
	select {
	case at := <-address:
		return at
	case err := <-ended:
		t.Fatalf("%s did not start: %v (its reason is above)", script, err)
	case <-time.After(patience):
		t.Fatalf("%s did not start within %v", script, patience)
	}
	return ""
}

func bounded(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errors.New("the test took too long"))
	t.Cleanup(cancel)
	return ctx
}
