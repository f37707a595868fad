//go:build servers

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/redisserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

// wantOneError checks that a claim, a settlement and the Admin methods return the same error.
func wantOneError(t *testing.T, st *redisstore.Store, texts ...string) {
	t.Helper()
	res := claim(t, st, request("a", 1))
	if res.State != store.ClaimUnknown || errors.Is(res.Err, store.ErrFenced) {
		t.Errorf("state %d", res.State)
	}
	wantError(t, res.Err, append(texts, `claim "a"`)...)
	err := settle(t, st, settlement(store.Entry{Key: "a", Token: 1, Owner: "o"}, store.OpComplete))
	if errors.Is(err, store.ErrFenced) {
		t.Errorf("%v; want no answer", err)
	}
	wantError(t, err, append(texts, `complete "a"`)...)
	wantError(t, st.Check(t.Context()), texts...)
}

func TestErrorNamesWrongURL(t *testing.T) {
	gone := ownServer(t, nil)
	if err := gone.Crash(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, url string
		texts     []string
	}{
		{"no server", gone.URL() + "?max_retries=1",
			[]string{"connection refused", "check IDEMSK_STORE_URL"}},
		{"no such host", "redis://no-such-host.invalid:6379?max_retries=-1",
			[]string{"no-such-host.invalid", "check IDEMSK_STORE_URL"}},
		{"a wrong password", server.URLOf("default", "wrong"), []string{"user or the password", "is wrong"}},
		{"an unknown user", server.URLOf("stranger", "x"), []string{"user or the password", "is wrong"}},
		{"no password", "redis://" + server.Addr(), []string{"requires a password"}},
		{"TLS where there is none", strings.Replace(server.URL(), "redis:", "rediss:", 1) +
			"?dial_timeout=200ms&max_retries=-1", []string{"rediss:// only for a server with TLS"}},
		{"an unknown database", server.URL() + "/99", []string{"DB index is out of range"}},
		{"a cluster that is none", server.URL() + "?cluster=true",
			[]string{"cluster support disabled", "take cluster=true out"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantOneError(t, newStore(t, newClient(t, tc.url), redisstore.Config{}), tc.texts...)
		})
	}
}

// The credentials of a login by IAM come from another service, whose failure says nothing of the server.
func TestErrorWithoutCredentialsDoesNotBlameTheServer(t *testing.T) {
	cause := &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
	client := newClient(t, server.URL(), func(o *redis.UniversalOptions) {
		o.CredentialsProviderContext = func(context.Context) (string, string, error) {
			return "", "", fmt.Errorf("no AWS credentials: %w", cause)
		}
	})
	err := claim(t, newStore(t, client, redisstore.Config{}), request("a", 1)).Err
	if !errors.Is(err, cause) || strings.Contains(err.Error(), "check IDEMSK_STORE_URL") {
		t.Errorf("%v; want the cause, and no advice about the server", err)
	}
}

func TestClusterNodeWithoutClusterOptionIsRefused(t *testing.T) {
	st := newStore(t, newClient(t, cluster.Nodes[0].URL()), redisstore.Config{})
	var moved error
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		if err := claim(t, st, request(key, 1)).Err; err != nil {
			moved = err
		}
	}
	wantError(t, moved, "MOVED", "add ?cluster=true")
}

func TestOldServerIsRefused(t *testing.T) {
	old := testkit.Run(t, redisserver.Start, redisserver.Config{Kind: redisserver.OldRedis})
	st := newStore(t, newClient(t, old.URL()), redisstore.Config{})
	wantError(t, claim(t, st, request("a", 1)).Err, "older than Redis 7")
	if err := st.Check(t.Context()); !errors.Is(err, redisstore.ErrOldServer) {
		t.Errorf("%v; want ErrOldServer", err)
	}
	if got := do(t, old, "DBSIZE"); got != int64(0) {
		t.Errorf("%v keys were written", got)
	}
}

// acl is the ACL that docs/stores-redis.md recommends.
func acl(prefix string) []any {
	return []any{"ACL", "SETUSER", "function", "reset", "on", ">secret", "~" + prefix + ":*",
		"+eval", "+evalsha", "+time", "+get", "+set", "+del", "+scan", "+info"}
}

