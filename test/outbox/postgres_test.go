//go:build rest

package outbox_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/demo/pgledger"
	"github.com/idemsk/idemsk/internal/test/tally"
	"github.com/idemsk/idemsk/internal/test/testbed"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

const ledger = pgledger.Ledger("ledger")

// On PostgreSQL and Kafka, with relays that are killed: the second consumer counts each event of the ledger
// once and in the order of its account.
func TestEachCreditIsCountedOnceOnPostgreSQL(t *testing.T) {
	n := testkit.Size(t, 2000, 4000)
	pool := newPool(t)
	box := migrate(t, pool)
	brokers := []string{servers.Kafka(t).Addr()}
	createTopic(t, brokers, payments, 4)
	createTopic(t, brokers, credited, 3)
	seed := tally.NewSeed(t)
	made := producePayments(t, seed, brokers, n)

	first := tally.NewSource(t, seed, brokers, payments, batchSize,
		bookkeeper(t, pool, box, seed.Faults("first")))
	books := tally.NewBooks()
	startDynamo(t)
	second := tally.NewSource(t, seed, brokers, credited, batchSize,
		function(t, books.Handler(seed.Faults("second"))))
	relaying, relayed := context.WithCancel(t.Context())
	defer relayed()
	booked := beside(t, first.Drain)
	counted := beside(t, func() bool { return second.Follow(relaying) })
	killed, atWork := killRelays(t, seed.Rand("kills"), pool, pgoutbox.DefaultTable, booked.done)
	booked.wait(t)
	last := servers.StartRelay(t, pgoutbox.DefaultTable)
	defer last.Kill()
	waitUntilPublished(t, pool, pgoutbox.DefaultTable)
	forget(t, pool, pgoutbox.DefaultTable)
	waitUntilPublished(t, pool, pgoutbox.DefaultTable)
	relayed()
	counted.wait(t)
	second.WantAll(n + testbed.SmallBatch)

	t.Logf("%d relays were killed, %d with events left; %d batches of payments and %d of events came again, %d records of %d events",
		killed, atWork, first.Again, second.Again, second.Records, n)
	if atWork < 5 {
		t.Errorf("only %d of %d relays were killed with events left", atWork, killed)
	}
	if rows := count(t, pool, `SELECT count(*) FROM `+pgoutbox.DefaultTable); rows != n {
		t.Errorf("%d events were published of %d payments", rows, n)
	}
	balances, err := ledger.Balances(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	wantCounted(t, books, made, balances)
}

func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(servers.Postgres.URL())
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 24
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// migrate creates the tables.
func migrate(t *testing.T, pool *pgxpool.Pool) *pgoutbox.Outbox {
	t.Helper()
	if err := ledger.Create(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if _, err := pgstore.Migrate(t.Context(), pool, pgstore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	if _, err := pgoutbox.Migrate(t.Context(), pool, pgoutbox.DefaultTable); err != nil {
		t.Fatal(err)
	}
	box, err := pgoutbox.New(pgoutbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// bookkeeper returns the first consumer, which books as the example function does.
func bookkeeper(t *testing.T, pool *pgxpool.Pool, box *pgoutbox.Outbox, faults *tally.Faults) *msk.Consumer {
	t.Helper()
	store, err := pgstore.New(pool, pgstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return tally.NewConsumer(t, store, paymentKey(t),
		func(ctx context.Context, r msk.Record) ([]byte, error) {
			var c tally.Credit
			if err := json.Unmarshal(r.Value, &c); err != nil {
				return nil, idem.Permanent(err)
			}
			tx, err := pgstore.TxFrom(ctx)
			if err != nil {
				return nil, err
			}
			if _, err := ledger.Add(ctx, tx, c.LedgerID(), c.Amount); err != nil {
				return nil, err
			}
			e, err := event(&c)
			if err != nil {
				return nil, err
			}
			if err := outbox.Publish(box.NewContext(ctx, tx), e); err != nil {
				return nil, err
			}
			return nil, faults.Fail(c.PaymentID)
		})
}
