package adapters

import (
	"context"

	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

// Pay charges a payment, and stores its receipt and an event. It is a kafka.HandlerFunc for keys in
// PostgreSQL.
func (b Bank) Pay(ctx context.Context, r kafka.Record) ([]byte, error) {
	receipt, err := b.Charge(ctx, r) // before the transaction, which must not wait for the bank
	if err != nil {
		return nil, err
	}
	tx, err := pgstore.TxFrom(ctx) // commits with the completion of the key
	if err != nil {
		return nil, err
	}
	row := `INSERT INTO payments (payment, receipt) VALUES ($1, $2)`
	if _, err := tx.Exec(ctx, row, r.Value, receipt); err != nil {
		return nil, err
	}
	return receipt, pgoutbox.Publish(ctx, tx, outbox.Event{Topic: "receipts", Key: r.Key, Value: receipt})
}
