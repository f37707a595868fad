//go:build servers

package pgstore_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
)

// durable returns a pool of a server that writes to disk at every COMMIT, like a production server.
func durable(b *testing.B) *pgxpool.Pool {
	b.Helper()
	return newPool(b, ownServer(b, map[string]string{"fsync": "on", "shared_buffers": "256MB"}).URL())
}

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, newStore(b, durable(b), pgstore.Config{}))
}

// BenchmarkBatch measures batches of 100. One operation is one entry.
func BenchmarkBatch(b *testing.B) {
	st := newStore(b, durable(b), pgstore.Config{})
	run := 0
	claim := func(fresh bool) []store.ClaimResult {
		run++
		reqs := make([]store.ClaimRequest, pgstore.MaxBatchSize)
		for i := range reqs {
			reqs[i] = request("key "+strconv.Itoa(i), run*len(reqs)+i)
			if fresh {
				reqs[i].Key = fmt.Sprint("key ", run, i)
			}
		}
		return st.Claim(b.Context(), reqs)
	}
	fresh := func(all bool) {
		var ss []store.Settlement
		for _, res := range claim(all) {
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
		for n := 0; n < b.N; n += pgstore.MaxBatchSize {
			fresh(true)
		}
	})
	fresh(false)
	b.Run("duplicate", func(b *testing.B) {
		for n := 0; n < b.N; n += pgstore.MaxBatchSize {
			claim(false)
		}
	})
}

// BenchmarkTransactions measures whole tasks with an engine. The handler executes one statement.
func BenchmarkTransactions(b *testing.B) {
	pool := durable(b)
	execute(b, pool, `CREATE TABLE effects (n bigint)`)
	st := newStore(b, pool, pgstore.Config{})
	engine, err := idem.New(st, idem.Config{})
	if err != nil {
		b.Fatal(err)
	}
	handler := txHandler(func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		_, err := tx.Exec(ctx, `INSERT INTO effects VALUES (1)`)
		return nil, err
	})
	do := func(b *testing.B, key string, want idem.Kind) {
		if out := engine.Do(b.Context(), idem.Task{Key: key, Handler: handler}); out.Kind != want {
			b.Errorf("%v: %v", out.Kind, out.Err)
		}
	}
	next := func() string { return fmt.Sprint("key ", names.Add(1)) }
	b.Run("fresh", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			do(b, next(), idem.Executed)
		}
	})
	b.Run("fresh, 8 at once", func(b *testing.B) {
		b.SetParallelism(4) // with GOMAXPROCS of 2
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				do(b, next(), idem.Executed)
			}
		})
	})
	b.Run("duplicate", func(b *testing.B) {
		do(b, "duplicate", idem.Executed)
		b.ReportAllocs()
		for b.Loop() {
			do(b, "duplicate", idem.Replayed)
		}
	})
	b.Run("contended", func(b *testing.B) {
		held := st.Claim(b.Context(), []store.ClaimRequest{request("contended", 1)})[0]
		if held.State != store.Claimed {
			b.Fatal(held.Err)
		}
		for b.Loop() {
			if res := st.Claim(b.Context(),
				[]store.ClaimRequest{request("contended", 2)})[0]; res.State != store.ClaimInFlight {
				b.Fatalf("state %d, error %v", res.State, res.Err)
			}
		}
		st.Settle(b.Context(), []store.Settlement{settlement(held.Entry, store.OpRelease)})
	})
}

// BenchmarkPrune measures Prune with a limit of 1,000. One operation is one entry.
func BenchmarkPrune(b *testing.B) {
	st := newStore(b, durable(b), pgstore.Config{})
	pool := st.Pool()
	execute(b, pool, `INSERT INTO `+st.Table()+` SELECT 'k' || n, 'STARTED', 1, 'o', now(), NULL, 1, NULL, NULL, 0, NULL, NULL, NULL, '', now(), now(),
		now() - interval '1 second' FROM generate_series(1, $1::int) n`, b.N)
	b.ResetTimer()
	for n := 0; n < b.N; {
		deleted, err := st.Prune(context.Background(), 1000)
		if err != nil || deleted == 0 {
			b.Fatalf("%d deleted, %v", deleted, err)
		}
		n += deleted
	}
	b.ReportMetric(float64(time.Second)/float64(b.Elapsed())*float64(b.N), "entries/s")
}
