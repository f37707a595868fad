//go:build servers

package pgoutbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testbed"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

// The servers shared by the tests that do not change them.
var (
	servers  *testbed.Servers
	postgres *pgserver.Server
)

func TestMain(m *testing.M) {
	cfg := pgserver.Config{Settings: map[string]string{"wal_level": "logical"}}
	testbed.Main(m, cfg, func(s *testbed.Servers) { servers, postgres = s, s.Postgres })
}

var names atomic.Int64

// unique returns a unique name.
func unique(prefix string) string { return fmt.Sprint(prefix, names.Add(1)) }

func newPool(tb testing.TB, url string) *pgxpool.Pool {
	tb.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		tb.Fatal(err)
	}
	cfg.MaxConns = 24
	pool, err := pgxpool.NewWithConfig(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

// newOutbox creates an outbox with its table.
func newOutbox(tb testing.TB, pool *pgxpool.Pool, cfg pgoutbox.Config) (o *pgoutbox.Outbox, table string) {
	tb.Helper()
	cfg.Table = unique("outbox")
	if _, err := pgoutbox.Migrate(tb.Context(), pool, cfg.Table); err != nil {
		tb.Fatal(err)
	}
	o, err := pgoutbox.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return o, cfg.Table
}

// publish publishes events in a separate transaction.
func publish(tb testing.TB, pool *pgxpool.Pool, o *pgoutbox.Outbox, events ...outbox.Event) {
	tb.Helper()
	err := pgx.BeginFunc(tb.Context(), pool,
		func(tx pgx.Tx) error { return o.Publish(tb.Context(), tx, events...) })
	if err != nil {
		tb.Fatal(err)
	}
}

var quiet = slog.New(slog.DiscardHandler)

// run runs a relay until stop is called or the test ends.
func run(tb testing.TB, pool *pgxpool.Pool, o *pgoutbox.Outbox, sender pgoutbox.Sender,
	cfg pgoutbox.RelayConfig) (stop func()) {
	tb.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	r, err := pgoutbox.NewRelay(o, pool, sender, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("the relay ended with %v", err)
		}
	})
	tb.Cleanup(stop)
	return stop
}

const patience = 2 * time.Minute

func ask[T any](tb testing.TB, pool *pgxpool.Pool, sql string, args ...any) (answer T) {
	tb.Helper()
	if err := pool.QueryRow(tb.Context(), sql, args...).Scan(&answer); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return answer
}

func execute(tb testing.TB, pool *pgxpool.Pool, sql string) {
	tb.Helper()
	if _, err := pool.Exec(tb.Context(), sql); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// eventually repeats a query until it returns the wanted value.
func eventually(tb testing.TB, pool *pgxpool.Pool, want int, sql string, args ...any) {
	tb.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(patience); ; <-ticker.C {
		got := ask[int](tb, pool, sql, args...)
		if got == want {
			return
		}
		if time.Now().After(end) {
			tb.Fatalf("%s: still %d after %v, want %d", sql, got, patience, want)
		}
	}
}
