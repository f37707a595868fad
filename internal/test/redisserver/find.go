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

// find returns the newest supported server of a kind.
func find(ctx context.Context, k Kind) (serverproc.Installation, error) {
	private, public, oldest, newest := k.program()
	programs := serverproc.Private(filepath.Join(string(k), "usr/bin", private))
	if path, err := exec.LookPath(public); err == nil {
		programs = append(programs, path)
	}
	found, ok := serverproc.Newest(ctx, versionText, oldest, newest, programs)
	if !ok {
		return found, fmt.Errorf("redisserver: there is no %s (version %d to %d): run scripts/redis.sh install, or install %s "+
			"into a folder of the PATH", k, oldest, newest, public)
	}
	return found, nil
}

var versionText = regexp.MustCompile(` v=(\d+)\.`) // Redis server v=7.0.15 sha=…
