package redisserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Kind is a kind of server.
type Kind string

// The kinds.
const (
	Redis    Kind = "redis"   // 7 or later
	Valkey   Kind = "valkey"  // any: it began at 7.2
	OldRedis Kind = "redis-6" // one that is too old
)

// program returns the file of a kind in a private installation and in the PATH, and the major versions that will do.
func (k Kind) program() (private, public string, oldest, newest int) {
	switch k {
	case Redis:
		return "redis-server", "redis-server", 7, 99
	case Valkey:
		return "valkey-server", "valkey-server", 7, 99
	case OldRedis:
		return "redis-server", "redis-server-6", 6, 6
	}
	return "", "", 0, 0
}

// binary is a server's program.
type binary struct {
	path string
	env  []string // for a private installation: where its libraries are
}

// find returns the program of a kind, a private one first.
func find(ctx context.Context, k Kind) (binary, error) {
	private, public, oldest, newest := k.program()
	var found []binary
	if root, err := repository(); err == nil {
		dir := filepath.Join(root, ".cache/servers", string(k))
		found = append(found, binary{path: filepath.Join(dir, "usr/bin", private), env: libraryPath(dir)})
	}
	if path, err := exec.LookPath(public); err == nil {
		found = append(found, binary{path: path})
	}
	for _, b := range found {
		if v := versionOf(ctx, b); v >= oldest && v <= newest {
			return b, nil
		}
	}
	return binary{}, fmt.Errorf("redisserver: there is no %s (version %d to %d): run scripts/redis.sh install, or install %s "+
		"into a folder of the PATH", k, oldest, newest, public)
}

// libraryPath returns the environment that the programs of a private installation need to find their libraries.
func libraryPath(dir string) []string {
	libs, err := filepath.Glob(filepath.Join(dir, "usr/lib/*-linux-gnu"))
	if err != nil || len(libs) == 0 {
		return nil
	}
	return []string{"LD_LIBRARY_PATH=" + strings.Join(libs, ":")}
}

var versionText = regexp.MustCompile(` v=(\d+)\.`) // Redis server v=7.0.15 sha=…

func versionOf(ctx context.Context, b binary) int {
	cmd := exec.CommandContext(ctx, b.path, "--version") //nolint:gosec // one of find's
	cmd.Env = append(os.Environ(), b.env...)
	out, err := cmd.Output()
	if err != nil {
		return 0
	}
	m := versionText.FindSubmatch(out)
	if m == nil {
		return 0
	}
	v, err := strconv.Atoi(string(m[1]))
	if err != nil {
		return 0
	}
	return v
}

// repository returns the folder that holds go.mod, above the working directory.
func repository() (string, error) {
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		dir = filepath.Dir(dir)
	}
	return "", errors.Join(err, errors.New("redisserver: no go.mod above the working directory"))
}
