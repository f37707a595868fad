package pgserver

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
)

// oldestVersion is the oldest major version that is supported.
const oldestVersion = 15

var versionText = regexp.MustCompile(`\) (\d+)`) // postgres (PostgreSQL) 15.18 (Debian …)

// find returns the newest supported server. The other programs are beside it.
func find(ctx context.Context) (serverproc.Installation, error) {
	programs := serverproc.Private("postgres/usr/lib/postgresql/*/bin/postgres")
	public, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // the pattern is well-formed
	programs = append(programs, public...)
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			programs = append(programs, path)
		}
	}
	found, ok := serverproc.Newest(ctx, versionText, oldestVersion, math.MaxInt, programs)
	if !ok {
		return found, fmt.Errorf("pgserver: no PostgreSQL %d or later is installed: run scripts/postgres.sh install, "+
			"or install it (Debian: apt-get install postgresql-%d)", oldestVersion, oldestVersion)
	}
	return found, nil
}
