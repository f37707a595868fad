package idem_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// Several processes handle deliveries of several keys concurrently, and their requests and answers are lost at random. The
// effect of each key takes place once.
func TestEffectsTakePlaceOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		faults := rapid.SliceOfN(rapid.IntRange(0, 5), 0, 40).Draw(rt, "faults")
		rounds := rapid.IntRange(1, 4).Draw(rt, "rounds")
		batch := rapid.SampledFrom([]int{1, 4}).Draw(rt, "batch size")
		var wrong string
		synctest.Test(t, func(t *testing.T) { wrong = deliveries(t, faults, rounds, batch) })
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

const effectKeys = 5

func deliveries(t *testing.T, faults []int, rounds, batch int) (wrong string) {
	t.Helper()
	s := &flaky{Store: memstore.New(memstore.Config{BatchSize: batch}), faults: faults}
	var counts [effectKeys]int
	keyOf := func(i int) string { return fmt.Sprint("payments#", i) }
	for range rounds {
		var all sync.WaitGroup
		for range 3 {
			e := newEngine(t, s, idem.Config{Lease: lease, BreakerFailures: -1, Wait: -1})
			session := e.Session(t.Context())
			var claims []*idem.Claim
			for i := range effectKeys {
				task := taskOf(booked(&counts[i], nil))
				task.Key = keyOf(i)
				claims = append(claims, &idem.Claim{Task: task, TakeOver: true})
			}
			all.Go(func() {
				defer session.Close()
				session.Claim(claims)
				var told sync.WaitGroup
				told.Add(len(claims))
				for _, claim := range claims {
					session.RunAsync(claim, func(idem.Outcome) { told.Done() })
				}
				told.Wait()
			})
		}
		all.Wait()
		pass(lease + time.Second)
		s.landLate(t.Context())
	}
	for i, n := range counts {
		rec, err := s.Get(t.Context(), keyOf(i))
		completed := err == nil && rec.Status == store.StatusCompleted
		if n > 1 || completed != (n == 1) {
			return fmt.Sprintf("key %d: its effect took place %d times, and the key is %+v", i, n, rec)
		}
	}
	return ""
}

// flaky is a memory store whose calls of Settle fail with the given faults, one after the other.
type flaky struct {
	*memstore.Store
	mu     sync.Mutex
	faults []int
	late   [][]store.Settlement
}

// Settle implements store.Store.
func (f *flaky) Settle(ctx context.Context, ss []store.Settlement) []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault := noFault
	if len(f.faults) > 0 {
		fault, f.faults = faultKind(f.faults[0]), f.faults[1:]
	}
	failed := slices.Repeat([]error{errNetwork}, len(ss))
	switch fault {
	case lostRequest:
		return failed
	case lateRequest:
		f.late = append(f.late, slices.Clone(ss))
		return failed
	case lostReply:
		f.Store.Settle(ctx, ss)
		return failed
	case sentTwice:
		f.Store.Settle(ctx, ss)
	case noFault:
	}
	return f.Store.Settle(ctx, ss)
}

func (f *flaky) landLate(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ss := range f.late {
		f.Store.Settle(ctx, ss)
	}
	f.late = nil
}
