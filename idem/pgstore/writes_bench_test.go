//go:build servers

package pgstore_test

import (
	"context"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
	"github.com/idemsk/idemsk/internal/test/storebench"
)

const (
	insertKey = `INSERT INTO processed VALUES ($1) ON CONFLICT DO NOTHING RETURNING true`
	book      = `UPDATE accounts SET balance = balance + 1 WHERE id = $1`
	bookIfNew = `WITH new AS (` + insertKey + `) UPDATE accounts SET balance = balance + 1 FROM new WHERE id = $2`
	bookMany  = `UPDATE accounts SET balance = balance + n
		FROM (SELECT unnest($1::text[]) AS of, count(*) AS n GROUP BY of) b WHERE id = of`
	concurrently = 256 // handlers
)

// BenchmarkWrites measures records whose effect is one UPDATE of one of 1,000 accounts, with fsync on, on this
// host and at a distance of 1 ms. One operation is one record. The loops are what a team writes by hand: INSERT
// … ON CONFLICT DO NOTHING and the booking, of each record or of a poll of 500 in one transaction.
func BenchmarkWrites(b *testing.B) {
	for _, roundTrip := range []time.Duration{0, time.Millisecond} {
		b.Run(roundTrip.String(), func(b *testing.B) { writes(b, roundTrip) })
	}
}

func writes(b *testing.B, roundTrip time.Duration) {
	for _, way := range []struct {
		name string
		run  func(b *testing.B, pool *pgxpool.Pool)
	}{
		{"loop, a transaction for each poll", func(b *testing.B, pool *pgxpool.Pool) { loop(b, pool, storebench.Polled) }},
		{"loop, a transaction for each record", func(b *testing.B, pool *pgxpool.Pool) { loop(b, pool, 1) }},
		{"TxFrom", func(b *testing.B, pool *pgxpool.Pool) {
			stream(b, pool, func(ctx context.Context, account string) error {
				tx, err := pgstore.TxFrom(ctx)
				if err == nil {
					_, err = tx.Exec(ctx, book, account)
				}
				return err
			})
		}},
		{"Enlist", func(b *testing.B, pool *pgxpool.Pool) {
			stream(b, pool, func(ctx context.Context, account string) error {
				return pgstore.EnlistRows(ctx, 1, nil, book, account)
			})
		}},
		{"bulk, TxFrom", bulk},
		{"no effect", func(b *testing.B, pool *pgxpool.Pool) {
			stream(b, pool, func(context.Context, string) error { return nil })
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			server := ownServer(b, map[string]string{"fsync": "on", "shared_buffers": "256MB"})
			url := server.URL()
			if roundTrip > 0 {
				url = faultproxy.Distance(b, url, roundTrip)
			}
			pool := newPool(b, url)
			execute(b, pool, `CREATE TABLE processed (key text PRIMARY KEY)`)
			execute(b, pool, `CREATE TABLE accounts AS SELECT n::text AS id, 0::bigint AS balance
				FROM generate_series(0, $1::int - 1) n`, storebench.Lanes)
			execute(b, pool, `ALTER TABLE accounts ADD PRIMARY KEY (id)`)
			before := cpu(b)
			way.run(b, pool)
			b.StopTimer()
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N)/1e3, "cpu-us/op")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			if n := ask[int](b, pool, `SELECT sum(balance) FROM accounts`); n != b.N && way.name != "no effect" {
				b.Errorf("%d bookings of %d records", n, b.N)
			}
		})
	}
}

// loop books in transactions of a number of records.
func loop(b *testing.B, pool *pgxpool.Pool, size int) {
	b.ResetTimer()
	for n := 0; n < b.N; n += size {
		var batch pgx.Batch
		for i := n; i < min(n+size, b.N); i++ {
			batch.Queue(bookIfNew, "key "+strconv.Itoa(i), strconv.Itoa(i%storebench.Lanes))
		}
		if err := pool.SendBatch(b.Context(), &batch).Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// bulk books in the transactions of the calls of a bulk handler, by one statement each.
func bulk(b *testing.B, pool *pgxpool.Pool) {
	scheduled(b, pool, idem.SchedulerConfig{Bulk: func(ctx context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
		booked := make([]string, len(items))
		for i, it := range items {
			booked[i] = it.Lane
		}
		tx, err := pgstore.TxFrom(ctx)
		if err == nil {
			_, err = tx.Exec(ctx, bookMany, booked)
		}
		return make([]idem.BulkResult, len(items)), err
	}}, nil)
}

// stream books with handlers of one record.
func stream(b *testing.B, pool *pgxpool.Pool, handle func(ctx context.Context, account string) error) {
	scheduled(b, pool, idem.SchedulerConfig{Concurrency: concurrently}, handle)
}

// scheduled books with a scheduler, in a lane for each account.
func scheduled(b *testing.B, pool *pgxpool.Pool, cfg idem.SchedulerConfig,
	handle func(ctx context.Context, account string) error) {
	engine := idem.Config{CommitWindow: storebench.Polled}
	storebench.Stream(b, newStore(b, pool, pgstore.Config{}), engine, cfg, handle)
}

// cpu returns the processor time of this process.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
