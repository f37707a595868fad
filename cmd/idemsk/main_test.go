package main_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func build(t *testing.T, path, pkg string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", path, pkg).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", pkg, err, out)
	}
}

// Ctrl-C in the middle of a replay ends the tool with status 1, and the function with it.
func TestInterrupt(t *testing.T) {
	dir := t.TempDir()
	tool, function := filepath.Join(dir, "idemsk"), filepath.Join(dir, "bootstrap")
	build(t, tool, "github.com/idemsk/idemsk/cmd/idemsk")
	build(t, function, "github.com/idemsk/idemsk/lambda/handler")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, "replay", "--function", function, "--records", "50000", "--kills", "0", "--duplicates", "0")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	last := ""
	for lines.Scan() {
		if last = lines.Text(); strings.HasPrefix(last, "with idemsk") {
			if len(running(t, function)) != 1 {
				t.Error("the function does not run")
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 || last != "idemsk replay: interrupted" {
		t.Errorf("ended with %v, and the words %q", err, last)
	}
	if pids := running(t, function); len(pids) > 0 {
		t.Errorf("the function still runs: %v", pids)
	}
	if logs, err := filepath.Glob(filepath.Join(dir, "idemsk-replay-*")); err != nil || len(logs) > 0 {
		t.Errorf("left behind: %v, %v", logs, err)
	}
}

// A tool that go install has built says its module's version: "(devel)" of this clone, a release's of a release.
func TestVersionOfAnInstalledTool(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "idemsk")
	build(t, tool, "github.com/idemsk/idemsk/cmd/idemsk")
	if out, err := exec.CommandContext(t.Context(), tool, "version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "idemsk (devel)") &&
		!strings.HasPrefix(string(out), "idemsk v") {
		t.Errorf("%s, %v; want the module's version", out, err)
	}
}

// running are the processes of a program.
func running(t *testing.T, program string) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(all) == 0 {
		t.Fatalf("the processes can't be listed: this test needs Linux's /proc (%v)", err)
	}
	for _, path := range all {
		if cmdline, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(cmdline), program+"\x00") {
			pids = append(pids, path)
		}
	}
	return pids
}
