package idem

import (
	"context"
	"slices"
	"sync"

	"github.com/idemsk/idemsk/idem/store"
)

// unbatched sends each claim and each settlement in a call of its own (Config.Unbatched).
type unbatched struct{ store.Store }

// Claim implements store.Store.
func (u unbatched) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results := make([]store.ClaimResult, len(reqs))
	each(len(reqs), func(i int) { results[i] = u.Store.Claim(ctx, reqs[i:i+1])[0] })
	return results
}

// Settle implements store.Store.
func (u unbatched) Settle(ctx context.Context, ss []store.Settlement) []error {
	errs := make([]error, len(ss))
	each(len(ss), func(i int) {
		if one := u.Store.Settle(ctx, ss[i:i+1]); len(one) > 0 {
			errs[i] = one[0]
		}
	})
	if !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return nil
	}
	return errs
}

// each calls f(0), …, f(n-1), up to 16 at the same time, and returns when all have returned.
func each(n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	const limit = 16
	slots := make(chan struct{}, limit)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	wg.Wait()
}
