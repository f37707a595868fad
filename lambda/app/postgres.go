//go:build postgres

package app

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/lambda/msk"
)

// postgres is the state of a store in PostgreSQL.
type postgres struct {
	inTransaction bool             // the handler asked for it
	tx            *pgstore.TxStore // nil in lease mode
}

func postgresScheme() *scheme {
	return &scheme{
		names: []string{"postgres", "postgresql"}, want: "postgres://user:password@host:port/database", composed: "postgres", options: "sslmode=require",
	}
}

func readPostgres(v *Vars, c *Config) {
	c.Table = v.String("IDEMSK_TABLE", pgstore.DefaultTable)
	if !pgstore.ValidTable(c.Table) {
		v.Fail("IDEMSK_TABLE", c.Table, "for PostgreSQL a table's name, or its schema and name")
	}
	readAccess(v, c, postgresScheme())
}

// openPostgres returns a store in lease mode, or in transaction mode if the handler is to have its transaction.
func (b *Base) openPostgres(ctx context.Context) (store.Store, error) {
	where, err := b.access(ctx, postgresScheme())
	if err != nil {
		return nil, err
	}
	pool, err := pgstore.NewPool(where.url, func(c *pgxpool.Config) {
		if where.secret != nil {
			followRotation(c, where.secret)
		}
		if b.postgres.inTransaction { // each handler at work has a connection of its own, and heartbeats need one
			c.MaxConns = int32(b.Config.Records.Concurrency) + 1 // a batch's bound, 10,000
		}
	})
	if err != nil {
		return nil, err
	}
	b.onClose(pool.Close)
	onCheck := verdicts{warning: pgstore.ErrTableNewer}
	cfg := pgstore.Config{Table: b.Config.Table, MaxClockSkew: cmp.Or(b.Config.MaxClockSkew, -1)}
	if !b.postgres.inTransaction {
		st, err := pgstore.New(pool, cfg)
		if err != nil {
			return nil, err
		}
		_ = b.checkStore(ctx, st, onCheck) // it is logged
		return b.batching(st), nil
	}
	if b.postgres.tx, err = pgstore.NewTx(pool, pgstore.TxConfig{Config: cfg}); err != nil {
		return nil, err
	}
	b.onClose(b.postgres.tx.Close)
	_ = b.checkStore(ctx, b.postgres.tx, onCheck) // it is logged
	return b.postgres.tx, nil
}

// followRotation has connections made with the secret's login, and the secret read again after the server refused it.
func followRotation(c *pgxpool.Config, s *secret) {
	c.BeforeConnect = func(ctx context.Context, cc *pgx.ConnConfig) error {
		l, err := s.login(ctx, login{user: cc.User, password: cc.Password})
		cc.User, cc.Password = l.user, l.password
		return err
	}
	next := c.ConnConfig.OnPgError
	c.ConnConfig.OnPgError = func(conn *pgconn.PgConn, said *pgconn.PgError) bool {
		if slices.Contains([]string{"28P01", "28000"}, said.Code) { // invalid password, invalid authorization
			s.refuse()
		}
		return next(conn, said)
	}
}

type txKey struct{}

// InTransaction takes the store in PostgreSQL into transaction mode: what the handler writes through Tx commits together with
// the completion of its key, or not at all. Call it while the handler is built. Each handler at work then holds a connection,
// so that IDEMSK_CONCURRENCY is what a sandbox takes of the server's, and one more.
func (b *Base) InTransaction(handler msk.Handler) msk.Handler {
	b.postgres.inTransaction = true
	return func(ctx context.Context, r msk.Record) ([]byte, error) {
		if b.postgres.tx == nil {
			return nil, idem.Unavailable(errors.New("InTransaction: the store is not PostgreSQL: set IDEMSK_STORE=postgres"))
		}
		return b.postgres.tx.Handler(func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			return handler(context.WithValue(ctx, txKey{}, tx), r)
		}).Handle(ctx)
	}
}

// Tx returns the transaction of a handler that runs under InTransaction, nil for any other. It is not the handler's to commit
// or roll back.
func Tx(ctx context.Context) pgx.Tx {
	tx, _ := ctx.Value(txKey{}).(pgx.Tx)
	return tx
}