func TestACLInDocsIsSufficientAndMinimal(t *testing.T) {
	srv := ownServer(t, map[string]string{"appendonly": "yes"})
	whole := acl("p")
	do(t, srv, whole...)
	url := srv.URLOf("function", "secret")
	if err := newStore(t, newClient(t, url), redisstore.Config{Prefix: "p"}).Check(t.Context()); err != nil {
		t.Error(err)
	}
	err := newStore(t, newClient(t, url), redisstore.Config{Prefix: "other"}).Check(t.Context())
	wantError(t, err, "NOPERM", "ACL that the store needs")
	for i := 7; i < len(whole); i++ {
		less := append(append([]any(nil), whole[:i]...), whole[i+1:]...)
		do(t, srv, less...)
		st := newStore(t, newClient(t, url), redisstore.Config{Prefix: "p"})
		if whole[i] == "+eval" {
			do(t, srv, "SCRIPT", "FLUSH")
		}
		err := st.Check(t.Context())
		if err == nil {
			t.Errorf("without %v: no error", whole[i])
			continue
		}
		wantError(t, err, "ACL that the store needs")
		if !errors.Is(err, store.ErrMisconfigured) {
			t.Errorf("without %v: %v; want ErrMisconfigured", whole[i], err)
		}
	}
}

func TestReadOnlyReplicaIsRefused(t *testing.T) {
	primary := ownServer(t, nil)
	held := newStore(t, newClient(t, primary.URL()), redisstore.Config{Prefix: "p"})
	if err := settle(t, held, settlement(mustClaim(t, held, request("a", 1)), store.OpComplete)); err != nil {
		t.Fatal(err)
	}
	replica, err := primary.Replica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testkit.CloseAtEnd(t, replica)
	st := newStore(t, newClient(t, replica.URL()), redisstore.Config{Prefix: "p"})
	// even a duplicate
	wantError(t, claim(t, st, request("a", 2)).Err, "READONLY", "read-only replica", "the primary's address")
	wantError(t, settle(t, st, settlement(store.Entry{Key: "a", Token: 1, Owner: "o"}, store.OpComplete)),
		"READONLY")
	if err := st.Check(t.Context()); !errors.Is(err, redisstore.ErrReadOnly) {
		t.Errorf("%v; want ErrReadOnly", err)
	}
	if err := replica.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := claim(t, st, request("a", 2)); res.State != store.ClaimCompleted {
		t.Errorf("after the promotion: state %d, error %v; want the completion", res.State, res.Err)
	}
}

func TestFullServerRefusesClaimsAndAcceptsCompletions(t *testing.T) {
	for kind := range map[redisserver.Kind]bool{redisserver.Redis: true, redisserver.Valkey: true} {
		t.Run(string(kind), func(t *testing.T) {
			srv := testkit.Run(t, redisserver.Start, redisserver.Config{Kind: kind})
			st := newStore(t, newClient(t, srv.URL()), redisstore.Config{})
			if err := settle(t, st, settlement(mustClaim(t, st, request("done", 1)),
				store.OpComplete)); err != nil {
				t.Fatal(err)
			}
			entry := mustClaim(t, st, request("a", 1))
			do(t, srv, "CONFIG", "SET", "maxmemory", "1")
			for _, key := range []string{"b", "done"} {
				res := claim(t, st, request(key, 2))
				wantError(t, res.Err, "OOM", "memory is full", "nothing was claimed")
			}
			wantError(t, st.Check(t.Context()), "OOM")
			set := settlement(entry, store.OpComplete)
			set.Result = []byte("paid")
			for _, op := range []store.SettleOp{store.OpExtend, store.OpComplete} {
				set.Op = op
				if err := settle(t, st, set); err != nil {
					t.Errorf("%s: %v; an effect that took place is lost", op, err)
				}
			}
			do(t, srv, "CONFIG", "SET", "maxmemory", "0")
			if res := claim(t, st, request("a", 3)); res.State != store.ClaimCompleted ||
				string(res.Entry.Result) != "paid" {
				t.Errorf("state %d, error %v", res.State, res.Err)
			}
			if _, err := st.Get(t.Context(), "b"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%v; want nothing of the refused claim", err)
			}
		})
	}
}

