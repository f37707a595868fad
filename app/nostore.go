package app

import (
	"context"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// noStore is the store of IDEMSK_STORE=none, for comparison: every claim succeeds, and nothing is kept.
type noStore struct{}

// Claim implements store.Store.
func (noStore) Claim(_ context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results, now := make([]store.ClaimResult, len(reqs)), time.Now()
	for i := range reqs {
		results[i] = store.ClaimResult{State: store.Claimed, Entry: store.Entry{
			Key: reqs[i].Key, Status: store.StatusStarted, Owner: reqs[i].Owner, Token: now.UnixMilli(), Attempts: 1,
			LeaseUntil: now.Add(reqs[i].Lease),
		}}
	}
	return results
}

// Settle implements store.Store.
func (noStore) Settle(context.Context, []store.Settlement) []error { return nil }
