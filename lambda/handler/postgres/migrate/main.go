// Command migrate creates the table of the example's balances, IDEMSK_LEDGER_TABLE, in the database of
// IDEMSK_STORE_URL. It does nothing if the table exists. The other tables are created by idemsk migrate and
// idemsk relay --migrate.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/demo/pgledger"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger"
)

func main() {
	if err := run(context.Background(), app.Environment()); err != nil {
		fmt.Fprintln(os.Stderr, "migrate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, v *app.Vars) error {
	url, table := v.String("IDEMSK_STORE_URL", ""), ledger.ReadTable(v)
	if url == "" {
		v.FailSecret("IDEMSK_STORE_URL", "postgres://user:password@host:port/database")
	}
	if err := v.Err(); err != nil {
		return err
	}
	pool, err := pgstore.NewPool(url)
	if err != nil {
		return err
	}
	defer pool.Close()
	return pgledger.Ledger(table).Create(ctx, pool)
}
