package pgapp

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/lambda/app"
	"github.com/idemsk/idemsk/lambda/msk"
)

// Transactions is a store in transaction mode: what its handler writes through Tx commits together with the completion of its key,
// or not at all. The zero value is ready for use.
type Transactions struct{ store *pgstore.TxStore }

// Store returns the option that adds the store. Each handler at work holds a connection, so that IDEMSK_CONCURRENCY is what a
// sandbox takes of the server's, and one more.
func (t *Transactions) Store() app.Option {
	return app.WithStore(app.Store{Name: app.StorePostgres, Read: read, Open: t.open})
}

func (t *Transactions) open(ctx context.Context, b *app.Base) (store.Store, error) {
	pool, err := openPool(ctx, b, func(c *pgxpool.Config) {
		c.MaxConns = int32(b.Config.Records.Concurrency) + 1 // a batch's bound, 10,000; heartbeats need one
	})
	if err != nil {
		return nil, err
	}
	if t.store, err = pgstore.NewTx(pool, pgstore.TxConfig{Config: config(b)}); err != nil {
		return nil, err
	}
	b.OnClose(t.store.Close)
	check(ctx, b, t.store)
	return t.store, nil
}

type txKey struct{}

// Handler returns a handler that has its transaction in its context, for Tx.
func (t *Transactions) Handler(handler msk.Handler) msk.Handler {
	return func(ctx context.Context, r msk.Record) ([]byte, error) {
		if t.store == nil {
			return nil, idem.Unavailable(errors.New("pgapp: the store is not PostgreSQL: set IDEMSK_STORE=postgres"))
		}
		return t.store.Handler(func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			return handler(context.WithValue(ctx, txKey{}, tx), r)
		}).Handle(ctx)
	}
}

// Tx returns the transaction of a handler of Transactions, nil for any other. It is not the handler's to commit or roll back.
func Tx(ctx context.Context) pgx.Tx {
	tx, _ := ctx.Value(txKey{}).(pgx.Tx)
	return tx
}
