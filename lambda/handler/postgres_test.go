//go:build postgres

package main

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/pgledger"
	"github.com/idemsk/idemsk/internal/pgserver"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

func TestTheProcessOnPostgreSQL(t *testing.T) {
	for publishes, events := range map[string]int{"off": 0, "on": 4} { // one for each booking
		t.Run("outbox "+publishes, func(t *testing.T) { processOnPostgres(t, publishes, events) })
	}
}

func processOnPostgres(t *testing.T, publishes string, events int) {
	t.Helper()
	server, err := pgserver.Start(t.Context(), pgserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pool.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	const ledger = pgledger.Ledger("a-ledger")
	if err := ledger.Create(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if _, err := pgstore.Migrate(t.Context(), pool, pgstore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	if _, err := pgoutbox.Migrate(t.Context(), pool, "events"); err != nil {
		t.Fatal(err)
	}
	processOnStore(t, "postgres", map[string]string{
		"IDEMSK_STORE_URL": server.URL(), "IDEMSK_CONCURRENCY": "4", "IDEMSK_OUTBOX": publishes, "IDEMSK_OUTBOX_TABLE": "events", "IDEMSK_OUTBOX_TOPIC": "told",
	})
	balances, err := ledger.Balances(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "balance", balances["acc-1/EUR"], 5600) // as on DynamoDB
	var together int
	err = pool.QueryRow(t.Context(), `SELECT count(*) FROM idemsk k JOIN "a-ledger" l ON k.xmin = l.xmin WHERE k.status = 'COMPLETED'`).Scan(&together)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "keys that completed in the transaction of the last booking", together, 1)
	var published, withKeys int
	err = pool.QueryRow(t.Context(), `SELECT count(*) FROM events`).Scan(&published)
	if err == nil {
		err = pool.QueryRow(t.Context(), `SELECT count(*) FROM events e JOIN idemsk k ON k.xmin = e.xmin
			WHERE k.status = 'COMPLETED' AND e.aggregatetype = 'told' AND e.aggregateid = 'acc-1'`).Scan(&withKeys)
	}
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "events", published, events)
	equal(t, "events that were published in the transaction of a key's completion", withKeys, events)
}
