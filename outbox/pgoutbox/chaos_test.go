//go:build rest

package pgoutbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/internal/test/faultproxy"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/tally"
	"github.com/idemsk/idemsk/internal/test/testbed"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// accounts counts the events of each key, as an account's row does: a later event has a higher number.
type accounts struct {
	pool  *pgxpool.Pool
	table string
	keys  int
	seed  tally.Seed
}

func newAccounts(t *testing.T, pool *pgxpool.Pool, keys int) *accounts {
	t.Helper()
	a := &accounts{pool: pool, table: unique("accounts"), keys: keys, seed: tally.NewSeed(t)}
	if _, err := pool.Exec(t.Context(), `CREATE TABLE `+a.table+
		` AS SELECT id, 0 AS n FROM generate_series(0, `+strconv.Itoa(keys-1)+`) AS id`); err != nil {
		t.Fatal(err)
	}
	return a
}

var errUndone = errors.New("undone")

// credit publishes the next event of some key. One transaction of ten is rolled back.
func (a *accounts) credit(ctx context.Context, o *pgoutbox.Outbox, topic string, random *rand.Rand) error {
	key, undo := random.IntN(a.keys), random.IntN(10) == 0
	err := pgx.BeginFunc(ctx, a.pool, func(tx pgx.Tx) error {
		var n int
		if err := tx.QueryRow(ctx, `UPDATE `+a.table+` SET n = n + 1 WHERE id = $1 RETURNING n`,
			key).Scan(&n); err != nil {
			return err
		}
		if err := o.Publish(ctx, tx, outbox.Event{Topic: topic, Key: strconv.AppendInt(nil, int64(key), 10),
			Value: strconv.AppendInt(nil, int64(n), 10)}); err != nil {
			return err
		}
		if undo {
			return errUndone
		}
		return nil
	})
	if errors.Is(err, errUndone) {
		return nil
	}
	return err
}

