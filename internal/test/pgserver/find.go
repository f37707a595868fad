package pgserver

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
)

// OldestVersion is the oldest major version that is supported.
const OldestVersion = 15

// binaries are the programs of an installation.
type binaries struct {
	dir     string
	version int
	env     []string // for a private installation: where its libraries are
}

var versionText = regexp.MustCompile(`\) (\d+)`) // postgres (PostgreSQL) 15.18 (Debian …)

// find returns the newest supported installation. It prefers a private one.
func find(ctx context.Context) (binaries, error) {
	var found []binaries
	for _, dir := range candidates() {
		b := binaries{dir: dir, env: libraryPath(dir)}
		if b.version = serverproc.VersionOf(ctx, filepath.Join(dir, "postgres"), b.env,
			versionText); b.version >= OldestVersion {
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
	if root, err := serverproc.Repository(); err == nil {
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

// libraryPath returns the environment variables with which the programs of a private installation find their
// libraries.
func libraryPath(dir string) []string {
	root, _, private := strings.Cut(dir, "/usr/lib/postgresql/")
	if !private || root == "" {
		return nil
	}
	return serverproc.LibraryPath(root)
}
