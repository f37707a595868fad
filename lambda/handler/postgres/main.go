// The example function, with PostgreSQL in addition to the built-in stores.
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/pgledger"
	"github.com/idemsk/idemsk/lambda/app"
	"github.com/idemsk/idemsk/lambda/app/pgapp"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

func main() {
	var transactions pgapp.Transactions
	open := func(_ context.Context, base *app.Base, table string, events ledger.Publishing) (ledger.Books, error) {
		publishing, err := inTransactions(base, events)
		within := func(h msk.Handler) msk.Handler { return transactions.Handler(publishing(h)) }
		return ledger.Books{Ledger: postgresLedger{pgledger.Ledger(table)}, Within: within}, err
	}
	app.StartFunc(ledger.Build(open), transactions.Store())
}

// postgresLedger is a ledger in the database of the store. A booking commits with its key's completion.
type postgresLedger struct{ table pgledger.Ledger }

// inTransactions returns a wrapper that makes a handler publish its events in its PostgreSQL transactions.
func inTransactions(base *app.Base, events ledger.Publishing) (func(msk.Handler) msk.Handler, error) {
	if events == "" {
		return func(h msk.Handler) msk.Handler { return h }, nil
	}
	const name = "IDEMSK_OUTBOX_TABLE"
	table := base.Vars.String(name, pgoutbox.DefaultTable)
	box, err := pgoutbox.New(pgoutbox.Config{Table: table})
	if err != nil {
		base.Vars.Fail(name, table, "for PostgreSQL a table's name of up to 48 characters, or its schema and name")
		return nil, err
	}
	return func(h msk.Handler) msk.Handler {
		return func(ctx context.Context, r msk.Record) ([]byte, error) {
			return h(box.NewContext(ctx, pgapp.Tx(ctx)), r)
		}
	}, nil
}

// Add implements ledger.Ledger.
func (l postgresLedger) Add(ctx context.Context, account, currency string, amount int64) (int64, error) {
	balance, err := l.table.Add(ctx, pgapp.Tx(ctx), ledger.AccountID(account, currency), amount)
	switch {
	case errors.Is(err, pgledger.ErrRefused):
		return 0, idem.Permanent(fmt.Errorf("on PostgreSQL: %w", err))
	case err != nil: // the ledger failed, so the payment is retried
		return 0, idem.Unavailable(fmt.Errorf("on PostgreSQL: %w", err))
	}
	return balance, nil
}
