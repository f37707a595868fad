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

// Installation is an installed program.
type Installation struct {
	Program string
	Env     []string // where it finds its libraries, if it is private
	version int
}

// Private returns the programs that match a pattern among those that the scripts have installed.
func Private(pattern string) []string {
	root, err := Repository()
	if err != nil {
		return nil
	}
	programs, _ := filepath.Glob(filepath.Join(root, ".cache/servers", pattern)) // the pattern is well-formed
	return programs
}

// Newest returns the newest of some programs, the first of several, whose version is from oldest to newest. The
// version is the first group of a pattern. Newest returns false if there is none.
func Newest(ctx context.Context, version *regexp.Regexp, oldest, newest int,
	programs []string) (best Installation, found bool) {
	for _, program := range programs {
		i := Installation{Program: program, Env: libraries(program)}
		i.version = i.versionBy(ctx, version)
		if i.version >= oldest && i.version <= newest && i.version > best.version {
			best, found = i, true
		}
	}
	return best, found
}

// libraries returns the variable with which the program of a private installation finds its libraries.
func libraries(program string) []string {
	root := program[:max(0, strings.LastIndex(program, "/usr/"))]
	libs, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu"))
	if root == "" || err != nil || len(libs) == 0 {
		return nil
	}
	return []string{"LD_LIBRARY_PATH=" + strings.Join(libs, ":")}
}

// versionBy returns the version by a pattern, 0 if it is unknown.
func (i *Installation) versionBy(ctx context.Context, pattern *regexp.Regexp) int {
	cmd := exec.CommandContext(ctx, i.Program, "--version") //nolint:gosec // the program of a server
	cmd.Env = append(os.Environ(), i.Env...)
	out, err := cmd.Output()
	m := pattern.FindSubmatch(out)
	if err != nil || m == nil {
		return 0
	}
	v, _ := strconv.Atoi(string(m[1])) // digits
	return v
}

// Environment returns the environment of a server's program: PATH, and the variables that its installation
// needs.
func Environment(installation []string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}, installation...)
}
