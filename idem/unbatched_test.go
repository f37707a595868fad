package idem_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// sizes is a Batcher that notes the largest call.
type sizes struct {
	*memstore.Store
	calls, largest atomic.Int64
}

func (s *sizes) note(n int) {
	s.calls.Add(1)
	for {
		largest := s.largest.Load()
		if int64(n) <= largest || s.largest.CompareAndSwap(largest, int64(n)) {
			return
		}
	}
}

func (s *sizes) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	s.note(len(reqs))
	return s.Store.Claim(ctx, reqs)
}

func (s *sizes) Settle(ctx context.Context, ss []store.Settlement) []error {
	s.note(len(ss))
	return s.Store.Settle(ctx, ss)
}

func TestUnbatchedEngineSendsEachElementAlone(t *testing.T) {
	for unbatched, want := range map[bool]struct{ batch, calls, largest int }{true: {1, 80, 1},
		false: {25, 2, 40}} {
		st := &sizes{Store: memstore.New(memstore.Config{BatchSize: 25})}
		e := newEngine(t, st, idem.Config{Unbatched: unbatched})
		equal(t, "batch size", e.BatchSize(), want.batch)
		s := session(t, e, until(t, lease))
		claims := make([]*idem.Claim, 40)
		for i := range claims {
			claims[i] = &idem.Claim{Task: taskOf(returning("receipt", nil))}
			claims[i].Task.Key = fmt.Sprint("key-", i)
		}
		s.Claim(claims)
		for _, claim := range claims {
			equal(t, "state of "+claim.Task.Key, claim.State(), store.Claimed)
		}
		s.Release(claims)
		equal(t, "calls", int(st.calls.Load()), want.calls)
		equal(t, "largest call", int(st.largest.Load()), want.largest)
	}
}
