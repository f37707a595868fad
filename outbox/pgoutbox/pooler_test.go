//go:build servers

package pgoutbox_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/internal/test/pgpooler"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

// newPooled returns a pool that connects through a pooler in transaction mode, without prepared statements.
func newPooled(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	return newPool(t, pgpooler.Start(t, url)+"&default_query_exec_mode=exec")
}

// A pooler keeps a server's connection with what a session has left there, also when its client has gone.
func TestRelayLeavesNothingAtAPooler(t *testing.T) {
	direct := newPool(t, postgres.URL())
	o, table := newOutbox(t, direct, pgoutbox.Config{})
	said := new(lockedBuffer)
	stop := run(t, newPooled(t, postgres.URL()), o, &sender{}, pgoutbox.RelayConfig{
		PollInterval: 10 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(said, nil))})
	for range 3 {
		publish(t, direct, o, outbox.Event{Topic: "t"})
		eventually(t, direct, 0, pendingIn(table))
	}
	stop()
	const locks = `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = $1::text::regclass::oid`
	eventually(t, direct, 0, locks, table) // a transaction may be ending
	if n := ask[int](t, direct, `SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN outbox\_' || $1::text::regclass::oid`, table); n != 0 {
		t.Errorf("%d connections listen", n)
	}
	if n := strings.Count(said.String(), "goes through a pooler"); n != 1 {
		t.Errorf("the log has %d lines about the pooler, want 1:\n%s", n, said)
	}
}

// Clients of a pooler prepare the same statements on the same connections of the server.
func TestPreparedStatementsAtAPoolerNameTheRemedy(t *testing.T) {
	direct := newPool(t, postgres.URL())
	o, _ := newOutbox(t, direct, pgoutbox.Config{})
	said := new(lockedBuffer)
	failed := make(chan pgoutbox.Stats, 1)
	run(t, newPool(t, pgpooler.Start(t, postgres.URL())), o, &sender{}, pgoutbox.RelayConfig{
		PollInterval: 10 * time.Millisecond, StatsInterval: 20 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(said, nil)),
		Stats: func(s pgoutbox.Stats) {
			if s.LastFailure != nil {
				select {
				case failed <- s:
				default:
				}
			}
		},
	})
	const remedy = "default_query_exec_mode=exec"
	if s := <-failed; !strings.Contains(s.LastFailure.Error(), remedy) {
		t.Errorf("%v; want the remedy", s.LastFailure)
	}
	for began := time.Now(); !strings.Contains(said.String(), remedy); <-time.After(10 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("the log is %s; want the remedy", said)
		}
	}
}
