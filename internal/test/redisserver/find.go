package redisserver

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
)

// Kind is a kind of server.
type Kind string

// The kinds.
const (
	Redis    Kind = "redis"   // 7 or later
	Valkey   Kind = "valkey"  // any: it began at 7.2
	OldRedis Kind = "redis-6" // one that is too old
)

// program returns the file of a kind in a private installation and in the PATH, and the supported major
// versions.
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

// find returns the program of a kind. It prefers a private one.
func find(ctx context.Context, k Kind) (binary, error) {
	private, public, oldest, newest := k.program()
	var found []binary
	if root, err := serverproc.Repository(); err == nil {
		dir := filepath.Join(root, ".cache/servers", string(k))
		found = append(found, binary{path: filepath.Join(dir, "usr/bin", private),
			env: serverproc.LibraryPath(dir)})
	}
	if path, err := exec.LookPath(public); err == nil {
		found = append(found, binary{path: path})
	}
	for _, b := range found {
		if v := serverproc.VersionOf(ctx, b.path, b.env, versionText); v >= oldest && v <= newest {
			return b, nil
		}
	}
	return binary{}, fmt.Errorf("redisserver: there is no %s (version %d to %d): run scripts/redis.sh install, or install %s "+
		"into a folder of the PATH", k, oldest, newest, public)
}

var versionText = regexp.MustCompile(` v=(\d+)\.`) // Redis server v=7.0.15 sha=…
