//go:build postgres

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/pgledger"
	"github.com/idemsk/idemsk/lambda/app"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

// postgresLedger is a ledger in the database that holds the keys. A booking commits with its key's completion.
type postgresLedger struct{ table pgledger.Ledger }

func bookInPostgres(base *app.Base, table string, events publishing, book func(Ledger) msk.Handler) (msk.Handler, error) {
	handler, err := events.inPostgres(base, book(postgresLedger{pgledger.Ledger(table)}))
	if err != nil {
		return nil, err
	}
	return base.InTransaction(handler), nil
}

// inPostgres returns a handler that publishes in the PostgreSQL transactions of h.
func (p publishing) inPostgres(base *app.Base, h msk.Handler) (msk.Handler, error) {
	if p == "" {
		return h, nil
	}
	const name = "IDEMSK_OUTBOX_TABLE"
	table := base.Vars.String(name, pgoutbox.DefaultTable)
	box, err := pgoutbox.New(pgoutbox.Config{Table: table})
	if err != nil {
		base.Vars.Fail(name, table, "for PostgreSQL a table's name of up to 48 characters, or its schema and name")
		return nil, err
	}
	return func(ctx context.Context, r msk.Record) ([]byte, error) { return h(box.NewContext(ctx, app.Tx(ctx)), r) }, nil
}

// Add implements Ledger.
func (l postgresLedger) Add(ctx context.Context, account, currency string, amount int64) (int64, error) {
	balance, err := l.table.Add(ctx, app.Tx(ctx), accountID(account, currency), amount)
	switch {
	case errors.Is(err, pgledger.ErrRefused):
		return 0, idem.Permanent(fmt.Errorf("on PostgreSQL: %w", err))
	case err != nil: // the ledger's fault: a payment is not given up for that
		return 0, idem.Unavailable(fmt.Errorf("on PostgreSQL: %w", err))
	}
	return balance, nil
}
