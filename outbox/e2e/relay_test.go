package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/outbox/pgoutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// The environment of a relay that is there to be killed: the test binary, run again.
const (
	tableEnv = "IDEMSK_TEST_TABLE"
	urlEnv   = "IDEMSK_TEST_URL"
	kafkaEnv = "IDEMSK_TEST_KAFKA"
)

// smallBatch has relays come to many places where they can be killed.
const smallBatch = 40

// relayUntilKilled says on standard output when it begins.
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
	r, err := pgoutbox.NewRelay(box, pool, producer, pgoutbox.RelayConfig{Batch: smallBatch, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	fmt.Println("relaying")
	return r.Run(ctx)
}

// relayProcess is a relay that is at work.
type relayProcess struct {
	*testing.T
	cmd *exec.Cmd
}

func startRelay(t *testing.T, table string) *relayProcess {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), tableEnv+"="+table, urlEnv+"="+postgres.URL(), kafkaEnv+"="+kafka.Addr())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &relayProcess{T: t, cmd: cmd}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		p.kill()
		t.Fatalf("the relay ended before it was at work: %v", err)
	}
	return p
}

func (p *relayProcess) kill() {
	if err := p.cmd.Process.Kill(); err != nil {
		p.Error(err)
	}
	_ = p.cmd.Wait() // it was killed
}

// killRelays runs a relay, kills it at a random moment, and runs the next, until over is closed. It returns how many were killed,
// and of how many there was work left.
func killRelays(t *testing.T, random *rand.Rand, pool *pgxpool.Pool, table string, over <-chan struct{}) (killed, atWork int) {
	t.Helper()
	for {
		p := startRelay(t, table)
		select {
		case <-over:
			p.kill()
			return killed, atWork
		case <-time.After(time.Duration(random.Int64N(int64(300 * time.Millisecond)))):
		}
		p.kill()
		killed++
		if pending(t, pool, table) > 0 {
			atWork++
		}
	}
}

// waitUntilPublished waits until nothing is pending.
func waitUntilPublished(t *testing.T, pool *pgxpool.Pool, table string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for pending(t, pool, table) > 0 {
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatalf("%d events are still pending after %v", pending(t, pool, table), patience)
		}
	}
}

// forget leaves the last events as a relay does that dies when it has sent them: they come again behind all others.
func forget(t *testing.T, pool *pgxpool.Pool, table string) {
	t.Helper()
	tag, err := pool.Exec(t.Context(), `UPDATE `+table+` SET published_at = NULL WHERE seq > (SELECT max(seq) FROM `+table+`) - $1`, smallBatch)
	if err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%v, %v", tag, err)
	}
}

func pending(t *testing.T, pool *pgxpool.Pool, table string) int {
	t.Helper()
	return count(t, pool, `SELECT count(*) FROM `+table+` WHERE published_at IS NULL AND set_aside_at IS NULL`)
}

func count(t *testing.T, pool *pgxpool.Pool, sql string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}
