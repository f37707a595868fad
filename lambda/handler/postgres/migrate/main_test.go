//go:build servers

package main

import (
	"strings"
	"testing"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/demo/pgledger"
	"github.com/idemsk/idemsk/internal/test/pgserver"
)

func variables(values map[string]string) *app.Vars {
	return app.NewVars(func(name string) (string, bool) { s, ok := values[name]; return s, ok })
}

func TestTheLedgersTableIsCreatedOnce(t *testing.T) {
	server, err := pgserver.Start(t.Context(), pgserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	pool, err := pgstore.NewPool(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for name, table := range map[string]pgledger.Ledger{"": "idemsk-ledger", "a-ledger": "a-ledger"} {
		for n := range int64(2) { // the second run keeps the balances of the first
			if err := run(t.Context(), variables(
				map[string]string{"IDEMSK_STORE_URL": server.URL(),
					"IDEMSK_LEDGER_TABLE": name})); err != nil {
				t.Fatal(err)
			}
			if balance, err := table.Add(t.Context(), pool, "a/EUR", 1); err != nil || balance != n+1 {
				t.Errorf("%s: balance %d, %v; want %d", table, balance, err, n+1)
			}
		}
	}
}

func TestInvalidVariables(t *testing.T) {
	for says, values := range map[string]map[string]string{
		"IDEMSK_STORE_URL is missing":      {},
		`IDEMSK_LEDGER_TABLE is "a table"`: {"IDEMSK_LEDGER_TABLE": "a table"},
		"IDEMSK_STORE_URL":                 {"IDEMSK_STORE_URL": "redis://host"},
	} {
		if err := run(t.Context(), variables(values)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v; want %q", values, err, says)
		}
	}
}
