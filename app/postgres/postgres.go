// Package postgres adds a store in PostgreSQL to a function or a consumer process. The main package imports
// it:
//
//	func main() {
//		lambda.Start(handler, postgres.Store())
//	}
//
// The variable IDEMSK_STORE=postgres then selects it.
package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/internal/storeserver"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
)

// Store returns the option that adds the store. A handler gets its transaction from pgstore.TxFrom. Up to
// IDEMSK_CONCURRENCY handlers have a transaction at the same time, because the pool has one connection more.
// The URL's pool_max_conns overrides this.
func Store() app.Option {
	return app.WithStore(app.Store{Name: app.StorePostgres, Read: scheme().Read, Open: open})
}

func scheme() *storeserver.Scheme {
	return &storeserver.Scheme{
		Names: []string{"postgres", "postgresql"}, Want: "postgres://user:password@host:port/database",
		Composed: "postgres", Options: "sslmode=require",
		Table: pgstore.DefaultTable, ValidTable: pgstore.ValidTable,
		WantTable: "for PostgreSQL a table's name, or its schema and name",
	}
}

func open(ctx context.Context, b *app.Base) (store.Store, error) {
	where, err := storeserver.Find(ctx, b, scheme())
	if err != nil {
		return nil, err
	}
	pool, err := pgstore.NewPool(where.URL, func(c *pgxpool.Config) {
		if where.Secret != nil {
			followRotation(c, where.Secret)
		}
		if !strings.Contains(where.URL, "pool_max_conns") {
			// each running handler may have a transaction, and heartbeats need a connection
			c.MaxConns = int32(b.Config.Records.Concurrency) + 1 // a batch's bound, 10,000
		}
	})
	if err != nil {
		return nil, err
	}
	b.OnClose(pool.Close)
	st, err := pgstore.New(pool, pgstore.Config{Table: b.Config.Table,
		MaxClockSkew: cmp.Or(b.Config.MaxClockSkew, -1)})
	if err != nil {
		return nil, err
	}
	// Check logs the error
	_ = storeserver.Check(ctx, b, st, storeserver.Verdicts{Warning: pgstore.ErrTableNewer})
	return st, nil
}

// followRotation makes the pool connect with the secret's login, and reads the secret again after the server
// refused it.
func followRotation(c *pgxpool.Config, s *storeserver.Secret) {
	c.BeforeConnect = func(ctx context.Context, cc *pgx.ConnConfig) error {
		l, err := s.Login(ctx, storeserver.Login{User: cc.User, Password: cc.Password})
		cc.User, cc.Password = l.User, l.Password
		return err
	}
	next := c.ConnConfig.OnPgError
	c.ConnConfig.OnPgError = func(conn *pgconn.PgConn, said *pgconn.PgError) bool {
		if slices.Contains([]string{"28P01", "28000"}, said.Code) { // invalid password, invalid authorization
			s.Refuse()
		}
		return next(conn, said)
	}
}