// creditWhile makes at least least concurrent credits while f runs.
func (a *accounts) creditWhile(t *testing.T, o *pgoutbox.Outbox, topic string, least int, happens func()) {
	t.Helper()
	var made atomic.Int64
	var over atomic.Bool
	var group sync.WaitGroup
	for worker := range 4 {
		random := a.seed.Rand(fmt.Sprint("credits ", worker))
		group.Go(func() {
			for int(made.Add(1)) <= least || !over.Load() {
				if err := a.credit(t.Context(), o, topic, random); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	happens()
	over.Store(true)
	group.Wait()
}

// verify reads the topic until all committed events are there and checks the order of each key's first
// records.
func (a *accounts) verify(t *testing.T, topic string) {
	t.Helper()
	want := ask[int](t, a.pool, `SELECT sum(n) FROM `+a.table)
	r := newReader(t, topic)
	r.ids(t, want)
	last := make(map[string]int)
	ids := make(map[string]string)
	repeats := 0
	for _, record := range r.all {
		id, key := idOf(record), string(record.Key)
		n, err := strconv.Atoi(string(record.Value))
		if err != nil {
			t.Fatal(err)
		}
		of := key + "/" + string(record.Value)
		switch before, seen := ids[of]; {
		case seen && before != id:
			t.Fatalf("event %s of key %s has two IDs", record.Value, key)
		case seen:
			repeats++
			continue
		}
		ids[of] = id
		if n != last[key]+1 {
			t.Fatalf("key %s: event %d comes after event %d", key, n, last[key])
		}
		last[key] = n
	}
	if len(ids) != want {
		t.Errorf("%d events have come, want %d", len(ids), want)
	}
	t.Logf("%d events, %d repeats", want, repeats)
}

// Relay processes are killed, and relays in this process are stopped, at random moments, while others
// publish.
func TestKilledRelaysLoseNothingAndKeepOrder(t *testing.T) {
	const kills, stops = 12, 12
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	topic := newTopic(t, 3)
	a := newAccounts(t, pool, 50)
	cfg := pgoutbox.RelayConfig{Batch: testbed.SmallBatch, Logger: quiet}
	a.creditWhile(t, o, topic, 1000, func() {
		var group sync.WaitGroup
		group.Go(func() {
			random := a.seed.Rand("kills")
			for range kills {
				worker := servers.StartRelay(t, table)
				wait(time.Duration(100+random.IntN(300)) * time.Millisecond)
				worker.Kill()
			}
		})
		group.Go(func() {
			random := a.seed.Rand("stops")
			for range stops {
				stop := run(t, pool, o, newProducer(t, relay.Config{}), cfg)
				wait(time.Duration(random.IntN(300)) * time.Millisecond)
				stop()
			}
		})
		group.Wait()
	})
	run(t, pool, o, newProducer(t, relay.Config{}), cfg)
	run(t, pool, o, newProducer(t, relay.Config{}), cfg)
	eventually(t, pool, 0, pendingIn(table))
	a.verify(t, topic)
}

// wait waits for a random time.
func wait(d time.Duration) { <-time.After(d) }

func TestKafkaOutagesLoseNothingAndKeepOrder(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	topic := newTopic(t, 3)
	a := newAccounts(t, pool, 20)
	network := faultproxy.Start(t, servers.Kafka(t).Addr())
	toNetwork := kgo.Dialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
		// whatever address the broker advertises
		return new(net.Dialer).DialContext(ctx, "tcp", network.Addr())
	})
	producer := newProducer(t, relay.Config{Options: []kgo.Opt{toNetwork}, Timeout: 700 * time.Millisecond})
	run(t, pool, o, producer, pgoutbox.RelayConfig{Batch: testbed.SmallBatch})
	a.creditWhile(t, o, topic, 1000, func() { disturb(t, a.seed.Rand("network"), network) })
	eventually(t, pool, 0, pendingIn(table))
	a.verify(t, topic)
	if n := ask[int](t, pool, `SELECT max(attempts) FROM `+table); n != 0 {
		t.Errorf("%d attempts are charged", n)
	}
}

// disturb makes Kafka unavailable in several ways, for less and for more than the producer's timeout.
func disturb(t *testing.T, random *rand.Rand, network *faultproxy.Proxy) {
	t.Helper()
	for n := range 6 { // connections break or become silent
		wait(time.Duration(50+random.IntN(100)) * time.Millisecond)
		if n%2 == 0 {
			network.New(faultproxy.Refused)
			network.Existing(faultproxy.Reset)
		} else {
			network.New(faultproxy.Silent)
			network.Existing(faultproxy.Silent)
		}
		wait(time.Duration(random.IntN(1200)) * time.Millisecond)
		network.New(faultproxy.None)
	}
	for range 2 { // the broker is stopped
		wait(time.Duration(50+random.IntN(100)) * time.Millisecond)
		if err := servers.Kafka(t).Freeze(); err != nil {
			t.Fatal(err)
		}
		wait(1200 * time.Millisecond)
		if err := servers.Kafka(t).Thaw(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDatabaseCrashesLoseNothingAndKeepOrder(t *testing.T) {
	server := testkit.Run(t, pgserver.Start, pgserver.Config{})
	pool := newPool(t, server.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	topic := newTopic(t, 3)
	a := newAccounts(t, pool, 20)
	a.creditWhile(t, o, topic, 2000, func() {})
	run(t, pool, o, newProducer(t, relay.Config{}), pgoutbox.RelayConfig{Batch: testbed.SmallBatch})
	run(t, pool, o, newProducer(t, relay.Config{}), pgoutbox.RelayConfig{Batch: testbed.SmallBatch})
	for n, end := range []func() error{server.Crash, server.Stop, server.Crash} {
		eventually(t, pool, 1, `SELECT (count(*) > $1)::int FROM `+table+` WHERE published_at IS NOT NULL`,
			100+400*n)
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		pool.Reset()
	}
	eventually(t, pool, 0, pendingIn(table))
	a.verify(t, topic)
}

// Events that only the broker can reject: a record too large for its topic, a missing topic, and a record
// without a key in a compacted topic.
func TestRejectedEventsAreParked(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	small, compacted, missing := newTopic(t, 1, "max.message.bytes", "5000"), newTopic(t, 1, "cleanup.policy",
		"compact"), unique("missing")
	var events []outbox.Event
	for i := range 300 {
		value := fmt.Append(nil, i, "-")
		if i == 150 {
			value = random(8000)
		}
		events = append(events, outbox.Event{Topic: small, Key: fmt.Append(nil, i%2), Value: value})
	}
	events = append(events, outbox.Event{Topic: missing, Key: []byte("0"), Value: []byte("a")},
		outbox.Event{Topic: missing, Key: []byte("0"), Value: []byte("b")},
		outbox.Event{Topic: compacted, Value: []byte("no key")},
		outbox.Event{Topic: compacted, Key: []byte("k"), Value: []byte("a key")})
	publish(t, pool, o, events...)
	run(t, pool, o, newProducer(t, relay.Config{}),
		pgoutbox.RelayConfig{MaxAttempts: 2, RetryDelay: 50 * time.Millisecond,
			PollInterval: 20 * time.Millisecond})
	eventually(t, pool, 0, pendingIn(table))
	for topic, want := range map[string]int{small: 1, missing: 2, compacted: 1} {
		if n := ask[int](t, pool, `SELECT count(*) FROM `+table+
			` WHERE parked_at IS NOT NULL AND attempts = 2 AND aggregatetype = $1`, topic); n != want {
			t.Errorf("%d events to %s are parked, want %d", n, topic, want)
		}
	}
	r := newReader(t, small, compacted)
	r.ids(t, 300)
	next := map[string]int{"0": 0, "1": 1}
	for _, record := range r.all {
		if record.Topic != small {
			continue
		}
		key := string(record.Key)
		if next[key] == 150 {
			next[key] += 2 // it was parked
		}
		if want := fmt.Sprint(next[key], "-"); string(record.Value) != want {
			t.Fatalf("key %s: %s came, want %s", key, record.Value, want)
		}
		next[key] += 2
	}
	// The topic is created, and the parked events are requeued.
	createTopic(t, missing, 1)
	rows, err := pool.Query(t.Context(), `SELECT id::text FROM `+table+` WHERE aggregatetype = $1`, missing)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if n, err := o.Requeue(t.Context(), pool, ids...); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	late := newReader(t, missing)
	late.ids(t, 2)
	if got := []string{string(late.all[0].Value), string(late.all[1].Value)}; !slices.Equal(got,
		[]string{"a", "b"}) {
		t.Errorf("%v came", got)
	}
}

// random returns bytes that can't be compressed.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it never fails
	return b
}
