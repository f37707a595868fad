//go:build servers

package redisstore_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
)

// everyDurability runs a benchmark on servers that write nothing to disk, and on one that has every write
// there before it answers.
func everyDurability(b *testing.B, run func(b *testing.B, st *redisstore.Store)) {
	b.Helper()
	for _, way := range []struct{ name, url string }{
		{"Redis", server.URL()},
		{"Redis, appendfsync always", ownServer(b,
			map[string]string{"appendonly": "yes", "appendfsync": "always"}).URL()},
		{"Redis Cluster", cluster.URL()},
		{"Valkey", valkey.URL()},
	} {
		b.Run(way.name, func(b *testing.B) {
			run(b,
				newStore(b, newClient(b, way.url), redisstore.Config{}))
		})
	}
}

func BenchmarkStore(b *testing.B) {
	everyDurability(b, func(b *testing.B, st *redisstore.Store) { storetest.Benchmark(b, st) })
}

// BenchmarkBatch measures a batch of 100: an operation is one record.
func BenchmarkBatch(b *testing.B) {
	everyDurability(b, func(b *testing.B, st *redisstore.Store) {
		run := 0
		claim := func(fresh bool) []store.ClaimResult {
			run++
			reqs := make([]store.ClaimRequest, redisstore.MaxBatchSize)
			for i := range reqs {
				reqs[i] = request("key "+strconv.Itoa(i), run*len(reqs)+i)
				if fresh {
					reqs[i].Key = fmt.Sprint("key ", run, " ", i)
				}
			}
			return st.Claim(b.Context(), reqs)
		}
		claimAndComplete := func(fresh bool) {
			var ss []store.Settlement
			for _, res := range claim(fresh) {
				if res.State != store.Claimed {
					b.Fatalf("state %d, error %v", res.State, res.Err)
				}
				ss = append(ss, settlement(res.Entry, store.OpComplete))
			}
			if errs := st.Settle(b.Context(), ss); errs != nil {
				b.Fatal(errs[0])
			}
		}
		b.Run("fresh", func(b *testing.B) {
			for n := 0; n < b.N; n += redisstore.MaxBatchSize {
				claimAndComplete(true)
			}
		})
		claimAndComplete(false)
		b.Run("duplicate", func(b *testing.B) {
			for n := 0; n < b.N; n += redisstore.MaxBatchSize {
				claim(false)
			}
		})
	})
}
