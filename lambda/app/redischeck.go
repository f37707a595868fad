//go:build redis

package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem/redisstore"
)

var onRedis = verdicts{refuse: redisstore.ErrEvicts, warning: redisstore.ErrNotDurable}

// checkedRedis returns the store, looked at. Where the look told nothing of eviction, as the server was not there, no claim is
// made before another has.
func (b *Base) checkedRedis(ctx context.Context, st *redisstore.Store) (store.Store, error) {
	found := b.checkStore(ctx, st, onRedis)
	switch {
	case errors.Is(found, onRedis.refuse):
		return nil, refusal(found)
	case conclusive(found):
		return b.batching(st), nil
	}
	return b.batching(&unchecked{Store: st, base: b}), nil
}

func refusal(found error) error { return fmt.Errorf("IDEMSK_STORE=%s: %w", StoreRedis, found) }

// conclusive reports whether a check has found out what it could: what it may not ask today it may not ask tomorrow.
func conclusive(found error) bool {
	return found == nil || nothingBut(onRedis.warning, found) ||
		redis.HasErrorPrefix(found, "NOPERM") || redis.HasErrorPrefix(found, "The user executing the script can't")
}

// unchecked is a store that has yet to be looked at.
type unchecked struct {
	*redisstore.Store
	base *Base
	done atomic.Bool
}

// Claim implements store.Store. Claims that are made at the same time may all look.
func (u *unchecked) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	if u.done.Load() {
		return u.Store.Claim(ctx, reqs)
	}
	if found := u.base.checkStore(ctx, u.Store, onRedis); !conclusive(found) {
		results := make([]store.ClaimResult, len(reqs))
		for i := range results {
			results[i].Err = refusal(found)
		}
		return results
	}
	u.done.Store(true)
	return u.Store.Claim(ctx, reqs)
}
