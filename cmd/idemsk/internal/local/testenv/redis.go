package testenv

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/demo/redisledger"
)

func openRedis(url string, names Names) (*Environment, error) {
	client, err := redisstore.NewClient(url)
	if err != nil {
		return nil, err
	}
	end := func() { _ = client.Close() } // no request is open
	keys, err := redisstore.New(client, redisstore.Config{Prefix: names.Keys})
	if err != nil {
		end()
		return nil, err
	}
	return &Environment{keys: keys, database: &redisServer{client, keys, redisledger.Ledger(names.Ledger)},
		close: end}, nil
}

type redisServer struct {
	client redis.UniversalClient
	keys   *redisstore.Store
	ledger redisledger.Ledger
}

func (r *redisServer) check(ctx context.Context) error {
	if err := r.keys.Check(ctx); !errors.Is(err, redisstore.ErrNotDurable) {
		// a test does not need durable keys
		return err
	}
	return nil
}

func (r *redisServer) create(context.Context) error { return nil }

func (r *redisServer) remove(ctx context.Context) error {
	errs := []error{r.ledger.Drop(ctx, r.client)}
	for entry, err := range r.keys.List(ctx, store.ListQuery{}) {
		if err == nil {
			err = r.keys.Delete(ctx, entry.Key, entry.Token)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) { // a list may yield an entry twice
			errs = append(errs, fmt.Errorf("removing the keys: %w", err))
			break
		}
	}
	return errors.Join(errs...)
}

func (r *redisServer) read(ctx context.Context, s *State) (err error) {
	s.Balances, err = r.ledger.Balances(ctx, r.client)
	return err
}
