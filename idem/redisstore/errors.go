package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem/store"
)

// explain adds the operation, the key and the prefix to an error, and a remedy if the cause is known.
func (s *Store) explain(ctx context.Context, op, key string, err error) error {
	return fmt.Errorf("redisstore: %s %q under %s: %w%s", op, key, s.prefix, withCause(ctx, classified(err)),
		hint(ctx, err))
}

// classified wraps an error of the server with the condition of package store that it is, if any.
func classified(err error) error {
	switch {
	case isForeign(err):
		return fmt.Errorf("%w: %w", store.ErrForeignEntry, err)
	case isDenied(err):
		return fmt.Errorf("%w: %w", store.ErrMisconfigured, err)
	}
	return err
}

// isDenied reports whether the user lacks a permission, for a command or, in Redis 7.0, for a command in a
// script.
func isDenied(err error) bool {
	return redis.HasErrorPrefix(err, "NOPERM") ||
		redis.HasErrorPrefix(err, "The user executing the script can't")
}

// isForeign reports whether a script failed because the key has another type, or a value that is no entry.
func isForeign(err error) bool {
	return redis.HasErrorPrefix(err, "WRONGTYPE") || redis.HasErrorPrefix(err, "user_script:")
}

// withCause adds the context's error if the context has ended. Otherwise the error would look like a slow
// server.
func withCause(ctx context.Context, err error) error {
	if end := ctx.Err(); end != nil && !errors.Is(err, end) {
		return fmt.Errorf("%w: %w", err, end)
	}
	return err
}

const noAnswer = " (no server answers at this address: check IDEMSK_STORE_URL, with rediss:// only for a server with TLS, that the server runs, " +
	"and that the function's VPC and security groups let it through)"

const (
	noPermission    = " (the user lacks a permission: see docs/stores-redis.md for the ACL that the store needs)"
	unauthenticated = " (the server requires a password: put it into IDEMSK_STORE_URL, redis://user:password@host:port)"
	wrongLogin      = " (the user or the password of IDEMSK_STORE_URL is wrong; with iam=ARN the AWS role needs the permission Connect on the cache " +
		"and on the user, who must be one of the cache's, with the authentication mode iam)"
	older = " (the server is older than Redis 7: use Redis 7 or later, or Valkey)"
)

// hints are the remedies for errors of the server, by prefix.
var hints = []struct{ prefix, hint string }{
	{"READONLY", " (this is a read-only replica: give the store the primary's address, or a client that follows it: sentinel=NAME, cluster=true)"},
	{"OOM", " (the server's memory is full, and nothing was claimed: raise its maxmemory, or move other data away; the policy must stay noeviction)"},
	{"NOREPLICAS", " (the primary has fewer replicas in sync than its min-replicas-to-write and refuses writes: repair the replicas)"},
	{"MISCONF", " (the server cannot save to disk and refuses writes: see its log and its disk)"},
	{"NOPERM", noPermission},
	{"ERR The user executing the script can't", noPermission}, // Redis 7.0, for a command in a script
	{"WRONGPASS", wrongLogin},
	{"NOAUTH", unauthenticated},
	{"ERR Protocol error: unauthenticated", unauthenticated}, // the answer to a large batch
	{"ERR user_script:", " (this value was not written by this version of idemsk: give the store a Prefix of its own, or delete the value)"},
	{"WRONGTYPE", " (another program, or an early version of idemsk, uses this name: give the store a Prefix of its own)"},
	{"MOVED", " (the server is a node of a cluster: add ?cluster=true to IDEMSK_STORE_URL)"},
	{"CLUSTERDOWN", " (the cluster has lost nodes: see CLUSTER INFO)"},
	{"LOADING", " (the server has just been started and is reading its data: wait)"},
	{"BUSY", " (another program's script occupies the server: see SLOWLOG)"},
	{"ERR This instance has cluster support disabled",
		" (the server is not a node of a cluster: take cluster=true out of IDEMSK_STORE_URL)"},
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
	case err != nil && strings.Contains(err.Error(), "no AWS credentials"): // for a login by IAM
		return ""
	case errors.As(err, &dial) && dial.Op == "dial":
		return noAnswer
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil: // the dial timed out
		return noAnswer
	case err != nil && strings.Contains(err.Error(), "invalid username-password"):
		return wrongLogin
	}
	return ""
}
