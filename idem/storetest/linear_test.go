package storetest_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/linear"
)

// The histories of concurrent clients of each broken store violate the rules, unless its fault is in
// something that they do not have.
func TestHistoriesOfBrokenStoresAreNotLinearizable(t *testing.T) {
	for i, b := range append(brokenStores(), broken{name: "none", how: func(*rules) {}}) {
		if slices.Contains(notInHistories(), b.name) {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			r := goodRules()
			b.how(&r)
			report, err := linear.Check(t.Context(), newVariant(r, 20*time.Millisecond).histories(uint64(i)))
			if found := err != nil; found == (b.name == "none") {
				t.Errorf("a violation was found: %t, after %d operations; %v", found, report.Ops, err)
			}
			t.Logf("after %d operations", report.Ops)
		})
	}
}

// histories returns concurrent clients of the store. Each moves its clock, mostly by a millisecond or two.
func (v *variant) histories(seed uint64) linear.Config {
	const clients, operations = 12, 20_000
	cfg := linear.Config{
		Clients: make([]linear.Client, clients), Skew: v.skew, Now: v.clock.Now, Ops: operations, Seed: seed,
		Between: func(r *rand.Rand) {
			d := time.Duration(r.IntN(3)) * time.Millisecond
			if r.IntN(200) == 0 {
				d = time.Second / 2
			}
			v.clock.Advance(d)
		},
		Sweep: func(context.Context) error {
			v.mu.Lock()
			defer v.mu.Unlock()
			maps.DeleteFunc(v.recs, func(_ string,
				entry store.Entry) bool {
				return v.swept(&entry, v.clock.Now())
			})
			return nil
		},
	}
	for i := range cfg.Clients {
		cfg.Clients[i] = linear.Client{Store: v, Effects: v.linearEffects()}
	}
	return cfg
}

func (v *variant) linearEffects() *linear.Effects {
	return &linear.Effects{
		Transactor: v,
		Count: func(_ context.Context, e store.Effect, key string) error {
			c, ok := e.(*counted)
			if !ok {
				return fmt.Errorf("the effect is a %T", e)
			}
			c.names = append(c.names, key)
			return nil
		},
		Read: func(_ context.Context, key string) (int, error) {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.counts[key], nil
		},
	}
}

// notInHistories returns the broken stores whose fault is in something that the clients do not ask for.
func notInHistories() []string {
	return []string{
		"an omitted result is not noted", "an expired key keeps the size of its result",
		"the failure is undated",
		"an effect's conditions are not checked", "an effect takes place in part",
		"completions of a call commit without the others",
		"completions of a call that was undone are reported as done",
		"a claim without an owner recognises itself", "entries are shared with callers",
		"contexts are ignored", "a list is not filtered",
	}
}
