//go:build servers

package pgstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/storetest"
)

// mortal is a store in transaction mode whose owners die when their lease is over. The suite's owners live on unaware, which
// no owner can here: as long as it lives, it has the key's lock, and nobody takes the key. So where the suite has a contender
// take a key from an owner whose lease is over, or whose record was deleted, the owner's transaction has ended just before:
// because its process died, or because the server ended it as it was left alone for too long.
type mortal struct {
	*pgstore.TxStore
	now func() time.Time
}

// Claim implements store.Store.
func (m mortal) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	for _, req := range reqs {
		abandon := m.Abandoner(req.Key)
		rec, err := m.Get(ctx, req.Key)
		gone := err != nil && ctx.Err() == nil
		over := rec.Status == store.StatusStarted && !rec.LeaseUntil.Add(m.MaxClockSkew()).After(m.now()) && rec.Owner != req.Owner
		if gone || over {
			abandon()
		}
	}
	return m.TxStore.Claim(ctx, reqs)
}

func TestRulesOfTransactionMode(t *testing.T) {
	everyWay(t, func(t *testing.T, pool *pgxpool.Pool, clock int) {
		storetest.Run(t, func(t *testing.T) storetest.Harness {
			h := harness(t, pool, clock)
			again := h.Store.(*storetest.Resender)
			st := pgstore.Transactional(again.Store.(*pgstore.Store))
			t.Cleanup(st.Close)
			again.Store = mortal{st, h.Now}
			return h
		})
	})
}
