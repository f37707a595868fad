//go:build postgres

package main

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/pgledger"
	"github.com/idemsk/idemsk/internal/pgserver"
)

func TestTheProcessOnPostgreSQL(t *testing.T) {
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
	processOnStore(t, "postgres", map[string]string{"IDEMSK_STORE_URL": server.URL(), "IDEMSK_CONCURRENCY": "4"})
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
}
