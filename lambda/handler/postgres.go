//go:build postgres

package main

import (
	"context"
	"fmt"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/pgledger"
	"github.com/idemsk/idemsk/lambda/app"
	"github.com/idemsk/idemsk/lambda/msk"
)

// postgresLedger is a ledger in the database that holds the keys. A booking commits with its key's completion.
type postgresLedger struct{ table pgledger.Ledger }

func bookInPostgres(base *app.Base, table string, book func(Ledger) msk.Handler) msk.Handler {
	return base.InTransaction(book(postgresLedger{pgledger.Ledger(table)}))
}

// Add implements Ledger.
func (l postgresLedger) Add(ctx context.Context, account, currency string, amount int64) (int64, error) {
	balance, err := l.table.Add(ctx, app.Tx(ctx), accountID(account, currency), amount)
	if err != nil {
		// A payment was checked before, so it is the ledger's fault whatever it says: a payment is not given up for that.
		return 0, idem.Unavailable(fmt.Errorf("on PostgreSQL: %w", err))
	}
	return balance, nil
}
