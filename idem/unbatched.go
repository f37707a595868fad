package idem

import (
	"context"
	"slices"

	"github.com/idemsk/idemsk/idem/internal/chunks"
	"github.com/idemsk/idemsk/idem/store"
)

// unbatched sends each claim and each settlement in a call of its own (Config.Unbatched).
type unbatched struct{ store.Store }

// unbatchedLimit is the maximum number of calls at the same time.
const unbatchedLimit = 16

// Claim implements store.Store.
func (u unbatched) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results := make([]store.ClaimResult, len(reqs))
	chunks.Each(len(reqs), unbatchedLimit, func(i int) { results[i] = u.Store.Claim(ctx, reqs[i:i+1])[0] })
	return results
}

// Settle implements store.Store.
func (u unbatched) Settle(ctx context.Context, ss []store.Settlement) []error {
	errs := make([]error, len(ss))
	chunks.Each(len(ss), unbatchedLimit, func(i int) {
		if one := u.Store.Settle(ctx, ss[i:i+1]); len(one) > 0 {
			errs[i] = one[0]
		}
	})
	if !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return nil
	}
	return errs
}
