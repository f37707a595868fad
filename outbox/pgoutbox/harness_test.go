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
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testbed"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// The servers shared by the tests that do not change them.
var (
	servers  testbed.Servers
	postgres *pgserver.Server
	kafka    *serverproc.Script
)

func TestMain(m *testing.M) {
	cfg := pgserver.Config{Settings: map[string]string{"wal_level": "logical"}}
	testbed.Main(m, cfg, func(s testbed.Servers) { servers, postgres, kafka = s, s.Postgres, s.Kafka })
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

func newProducer(tb testing.TB, cfg relay.Config) *relay.Producer {
	tb.Helper()
	cfg.Options = append(cfg.Options, kgo.SeedBrokers(kafka.Addr()))
	p, err := relay.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
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

func newClient(tb testing.TB, options ...kgo.Opt) *kgo.Client {
	tb.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(kafka.Addr()))...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return client
}

// createTopic creates a topic. settings are pairs of names and values of its configuration.
func createTopic(tb testing.TB, name string, partitions int32, settings ...string) {
	tb.Helper()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	for i := 0; i < len(settings); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = settings[i], &settings[i+1]
		t.Configs = append(t.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(tb.Context(), newClient(tb))
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// newTopic creates a topic and returns its name.
func newTopic(tb testing.TB, partitions int32, settings ...string) string {
	tb.Helper()
	name := unique("topic")
	createTopic(tb, name, partitions, settings...)
	return name
}

const patience = 2 * time.Minute

// reader reads a topic from its start.
type reader struct {
	client *kgo.Client
	all    []*kgo.Record
}

func newReader(tb testing.TB, topics ...string) *reader {
	tb.Helper()
	return &reader{client: newClient(tb, kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.MetadataMinAge(100*time.Millisecond))}
}

// until reads until enough returns true.
func (r *reader) until(tb testing.TB, what string, enough func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	for !enough() {
		fetches := r.client.PollFetches(ctx)
		if ctx.Err() != nil {
			tb.Fatalf("waiting for %s: only %d records after %v", what, len(r.all), patience)
		}
		r.all = append(r.all, fetches.Records()...)
	}
}

// ids reads until it has n distinct events and returns their IDs in the order of their first records.
func (r *reader) ids(tb testing.TB, n int) []string {
	tb.Helper()
	var ids []string
	seen := make(map[string]bool)
	at := 0
	r.until(tb, fmt.Sprint(n, " events"), func() bool {
		for ; at < len(r.all); at++ {
			if id := idOf(r.all[at]); !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
		return len(ids) >= n
	})
	return ids
}

func idOf(r *kgo.Record) string {
	for _, h := range r.Headers {
		if h.Key == outbox.IDHeader {
			return string(h.Value)
		}
	}
	return ""
}

func ask[T any](tb testing.TB, pool *pgxpool.Pool, sql string, args ...any) (answer T) {
	tb.Helper()
	if err := pool.QueryRow(tb.Context(), sql, args...).Scan(&answer); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return answer
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
