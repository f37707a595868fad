package redisapp

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/lambda/app"
	"github.com/idemsk/idemsk/lambda/app/internal/storeserver"
)

var verdicts = storeserver.Verdicts{Refuse: redisstore.ErrEvicts, Warning: redisstore.ErrNotDurable}

// checked returns the store, looked at. Where the look told nothing of eviction, as the server was not there, no claim is
// made before another has.
func checked(ctx context.Context, b *app.Base, st *redisstore.Store) (store.Store, error) {
	found := storeserver.Check(ctx, b, st, verdicts)
	switch {
	case errors.Is(found, verdicts.Refuse):
		return nil, refusal(found)
	case conclusive(found):
		return storeserver.Batching(b, st), nil
	}
	return storeserver.Batching(b, &unchecked{Store: st, base: b}), nil
}

func refusal(found error) error { return fmt.Errorf("IDEMSK_STORE=%s: %w", app.StoreRedis, found) }

// conclusive reports whether a check has found out what it could: what it may not ask today it may not ask tomorrow.
func conclusive(found error) bool {
	return found == nil || storeserver.NothingBut(verdicts.Warning, found) ||
		redis.HasErrorPrefix(found, "NOPERM") || redis.HasErrorPrefix(found, "The user executing the script can't")
}

// unchecked is a store that has yet to be looked at.
type unchecked struct {
	*redisstore.Store
	base *app.Base
	done atomic.Bool
}

// Claim implements store.Store. Claims that are made at the same time may all look.
func (u *unchecked) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	if u.done.Load() {
		return u.Store.Claim(ctx, reqs)
	}
	if found := storeserver.Check(ctx, u.base, u.Store, verdicts); !conclusive(found) {
		results := make([]store.ClaimResult, len(reqs))
		for i := range results {
			results[i].Err = refusal(found)
		}
		return results
	}
	u.done.Store(true)
	return u.Store.Claim(ctx, reqs)
}
