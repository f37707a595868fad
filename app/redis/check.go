package redis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/internal/storeserver"
	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
)

var verdicts = storeserver.Verdicts{Refuse: redisstore.ErrEvicts, Warning: redisstore.ErrNotDurable}

// checked checks the store and returns it. If the check could not determine the eviction policy because the
// server was unavailable, no claim is sent before a later check has succeeded.
func checked(ctx context.Context, b *app.Base, st *redisstore.Store) (store.Store, error) {
	found := storeserver.Check(ctx, b, st, verdicts)
	switch {
	case errors.Is(found, verdicts.Refuse):
		return nil, refusal(found)
	case conclusive(found):
		return st, nil
	}
	return &unchecked{Store: st, base: b}, nil
}

func refusal(found error) error { return fmt.Errorf("IDEMSK_STORE=%s: %w", app.StoreRedis, found) }

// conclusive reports whether a check has a definite result. A missing permission counts, because a later
// check would not have it either.
func conclusive(found error) bool {
	return found == nil || storeserver.NothingBut(verdicts.Warning, found) ||
		errors.Is(found, store.ErrMisconfigured)
}

// unchecked is a store that must be checked before its first claim.
type unchecked struct {
	*redisstore.Store
	base *app.Base
	done atomic.Bool
}

// Claim implements store.Store. Concurrent claims may each check the store.
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
