// Package pgbooks keeps the example's books in PostgreSQL, in the database of the keys.
package pgbooks

import (
	"context"
	"errors"
	"fmt"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/demo/pgledger"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

// Open is a ledger.Open.
func Open(_ context.Context, base *app.Base, table string, events ledger.Publishing) (ledger.Books, error) {
	within, err := inTransactions(base, events)
	return ledger.Books{Ledger: postgresLedger{pgledger.Ledger(table)}, Within: within}, err
}

// postgresLedger is a ledger in the database of the store. A booking commits with its key's completion.
type postgresLedger struct{ table pgledger.Ledger }

// inTransactions returns a wrapper that makes a handler publish its events in its PostgreSQL transactions,
// nil if no events are published.
func inTransactions(base *app.Base, events ledger.Publishing) (func(msk.HandlerFunc) msk.HandlerFunc, error) {
	if events == "" {
		return nil, nil //nolint:nilnil // see above
	}
	const name = "IDEMSK_OUTBOX_TABLE"
	table := base.Vars.String(name, pgoutbox.DefaultTable)
	box, err := pgoutbox.New(pgoutbox.Config{Table: table})
	if err != nil {
		base.Vars.Fail(name, table, "for PostgreSQL a table's name of up to 48 characters, or its schema and name")
		return nil, err
	}
	return func(h msk.HandlerFunc) msk.HandlerFunc {
		return func(ctx context.Context, r msk.Record) ([]byte, error) {
			tx, err := pgstore.TxFrom(ctx)
			if err != nil {
				return nil, err
			}
			return h(box.NewContext(ctx, tx), r)
		}
	}, nil
}

// Add implements ledger.Ledger.
func (l postgresLedger) Add(ctx context.Context, account, currency string, amount int64) (int64, error) {
	tx, err := pgstore.TxFrom(ctx)
	if err != nil {
		return 0, err
	}
	balance, err := l.table.Add(ctx, tx, ledger.AccountID(account, currency), amount)
	switch {
	case errors.Is(err, pgledger.ErrRefused):
		return 0, idem.Permanent(fmt.Errorf("on PostgreSQL: %w", err))
	case err != nil: // the ledger failed, so the payment is retried
		return 0, idem.Unavailable(fmt.Errorf("on PostgreSQL: %w", err))
	}
	return balance, nil
}
