package memstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
)

func TestRules(t *testing.T) {
	for _, skew := range []time.Duration{0, time.Second} {
		t.Run(fmt.Sprint("skew ", skew), func(t *testing.T) {
			storetest.Run(t, func(*testing.T) storetest.Harness { return harness(skew) })
		})
	}
}

func harness(skew time.Duration) storetest.Harness {
	clock := storetest.NewClock()
	st := memstore.New(memstore.Config{Clock: clock.Now, MaxClockSkew: skew})
	again := &storetest.Resender{Store: st, Admin: st}
	return storetest.Harness{
		Store: again, Now: clock.Now, Advance: clock.Advance, Skew: skew, LoseReply: again.Arm,
		Raw: func(t testing.TB, key string) []byte {
			entry, err := st.Get(t.Context(), key)
			if err != nil {
				return nil
			}
			raw, err := json.Marshal(entry)
			if err != nil {
				t.Fatal(err)
			}
			return raw
		},
		Sweep:   func(testing.TB) { st.Sweep() },
		Effects: counters(st),
	}
}

func counters(st *memstore.Store) *storetest.Effects {
	counts := make(map[string]int) // written under the store's lock
	enlist := func(t testing.TB, e store.Effect) *memstore.Tx {
		tx, ok := e.(*memstore.Tx)
		if !ok {
			t.Fatalf("%T", e)
		}
		return tx
	}
	return &storetest.Effects{
		Transactor: st,
		Count: func(t testing.TB, e store.Effect,
			name string) {
			enlist(t, e).Do(func() { counts[name]++ })
		},
		Refuse: func(t testing.TB, e store.Effect) {
			enlist(t,
				e).Check(func() error { return errors.New("no") })
		},
		Read: func(_ testing.TB, name string) int { return counts[name] },
	}
}

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, memstore.New(memstore.Config{})) }
