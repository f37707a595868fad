package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/redis/go-redis/v9"
)

// explain adds to an error what was done, on what, and, where the cause is known, what to do.
func (s *Store) explain(ctx context.Context, op, key string, err error) error {
	if isForeign(err) {
		err = fmt.Errorf("%w: %w", store.ErrForeignEntry, err)
	}
	return fmt.Errorf("redisstore: %s %q under %s: %w%s", op, key, s.prefix, withCause(ctx, err), hint(ctx, err))
}

// isForeign reports whether a script stumbled over what is under its name: it is of another type, or has fields that are no
// numbers.
func isForeign(err error) bool {
	return redis.HasErrorPrefix(err, "WRONGTYPE") || redis.HasErrorPrefix(err, "user_script:")
}

// withCause adds the end of the context to an error that it caused: on the wire it looks like a slow server.
func withCause(ctx context.Context, err error) error {
	if end := ctx.Err(); end != nil && !errors.Is(err, end) {
		return fmt.Errorf("%w: %w", err, end)
	}
	return err
}

const nobody = " (nothing answers there: check IDEMSK_STORE_URL, where rediss:// is for a server that speaks TLS alone, that the server runs, " +
	"and that the function's VPC and security groups let it through)"

const (
	noPermission    = " (the user lacks a permission: see docs/stores-redis.md for the ACL that the store needs)"
	unauthenticated = " (the server wants a password: put it into IDEMSK_STORE_URL, redis://user:password@host:port)"
	older           = " (the server is older than Redis 7: use Redis 7 or later, or Valkey)"
)

// hints tell what to do about an error of the server that begins so.
var hints = []struct{ prefix, hint string }{
	{"READONLY", " (this is a read-only replica: give the store the primary's address, or a client that follows it: Sentinel, cluster=true)"},
	{"OOM", " (the server's memory is full, nothing was claimed: raise its maxmemory, or move other data away; the policy must stay noeviction)"},
	{"NOREPLICAS", " (the primary has fewer replicas in step than its min-replicas-to-write, so that it takes nothing: mend the replicas)"},
	{"MISCONF", " (the server cannot save to disk, so that it takes nothing: see its log, and its disk)"},
	{"NOPERM", noPermission},
	{"ERR The user executing the script can't", noPermission}, // Redis 7.0 says it so of what a script does
	{"WRONGPASS", " (the user or the password of IDEMSK_STORE_URL is wrong)"},
	{"NOAUTH", unauthenticated},
	{"ERR Protocol error: unauthenticated", unauthenticated}, // a large batch is not even read
	{"ERR user_script:", " (its fields are not what we write: HGETALL shows them; mend or delete the hash)"},
	{"WRONGTYPE", " (there is something else under this name: give the store a Prefix that nobody else has)"},
	{"MOVED", " (the server is a node of a cluster: add ?cluster=true to IDEMSK_STORE_URL)"},
	{"CLUSTERDOWN", " (the cluster has lost nodes: see CLUSTER INFO)"},
	{"LOADING", " (the server has just been started and is reading its data: wait)"},
	{"BUSY", " (another program's script occupies the server: see SLOWLOG)"},
	{"ERR This instance has cluster support disabled", " (the server is not a node of a cluster: take cluster=true out of IDEMSK_STORE_URL)"},
	{"ERR Error compiling script", older},
	{"ERR unknown command", older},
}

func hint(ctx context.Context, err error) string {
	var dial *net.OpError
	for _, h := range hints {
		if redis.HasErrorPrefix(err, strings.TrimPrefix(h.prefix, "ERR ")) {
			return h.hint
		}
	}
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return nobody
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil: // the time for a connection is over
		return nobody
	case err != nil && strings.Contains(err.Error(), "invalid username-password"):
		return " (the user or the password of IDEMSK_STORE_URL is wrong)"
	}
	return ""
}
