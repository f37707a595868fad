package e2e_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/pgledger"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

const ledger = pgledger.Ledger("ledger")

// On PostgreSQL and Kafka, with relays that are killed: the second consumer counts what the ledger has, each event once and in
// its account's order.
func TestEachCreditIsCountedOnceOnPostgreSQL(t *testing.T) {
	const n = 4000
	pool := newPool(t)
	box := migrate(t, pool)
	brokers := []string{kafka.Addr()}
	createTopic(t, brokers, payments, 4)
	createTopic(t, brokers, credited, 3)
	made := producePayments(t, brokers, n)

	first := newSource(t, brokers, payments, bookkeeper(t, pool, box))
	tally := newBooks()
	second := newSource(t, brokers, credited, tally.consumer(t))
	booked, counted := make(chan struct{}), make(chan bool, 1)
	go func() {
		defer close(booked)
		first.deliver(func() bool { return first.records >= n })
	}()
	go func() { counted <- second.deliver(func() bool { return tally.len() >= n }) }()
	killed, atWork := killRelays(t, pool, pgoutbox.DefaultTable, booked)
	last := startRelay(t, pgoutbox.DefaultTable)
	defer last.kill()
	if !<-counted {
		t.FailNow()
	}

	t.Logf("%d relays were killed, %d with events left; %d batches of payments and %d of events came again, %d records of %d events",
		killed, atWork, first.again, second.again, second.records, n)
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
	tally.verify(t, made, balances)
}

func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(postgres.URL())
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

// migrate makes the tables.
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

// bookkeeper returns the first consumer. It books as the example function does.
func bookkeeper(t *testing.T, pool *pgxpool.Pool, box *pgoutbox.Outbox) *msk.Consumer {
	t.Helper()
	store, err := pgstore.NewTx(pool, pgstore.TxConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return newConsumer(t, store, idem.Config{}, paymentKey(t), func(ctx context.Context, r msk.Record) ([]byte, error) {
		return store.Handler(box.Handler(func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			var p payment
			if err := json.Unmarshal(r.Value, &p); err != nil {
				return nil, idem.Permanent(err)
			}
			if _, err := ledger.Add(ctx, tx, p.ledgerID(), p.Amount); err != nil {
				return nil, err
			}
			e, err := p.event()
			if err != nil {
				return nil, err
			}
			if err := outbox.Publish(ctx, e); err != nil {
				return nil, err
			}
			return nil, mayFail()
		})).Handle(ctx)
	})
}
