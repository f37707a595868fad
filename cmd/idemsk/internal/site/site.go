// Package site is what the example's function works on where its store is PostgreSQL or Redis: the keys and the ledger, for
// who sets them up and reads them afterwards.
package site

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/pgledger"
	"github.com/idemsk/idemsk/internal/redisledger"
)

// Site is the keys and the ledger of a function. Close it.
type Site struct {
	server
	keys  store.Admin
	close func()
}

// server is what differs between the kinds.
type server interface {
	check(ctx context.Context) error
	create(ctx context.Context) error
	remove(ctx context.Context) error
	balances(ctx context.Context) (map[string]int64, error)
}

const removeTimeout = 30 * time.Second

// Open returns what is at a store's URL, postgres://, redis:// or rediss://, under the function's IDEMSK_TABLE and
// IDEMSK_LEDGER_TABLE. It does not connect.
func Open(url, table, ledger string) (*Site, error) {
	if strings.HasPrefix(url, "postgres") {
		return openPostgres(url, table, ledger)
	}
	return openRedis(url, table, ledger)
}

func openPostgres(url, table, ledger string) (*Site, error) {
	pool, err := pgstore.NewPool(url)
	if err != nil {
		return nil, err
	}
	keys, err := pgstore.New(pool, pgstore.Config{Table: table})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &Site{server: &inPostgres{pool, keys, table, pgledger.Ledger(ledger)}, keys: keys, close: pool.Close}, nil
}

func openRedis(url, table, ledger string) (*Site, error) {
	client, err := redisstore.NewClient(url)
	if err != nil {
		return nil, err
	}
	end := func() { _ = client.Close() } // everything has been answered
	keys, err := redisstore.New(client, redisstore.Config{Prefix: table})
	if err != nil {
		end()
		return nil, err
	}
	return &Site{server: &inRedis{client, keys, redisledger.Ledger(ledger)}, keys: keys, close: end}, nil
}

// Close ends the connections.
func (s *Site) Close() { s.close() }

// Check returns an error if the server does not answer, or is none that the store can use.
func (s *Site) Check(ctx context.Context) error { return s.check(ctx) }

// Create makes the tables, where there are any to make, and removes them again if that fails.
func (s *Site) Create(ctx context.Context) error {
	if err := s.create(ctx); err != nil {
		return errors.Join(err, s.Remove(ctx))
	}
	return nil
}

// Remove deletes keys and ledger. It also works when the context has ended.
func (s *Site) Remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	return s.remove(ctx)
}

// Balances reads the ledger, by account and currency, in minor units.
func (s *Site) Balances(ctx context.Context) (map[string]int64, error) { return s.balances(ctx) }

// Statuses reads how the keys ended.
func (s *Site) Statuses(ctx context.Context) (map[string]store.Status, error) {
	statuses := make(map[string]store.Status)
	for rec, err := range s.keys.List(ctx, store.ListQuery{}) {
		if err != nil {
			return nil, err
		}
		statuses[rec.Key] = rec.Status
	}
	return statuses, nil
}

type inPostgres struct {
	pool   *pgxpool.Pool
	keys   *pgstore.Store
	table  string
	ledger pgledger.Ledger
}

func (p *inPostgres) check(ctx context.Context) error {
	if err := p.keys.Check(ctx); !errors.Is(err, pgstore.ErrNoTable) { // create makes it
		return err
	}
	return nil
}

func (p *inPostgres) create(ctx context.Context) error {
	if _, err := pgstore.Migrate(ctx, p.pool, p.table); err != nil {
		return err
	}
	return p.ledger.Create(ctx, p.pool)
}

func (p *inPostgres) remove(ctx context.Context) error {
	var errs []error
	for _, suffix := range []string{"", "_migrations"} {
		name := pgx.Identifier(strings.Split(p.table+suffix, ".")).Sanitize()
		if _, err := p.pool.Exec(ctx, `DROP TABLE IF EXISTS `+name); err != nil {
			errs = append(errs, fmt.Errorf("removing the table %s: %w", name, err))
		}
	}
	return errors.Join(append(errs, p.ledger.Drop(ctx, p.pool))...)
}

func (p *inPostgres) balances(ctx context.Context) (map[string]int64, error) {
	return p.ledger.Balances(ctx, p.pool)
}

type inRedis struct {
	client redis.UniversalClient
	keys   *redisstore.Store
	ledger redisledger.Ledger
}

func (r *inRedis) check(ctx context.Context) error {
	if err := r.keys.Check(ctx); !errors.Is(err, redisstore.ErrNotDurable) { // what is there does not outlive the run
		return err
	}
	return nil
}

func (r *inRedis) create(context.Context) error { return nil }

func (r *inRedis) remove(ctx context.Context) error {
	errs := []error{r.ledger.Drop(ctx, r.client)}
	for rec, err := range r.keys.List(ctx, store.ListQuery{}) {
		if err == nil {
			err = r.keys.Delete(ctx, rec.Key, rec.Token)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) { // a list may yield a record twice
			errs = append(errs, fmt.Errorf("removing the keys: %w", err))
			break
		}
	}
	return errors.Join(errs...)
}

func (r *inRedis) balances(ctx context.Context) (map[string]int64, error) {
	return r.ledger.Balances(ctx, r.client)
}