func TestCheckReportsEvictionAndMissingPersistence(t *testing.T) {
	srv := ownServer(t, nil)
	st := newStore(t, newClient(t, srv.URL()), redisstore.Config{})
	for _, tc := range []struct {
		name   string
		config []string
		want   error
	}{
		{"an evicting policy without a memory limit",
			[]string{"maxmemory-policy", "allkeys-lru", "appendonly", "yes"}, nil},
		{"no append-only file", []string{"appendonly", "no"}, redisstore.ErrNotDurable},
		{"an evicting policy", []string{"maxmemory", "100mb", "appendonly", "yes"}, redisstore.ErrEvicts},
		{"a policy that evicts expiring keys", []string{"maxmemory-policy", "volatile-ttl"},
			redisstore.ErrEvicts},
		{"noeviction", []string{"maxmemory-policy", "noeviction"}, nil},
	} {
		for i := 0; i < len(tc.config); i += 2 {
			do(t, srv, "CONFIG", "SET", tc.config[i], tc.config[i+1])
		}
		if err := st.Check(t.Context()); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v; want %v", tc.name, err, tc.want)
		}
	}
	for entry := range st.List(t.Context(), store.ListQuery{}) {
		t.Errorf("Check left %+v", entry)
	}
	if err := newStore(t, newClient(t, cluster.URL()),
		redisstore.Config{}).Check(t.Context()); !errors.Is(err, redisstore.ErrNotDurable) {
		t.Errorf("cluster: %v; want ErrNotDurable of its nodes", err)
	}
}

func TestStoppedServerIsAnErrorWithinTheAttempts(t *testing.T) {
	srv := ownServer(t, nil)
	st := newStore(t, newClient(t, srv.URL()), redisstore.Config{})
	mustClaim(t, st, request("a", 1))
	if err := srv.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	res := st.Claim(ctx, []store.ClaimRequest{request("b", 2)})[0]
	if !errors.Is(res.Err, context.DeadlineExceeded) {
		t.Errorf("%v; want the end of the deadline", res.Err)
	}
	if err := srv.Resume(); err != nil {
		t.Fatal(err)
	}
	if again := claim(t, st, request("b", 2)); again.State != store.Claimed || again.Entry.Attempts != 1 {
		t.Errorf("the same claim, sent again: state %d, error %v, %d attempts", again.State, again.Err,
			again.Entry.Attempts)
	}
}

func TestTooFewReplicasRefuseBeforeAnyWrite(t *testing.T) {
	srv := ownServer(t, map[string]string{"min-replicas-to-write": "1"})
	st := newStore(t, newClient(t, srv.URL()), redisstore.Config{})
	wantOneError(t, st, "NOREPLICAS", "repair the replicas")
	if got := do(t, srv, "DBSIZE"); got != int64(0) {
		t.Errorf("%v keys were written", got)
	}
}

func TestFailingDiskIsAnErrorBeforeAnyWrite(t *testing.T) {
	srv := ownServer(t, map[string]string{"save": "3600 1"})
	st := newStore(t, newClient(t, srv.URL()), redisstore.Config{})
	if err := os.RemoveAll(do(t, srv, "CONFIG", "GET", "dir").([]any)[1].(string)); err != nil {
		t.Fatal(err)
	}
	do(t, srv, "BGSAVE")
	for limit := time.Now().Add(patience); !strings.Contains(do(t, srv, "INFO", "persistence").(string),
		"rdb_last_bgsave_status:err"); {
		if time.Now().After(limit) {
			t.Fatal("the snapshot did not fail")
		}
	}
	wantOneError(t, st, "MISCONF", "see its log and its disk")
	if got := do(t, srv, "DBSIZE"); got != int64(0) {
		t.Errorf("%v keys were written", got)
	}
}
