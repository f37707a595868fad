package main_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/handlertest"
)

// The programs, built for these tests.
var tool, function string //nolint:gochecknoglobals // set once, before any test

func TestMain(m *testing.M) {
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") != "" {
		serve()
		return
	}
	dir, err := os.MkdirTemp("", "idemsk-test-")
	tool, function = filepath.Join(dir, "idemsk"), filepath.Join(dir, "bootstrap")
	for path, pkg := range map[string]string{tool: "github.com/idemsk/idemsk/cmd/idemsk",
		function: handlertest.Package} {
		if err == nil {
			err = handlertest.Build(path, pkg)
		}
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// Ctrl-C ends the tool and the function. Finished records are committed.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, "local", "--function", function, "--produce", "200000", "--pollers",
		"1", "--env", "IDEMSK_SIMULATE=off")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	var out bytes.Buffer
	cmd.Stdout = &out
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	interrupted := false
	for lines.Scan() {
		if strings.Contains(lines.Text(), " in flight") && !interrupted {
			interrupted = true
			if len(running(t, function)) != 1 {
				t.Error("the function does not run")
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || !interrupted ||
		!strings.Contains(out.String(), "are not committed after") {
		t.Errorf("ended with %v, interrupted %v, and the words\n%s", err, interrupted, &out)
	}
	if pids := running(t, function); len(pids) > 0 {
		t.Errorf("the function still runs: %v", pids)
	}
	if logs, err := filepath.Glob(filepath.Join(dir, "idemsk-local-*")); err != nil || len(logs) > 0 {
		t.Errorf("left behind: %v, %v", logs, err)
	}
}

// A tool that go install built prints its module's version: "(devel)" in a clone.
func TestVersionOfAnInstalledTool(t *testing.T) {
	t.Parallel()
	if out, err := exec.CommandContext(t.Context(), tool, "version").CombinedOutput(); err != nil ||
		!strings.HasPrefix(string(out), "idemsk (devel)") && !strings.HasPrefix(string(out), "idemsk v") {
		t.Errorf("%s, %v; want the module's version", out, err)
	}
}

// serve is a function that answers every event with null.
func serve() {
	invocations := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/"
	for {
		event, err := http.Get(invocations + "next")
		if err != nil {
			return // the tool has ended
		}
		_, _ = io.Copy(io.Discard, event.Body)
		_ = event.Body.Close()
		answer, err := http.Post(invocations+event.Header.Get("Lambda-Runtime-Aws-Request-Id")+"/response",
			"application/json", strings.NewReader("null"))
		if err != nil {
			return
		}
		_ = answer.Body.Close()
	}
}

// The tool alone, in an empty folder, has the layer: each payment of batches that are delivered twice is
// passed to the function once.
func TestLayerIsInTheTool(t *testing.T) {
	t.Parallel()
	function, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, "local", "--layer", "--function", "'"+function+"'", "--produce",
		"40", "--duplicate", "1", "--until-drained", "--seed", "7")
	cmd.Dir, cmd.Env = t.TempDir(), []string{"TMPDIR=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "40 executed, 40 replayed\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// If a server is down at the start, the tool prints one message and exits with status 1 within 10 s. The
// network refuses or is silent.
func TestServerThatIsDownAtTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	silent := silence(t)
	var wait sync.WaitGroup
	for _, address := range []string{"127.0.0.1:1", silent} {
		web, postgres, redis := "http://"+address, "postgres://u:p@"+address+"/d", "redis://"+address
		for _, args := range [][]string{
			{"local", "--function", tool, "--store", web}, {"local", "--function", tool, "--store", postgres},
			{"local", "--function", tool, "--store", redis},
			{"local", "--function", tool, "--brokers", address},
			{"local", "--invoke", web}, {"local", "--from-localstack", "--endpoint-url", web},
			{"local", "--function", tool, "--on-failure", "s3://bucket", "--endpoint-url", web},
			{"local", "--function", tool, "--on-failure", "arn:aws:sqs:us-east-1:1:q", "--endpoint-url", web},
			{"get", "k", "--endpoint-url", web}, {"get", "k", "--store-url", postgres},
			{"get", "k", "--store-url", redis},
			{"migrate", "--store-url", postgres}, {"prune", "--store-url", postgres},
			{"outbox", "--store-url", postgres},
			{"topic", "create", "t", "--brokers", address}, {"produce", "--brokers", address},
		} {
			wait.Go(func() { checkDown(t, dir, args) })
		}
	}
	wait.Wait()
}

// checkDown runs the tool, which must fail.
func checkDown(t *testing.T, dir string, args []string) {
	const within = 10 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 2*within)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Env = []string{"TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"), "AWS_REGION=us-east-1"}
	var said bytes.Buffer
	cmd.Stderr = &said
	begun := time.Now()
	err := cmd.Run()
	took := time.Since(begun)
	var exit *exec.ExitError
	switch messages := strings.Count(said.String(), "idemsk "+args[0]+": "); {
	case !errors.As(err, &exit) || exit.ExitCode() != 1 || messages != 1:
		t.Errorf("%v: %v\n%s; want one message, and exit status 1", args, err, &said)
	case took > within:
		t.Errorf("%v took %v; want at most %v", args, took, within)
	case strings.Contains(said.String(), "pool.go") || strings.Contains(said.String(), "removing"):
		t.Errorf("%v: the output has more than the error:\n%s", args, &said)
	}
}

// silence returns an address that accepts connections and sends nothing.
func silence(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

// running returns the processes of a program.
func running(t *testing.T, program string) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(all) == 0 {
		t.Fatalf("the processes can't be listed: this test needs Linux's /proc (%v)", err)
	}
	for _, path := range all {
		if cmdline, err := os.ReadFile(path); err == nil &&
			strings.HasPrefix(string(cmdline), program+"\x00") {
			pids = append(pids, path)
		}
	}
	return pids
}
