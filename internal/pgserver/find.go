package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// OldestVersion is the oldest major version that is supported.
const OldestVersion = 15

// binaries is where the programs of an installation are.
type binaries struct {
	dir     string
	version int
	env     []string // for a private installation: where its libraries are
}

var versionText = regexp.MustCompile(`\) (\d+)`) // postgres (PostgreSQL) 15.18 (Debian …)

// find returns the newest installation that is new enough, a private one first.
func find(ctx context.Context) (binaries, error) {
	var found []binaries
	for _, dir := range candidates() {
		b := binaries{dir: dir, env: libraryPath(dir)}
		if b.version = versionOf(ctx, b); b.version >= OldestVersion {
			found = append(found, b)
		}
	}
	if len(found) == 0 {
		return binaries{}, fmt.Errorf("pgserver: no PostgreSQL %d or later is installed: run scripts/postgres.sh install, "+
			"or install it (Debian: apt-get install postgresql-%d)", OldestVersion, OldestVersion)
	}
	return slices.MaxFunc(found, func(a, b binaries) int { return a.version - b.version }), nil
}

func candidates() []string {
	var dirs []string
	if root, err := repository(); err == nil {
		dirs = glob(filepath.Join(root, ".cache/servers/postgres/usr/lib/postgresql/*/bin"))
	}
	dirs = append(dirs, glob("/usr/lib/postgresql/*/bin")...)
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	return dirs
}

func glob(pattern string) []string {
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		return nil
	}
	return dirs
}

// libraryPath returns the environment that the programs of a private installation need to find their libraries.
func libraryPath(dir string) []string {
	root, _, private := strings.Cut(dir, "/usr/lib/postgresql/")
	if !private || root == "" {
		return nil
	}
	return []string{"LD_LIBRARY_PATH=" + strings.Join(glob(filepath.Join(root, "usr/lib/*-linux-gnu")), ":")}
}

func versionOf(ctx context.Context, b binaries) int {
	cmd := exec.CommandContext(ctx, filepath.Join(b.dir, "postgres"), "--version") //nolint:gosec // one of candidates
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
	return "", errors.Join(err, errors.New("pgserver: no go.mod above the working directory"))
}
