package pgoutbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// The account is credited, its event is recorded and the key completes in one transaction.
func ExampleOutbox_NewContext() {
	credit := func(ctx context.Context, engine *idem.Engine) idem.Outcome { // an engine on a pgstore.Store
		box, err := pgoutbox.New(pgoutbox.Config{})
		if err != nil {
			return idem.Outcome{Err: err}
		}
		return engine.Do(ctx, idem.Task{
			Key: "payments#4711",
			Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
				tx, err := pgstore.TxFrom(ctx)
				if err != nil {
					return nil, err
				}
				if _, err := tx.Exec(ctx, `UPDATE accounts SET balance = balance + $2 WHERE id = $1`, "alice",
					10); err != nil {
					return nil, err
				}
				e := outbox.Event{Topic: "accounts", Key: []byte("alice"), Value: []byte(`{"credited":10}`)}
				return nil, outbox.Publish(box.NewContext(ctx, tx), e)
			}),
		})
	}
	_ = credit
}

// A relay is a separate program or a part of another one. Any number may run.
func ExampleRelay() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	producer, err := relay.New(relay.Config{Options: []kgo.Opt{kgo.SeedBrokers("b-1.example.com:9098")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer producer.Close()
	box, err := pgoutbox.New(pgoutbox.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := pgoutbox.NewRelay(box, pool, producer, pgoutbox.RelayConfig{
		Stats: func(s pgoutbox.Stats) {
			slog.Info("outbox", "published", s.Published, "pending", s.Pending, "age", s.OldestAge, "parked",
				s.TotalParked)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := r.Run(ctx); err != nil {
		fmt.Println(err)
	}
}
