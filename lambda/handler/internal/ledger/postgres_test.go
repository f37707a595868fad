//go:build servers

package ledger

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/demo/pgledger"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

func TestProcessOnPostgreSQL(t *testing.T) {
	program := buildFor(t, "postgres")
	for publishes, events := range map[string]int{"off": 0, "on": 4} { // one for each booking
		t.Run("outbox "+publishes, func(t *testing.T) { processOnPostgres(t, program, publishes, events) })
	}
}

func processOnPostgres(t *testing.T, program, publishes string, events int) {
	t.Helper()
	pool, env := startPostgres(t, publishes)
	processOnStore(t, program, "postgres", env)
	wantTogether(t, pool, events)

	poisoned := pgledger.Ledger("poisoned")
	if err := poisoned.Create(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	env["IDEMSK_LEDGER_TABLE"] = string(poisoned)
	poisonOnePartition(t, program, env)
	balances, err := poisoned.Balances(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "balance beside poison", fmt.Sprint(balances["acc-1/EUR"]), poisonedBalance)
	equal(t, "balance that can't grow", fmt.Sprint(balances["acc-full/EUR"]), fullBalance)
	equal(t, "events with those of the second batch", count(t, pool, `SELECT count(*) FROM events`), 2*events)
}

// startPostgres starts a server with all tables, and returns the function's environment for it.
func startPostgres(t *testing.T, publishes string) (*pgxpool.Pool, map[string]string) {
	t.Helper()
	server := testkit.Run(t, pgserver.Start, pgserver.Config{})
	pool, err := pgxpool.New(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := aLedger.Create(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if _, err := pgstore.Migrate(t.Context(), pool, pgstore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	if _, err := pgoutbox.Migrate(t.Context(), pool, "events"); err != nil {
		t.Fatal(err)
	}
	return pool, map[string]string{
		"IDEMSK_STORE_URL": server.URL(), "IDEMSK_CONCURRENCY": "4", "IDEMSK_OUTBOX": publishes,
		"IDEMSK_OUTBOX_TABLE": "events", "IDEMSK_OUTBOX_TOPIC": "told",
	}
}

const aLedger = pgledger.Ledger("a-ledger")

// wantTogether wants what processOnStore books to have been committed with its keys, and its events with
// both.
func wantTogether(t *testing.T, pool *pgxpool.Pool, events int) {
	t.Helper()
	balances, err := aLedger.Balances(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "balance", balances["acc-1/EUR"], 5600) // as on DynamoDB
	equal(t, "keys that completed in the transaction of the last booking",
		count(t, pool, `SELECT count(*) FROM idemsk k JOIN "a-ledger" l ON k.xmin = l.xmin WHERE k.status = 'COMPLETED'`), 1)
	equal(t, "events", count(t, pool, `SELECT count(*) FROM events`), events)
	equal(t, "events that were published in the transaction of a key's completion", count(t, pool, `SELECT count(*)
		FROM events e JOIN idemsk k ON k.xmin = e.xmin WHERE k.status = 'COMPLETED' AND e.aggregatetype = 'told' AND e.aggregateid = 'acc-1'`), events)
}

func count(t *testing.T, pool *pgxpool.Pool, sql string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}
