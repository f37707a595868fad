package testenv

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/demo/pgledger"
)

func openPostgres(url string, names Names) (*Environment, error) {
	pool, err := pgstore.NewPool(url)
	if err != nil {
		return nil, err
	}
	keys, err := pgstore.New(pool, pgstore.Config{Table: names.Keys})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &Environment{keys: keys, database: &postgres{pool, keys, names.Keys,
		pgledger.Ledger(names.Ledger)}, close: pool.Close}, nil
}

type postgres struct {
	pool   *pgxpool.Pool
	keys   *pgstore.Store
	table  string
	ledger pgledger.Ledger
}

func (p *postgres) check(ctx context.Context) error {
	if err := p.keys.Check(ctx); !errors.Is(err, pgstore.ErrNoTable) { // create makes it
		return err
	}
	return nil
}

func (p *postgres) create(ctx context.Context) error {
	if _, err := pgstore.Migrate(ctx, p.pool, p.table); err != nil {
		return err
	}
	return p.ledger.Create(ctx, p.pool)
}

func (p *postgres) remove(ctx context.Context) error {
	var errs []error
	for _, suffix := range []string{"", "_migrations"} {
		name := pgx.Identifier(strings.Split(p.table+suffix, ".")).Sanitize()
		if _, err := p.pool.Exec(ctx, `DROP TABLE IF EXISTS `+name); err != nil {
			errs = append(errs, fmt.Errorf("removing the table %s: %w", name, err))
		}
	}
	return errors.Join(append(errs, p.ledger.Drop(ctx, p.pool))...)
}

func (p *postgres) read(ctx context.Context, s *State) (err error) {
	s.Balances, err = p.ledger.Balances(ctx, p.pool)
	return err
}
