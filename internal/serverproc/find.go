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

// FreePort returns a free port of 127.0.0.1 for a server that is started on it, and started again after a crash. The port is below
// those that the kernel gives to outgoing connections, which would otherwise take it between two starts.
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

// Repository returns the folder that holds go.work, above the working directory: each module of the repository has a go.mod.
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

// LibraryPath returns the environment that the programs of a private installation need to find their libraries; none if it has
// no libraries.
func LibraryPath(installation string) []string {
	libs, err := filepath.Glob(filepath.Join(installation, "usr/lib/*-linux-gnu"))
	if err != nil || len(libs) == 0 {
		return nil
	}
	return []string{"LD_LIBRARY_PATH=" + strings.Join(libs, ":")}
}

// Environment is what a server's program gets: nothing of ours but the PATH, and what its installation needs.
func Environment(installation []string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}, installation...)
}

// VersionOf asks a program for its version, which is the pattern's first group; 0 if it does not tell.
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
