//go:build servers

package pgserver_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ask(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var answer string
	if err := conn.QueryRow(t.Context(), sql).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return answer
}

func start(t *testing.T) *pgserver.Server {
	t.Helper()
	return testkit.Run(t, pgserver.Start, pgserver.Config{Settings: map[string]string{"work_mem": "1234kB"}})
}

func TestServerCrashAndRestart(t *testing.T) {
	s := start(t)
	if got := ask(t, s.URL(), "SHOW work_mem"); got != "1234kB" {
		t.Errorf("work_mem is %s", got)
	}
	if got := ask(t, s.URL(), "SHOW listen_addresses"); got != "127.0.0.1" {
		t.Errorf("it listens on %s", got)
	}
	ask(t, s.URL(), "WITH x AS (SELECT set_config('a.b', 'c', false)) SELECT 'ok' FROM x")
	url := s.URL()
	for name, end := range map[string]func() error{"stop": s.Stop, "crash": s.Crash} {
		if err := end(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if conn, err := pgx.Connect(ctx, url); err == nil {
			conn.Close(ctx)
			t.Errorf("after the %s it still takes connections", name)
		}
		cancel()
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ask(t, url, "SELECT 'ok'") != "ok" {
			t.Errorf("after the %s it does not answer", name)
		}
	}
	if err := s.Restart(t.Context()); err == nil {
		t.Error("a running server was started again")
	}
}

func TestStandbyReplicatesAndCanBePromoted(t *testing.T) {
	s := start(t)
	standby, err := s.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer standby.Close()
	if got := ask(t, standby.URL(), "SELECT pg_is_in_recovery()::text"); got != "true" {
		t.Errorf("the standby is in recovery: %s", got)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, standby.URL(), "SELECT pg_is_in_recovery()::text"); got != "false" {
		t.Errorf("the promoted standby is in recovery: %s", got)
	}
}

func TestFailoverURLSelectsTheServerThatAcceptsWrites(t *testing.T) {
	s := testkit.Run(t, pgserver.Start, pgserver.Config{Settings: map[string]string{"synchronous_standby_names": "*"}})
	standby, err := s.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer standby.Close()
	url := pgserver.FailoverURL(standby, s)
	write := func(table string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(t.Context(), "CREATE TABLE "+table+" ()"); err != nil {
			t.Error(err)
		}
	}
	write("before")
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	write("after") // it has no standby to wait for
	if got := ask(t, url, "SELECT to_regclass('before')::text"); got != "before" {
		t.Errorf("what was answered before is %q", got)
	}
}

func TestStartErrorNamesTheCause(t *testing.T) {
	_, err := pgserver.Start(t.Context(),
		pgserver.Config{Settings: map[string]string{"no_such_setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("%v; want the server's own words in it", err)
	}
}
