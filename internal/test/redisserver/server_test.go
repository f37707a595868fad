//go:build servers

package redisserver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/internal/test/redisserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, cfg redisserver.Config) *redisserver.Server {
	t.Helper()
	return testkit.Run(t, redisserver.Start, cfg)
}

func do(t *testing.T, s *redisserver.Server, args ...any) string {
	t.Helper()
	answer, err := s.Do(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(answer)
}

func TestServersOfEveryKind(t *testing.T) {
	for kind, version := range map[redisserver.Kind]string{
		redisserver.Redis: "redis_version:", redisserver.Valkey: "valkey_version:",
		redisserver.OldRedis: "redis_version:6.",
	} {
		t.Run(string(kind), func(t *testing.T) {
			s := start(t, redisserver.Config{Kind: kind})
			if info := do(t, s, "INFO", "server"); !strings.Contains(info, version) {
				t.Errorf("no %s in\n%s", version, info)
			}
			if got := do(t, s, "CONFIG", "GET", "bind"); got != "[bind 127.0.0.1]" {
				t.Errorf("it listens on %s", got)
			}
		})
	}
}

func TestServerCrashAndRestart(t *testing.T) {
	s := start(t, redisserver.Config{Settings: map[string]string{"appendonly": "yes",
		"appendfsync": "always"}})
	for name, end := range map[string]func() error{"stop": s.Stop, "crash": s.Crash} {
		do(t, s, "SET", "a", name)
		if err := end(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := s.Do(ctx, "PING"); err == nil {
			t.Errorf("after the %s it still answers", name)
		}
		cancel()
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := do(t, s, "GET", "a"); got != name {
			t.Errorf("after the %s it has %s", name, got)
		}
	}
	if err := s.Restart(t.Context()); err == nil {
		t.Error("a running server was started again")
	}
}

func TestReplicaReplicatesAndCanBePromoted(t *testing.T) {
	s := start(t, redisserver.Config{})
	do(t, s, "SET", "a", "before")
	replica, err := s.Replica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testkit.CloseAtEnd(t, replica)
	if got := do(t, replica, "GET", "a"); got != "before" {
		t.Errorf("the replica has %s", got)
	}
	if _, err := replica.Do(t.Context(), "SET", "a", "b"); err == nil {
		t.Error("the replica took a write")
	}
	if err := replica.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	do(t, replica, "SET", "a", "b")
}

func TestClusterSharesTheSlots(t *testing.T) {
	c := testkit.Run(t, redisserver.StartCluster, redisserver.Config{})
	own := 0
	for _, node := range c.Nodes {
		if _, err := node.Do(t.Context(), "SET", "a", "b"); err == nil {
			own++
		} else if !strings.Contains(err.Error(), "MOVED") {
			t.Error(err)
		}
	}
	if own != 1 {
		t.Errorf("%d nodes took one key; want 1", own)
	}
}

func TestStartErrorNamesTheCause(t *testing.T) {
	_, err := redisserver.Start(t.Context(),
		redisserver.Config{Settings: map[string]string{"no-such-setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("%v; want the server's own words in it", err)
	}
}
