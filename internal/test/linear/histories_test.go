package linear_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
	"github.com/idemsk/idemsk/internal/test/linear"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

const (
	clients = 12
	skew    = 20 * time.Millisecond
)

// linearizable checks a store that concurrent clients use, with a share of all operations in percent.
// LINEAR_OPS is the number of operations on all stores, LINEAR_SEED the first seed. open returns the clients
// of a new, empty store. The operations are divided into rounds, because a silent connection stays open until
// the end of its proxy.
func linearizable(t *testing.T, share int, open func(t *testing.T) linear.Config) {
	t.Helper()
	const usual, round = 10_000, 20_000
	seed, begun := uint64(testkit.Number(t, "LINEAR_SEED", 1, 0)), time.Now()
	var all linear.Report
	for left := testkit.Number(t, "LINEAR_OPS", usual, 1) * share / 100; left > 0 && !t.Failed(); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			cfg := open(t)
			cfg.Skew, cfg.Ops, cfg.Seed = skew, min(left, round), seed
			if cfg.Now == nil {
				cfg.Now = time.Now
			}
			report, err := linear.Check(t.Context(), cfg)
			if err != nil {
				t.Error(err)
			}
			left -= report.Ops
			all.Add(report)
		})
	}
	t.Logf("%d operations on %d keys in %v: %d without an answer, %d that were sent again, %d undecided; answers: %v",
		all.Ops, all.Keys, time.Since(begun).Round(time.Second), all.Lost, all.Again, all.Undecided,
		all.Answers)
}

func effectsInMemory(mem *memstore.Store) *linear.Effects {
	var mu sync.Mutex
	counts := make(map[string]int)
	return &linear.Effects{
		Transactor: mem,
		Count: func(_ context.Context, e store.Effect, key string) error {
			tx, ok := e.(*memstore.Tx)
			if !ok {
				return fmt.Errorf("the effect is a %T", e)
			}
			tx.Do(func() {
				mu.Lock()
				defer mu.Unlock()
				counts[key]++
			})
			return nil
		},
		Read: func(_ context.Context, key string) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return counts[key], nil
		},
	}
}

func TestMemory(t *testing.T) {
	linearizable(t, 10, func(*testing.T) linear.Config {
		clock := storetest.NewClock()
		mem := memstore.New(memstore.Config{Clock: clock.Now, MaxClockSkew: skew})
		cfg := linear.Config{
			Clients: make([]linear.Client, clients), Now: clock.Now,
			Between: func(r *rand.Rand) { clock.Advance(time.Duration(r.IntN(3)) * time.Millisecond) },
			Sweep:   func(context.Context) error { mem.Sweep(); return nil },
		}
		for i, effects := 0, effectsInMemory(mem); i < clients; i++ {
			cfg.Clients[i] = linear.Client{Store: mem, Effects: effects}
		}
		return cfg
	})
}
