package serverproc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// FreePort returns a free port of 127.0.0.1 for a server that may be restarted on it. The port is below the
// range that the kernel uses for outgoing connections, which could otherwise take it between two starts.
func FreePort(ctx context.Context) (int, error) {
	const first, ports, tries = 20_000, 12_000, 100
	var failed error
	for range tries {
		port := first + rand.N(ports) //nolint:gosec // a port is no secret
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			failed = err
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("no free port: %w", failed)
}

// Repository returns the folder that holds go.work, the working directory or one above it.
func Repository() (string, error) {
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, missing := os.Stat(filepath.Join(dir, "go.work")); missing == nil {
			return dir, nil
		}
		dir = filepath.Dir(dir)
	}
	return "", errors.Join(err, errors.New("no go.work above the working directory"))
}

// LibraryPath returns the environment variables with which the programs of a private installation find their
// libraries, none if it has no libraries.
func LibraryPath(installation string) []string {
	libs, err := filepath.Glob(filepath.Join(installation, "usr/lib/*-linux-gnu"))
	if err != nil || len(libs) == 0 {
		return nil
	}
	return []string{"LD_LIBRARY_PATH=" + strings.Join(libs, ":")}
}

// Environment returns the environment of a server's program: PATH, and the variables that its installation
// needs.
func Environment(installation []string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}, installation...)
}

// VersionOf runs a program and returns its version, the pattern's first group; 0 if the output does not
// match.
func VersionOf(ctx context.Context, program string, env []string, pattern *regexp.Regexp) int {
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		return 0
	}
	m := pattern.FindSubmatch(out)
	if m == nil {
		return 0
	}
	v, err := strconv.Atoi(string(m[1]))
	if err != nil {
		return 0
	}
	return v
}
