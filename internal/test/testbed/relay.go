package testbed

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/outbox/pgoutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// The environment of a relay process, which is the test binary.
const (
	tableEnv = "IDEMSK_TEST_TABLE"
	urlEnv   = "IDEMSK_TEST_URL"
	kafkaEnv = "IDEMSK_TEST_KAFKA"
)

// SmallBatch is a batch size that gives a relay many points at which it can be killed.
const SmallBatch = 40

// relayUntilKilled runs a relay. It prints a line when it starts.
func relayUntilKilled() int {
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
	box, err := pgoutbox.New(pgoutbox.Config{Table: os.Getenv(tableEnv)})
	if err != nil {
		return err
	}
	r, err := pgoutbox.NewRelay(box, pool, producer,
		pgoutbox.RelayConfig{Batch: SmallBatch, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	fmt.Println("relaying")
	return r.Run(ctx)
}

// Relay is a relay in a process of its own. The caller kills it.
type Relay struct {
	tb  testing.TB
	cmd *exec.Cmd
}

// StartRelay starts a relay for a table and waits until it runs.
func (s *Servers) StartRelay(tb testing.TB, table string) *Relay {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), os.Args[0]) //nolint:gosec // this program, run again
	cmd.Env = append(os.Environ(), tableEnv+"="+table, urlEnv+"="+s.Postgres.URL(),
		kafkaEnv+"="+s.Kafka(tb).Addr())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	r := &Relay{tb: tb, cmd: cmd}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		r.Kill()
		tb.Fatalf("the relay ended before it was at work: %v", err)
	}
	return r
}

// Kill kills the relay.
func (r *Relay) Kill() {
	if err := r.cmd.Process.Kill(); err != nil {
		r.tb.Error(err)
	}
	_ = r.cmd.Wait() // it was killed
}
