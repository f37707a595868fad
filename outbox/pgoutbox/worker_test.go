package pgoutbox_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/outbox/pgoutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// The environment of a worker: the test binary, run again as a relay that is there to be killed.
const (
	workerEnv = "IDEMSK_TEST_WORKER" // the table
	urlEnv    = "IDEMSK_TEST_URL"
	kafkaEnv  = "IDEMSK_TEST_KAFKA"
)

// smallBatch has a relay come to many places where it can be killed.
const smallBatch = 40

func work() int {
	if err := relayForever(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

func relayForever(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv(urlEnv))
	if err != nil {
		return err
	}
	producer, err := relay.New(relay.Config{Options: []kgo.Opt{kgo.SeedBrokers(os.Getenv(kafkaEnv))}})
	if err != nil {
		return err
	}
	o, err := pgoutbox.New(pgoutbox.Config{Table: os.Getenv(workerEnv)})
	if err != nil {
		return err
	}
	r, err := pgoutbox.NewRelay(o, pool, producer, pgoutbox.RelayConfig{Batch: smallBatch, Logger: quiet})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// startWorker starts a relay as a process. The caller kills it.
func startWorker(tb testing.TB, table string) *exec.Cmd {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+table, urlEnv+"="+postgres.URL(), kafkaEnv+"="+kafka.Addr())
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	return cmd
}
