//go:build servers

package pgoutbox_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

// newPartitioned creates a database with a partitioned outbox, which has the events that were published
// before.
func newPartitioned(t *testing.T, before ...outbox.Event) (*pgxpool.Pool, *pgoutbox.Outbox) {
	t.Helper()
	name := unique("partitioned")
	if _, err := newPool(t, postgres.URL()).Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	pool := newPool(t, postgres.URLOf(pgserver.User, pgserver.Password, name))
	if _, err := pgoutbox.Migrate(t.Context(), pool, ""); err != nil {
		t.Fatal(err)
	}
	o, err := pgoutbox.New(pgoutbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, pool, o, before...)
	recipe, err := os.ReadFile("partitioned.sql")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), string(recipe)); err != nil {
		t.Fatal(err)
	}
	return pool, o
}

// partitions runs outbox_partitions with partitions of a second that need not be kept, and returns what it
// did. With ahead -1 it makes none.
func partitions(t *testing.T, pool *pgxpool.Pool, ahead int, archive bool) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT outbox_partitions($1, '0', $2, '1 second')`, ahead, archive)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// partitionsUntil runs outbox_partitions until enough returns true.
func partitionsUntil(t *testing.T, pool *pgxpool.Pool, ahead int, what string,
	enough func(lines []string) bool) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(patience); ; <-ticker.C {
		lines := partitions(t, pool, ahead, false)
		if enough(lines) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waiting for %s: the last run says %q", what, lines)
		}
	}
}

// publishInto publishes an event into the oldest partition, whatever the time, and returns the partition's
// name.
func publishInto(t *testing.T, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, topic, value string) (partition string) {
	t.Helper()
	err := db.QueryRow(t.Context(), `INSERT INTO outbox (id, aggregatetype, aggregateid, payload, created_at)
		SELECT gen_random_uuid(), $1, 'k', convert_to($2, 'UTF8'), substring(pg_get_expr(relpartbound, oid) FROM 'FROM \(''(.*?)''\)')::timestamptz
		FROM pg_class WHERE oid = (SELECT min(inhrelid) FROM pg_inherits WHERE inhparent = 'outbox'::regclass AND inhrelid <> 'outbox_rest'::regclass)
		RETURNING tableoid::regclass::text`, topic, value).Scan(&partition)
	if err != nil {
		t.Fatal(err)
	}
	return partition
}

// A transaction that was open when the partition's time was over keeps it, and so does its event.
func TestPartitionOfAnOpenTransactionIsKept(t *testing.T) {
	pool, _ := newPartitioned(t)
	partitions(t, pool, 2, false)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	holder := publishInto(t, tx, "t", "1")
	partitionsUntil(t, pool, -1, "the end of its time", func(lines []string) bool {
		said := fmt.Sprint(lines)
		if strings.Contains(said, "dropped") {
			t.Fatalf("while a transaction is open: %s", said)
		}
		return strings.Contains(said, "kept "+holder+", because the table is in use")
	})
	commitWhileItWaits(t, pool, tx)
	partitionsUntil(t, pool, -1, "the partition to be kept", func(lines []string) bool {
		return slices.Contains(lines, "kept "+holder+", which has events that were not published")
	})
	if n := ask[int](t, pool, `SELECT count(*) FROM outbox`); n != 1 {
		t.Errorf("%d events; want 1", n)
	}
}

// commitWhileItWaits commits a transaction while outbox_partitions waits for it.
func commitWhileItWaits(t *testing.T, pool *pgxpool.Pool, tx pgx.Tx) {
	t.Helper()
	var over atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		for !over.Load() {
			if _, err := pool.Exec(t.Context(),
				`SELECT outbox_partitions(-1, '0', false, '1 second')`); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer group.Wait()
	defer over.Store(true)
	eventually(t, pool, 1, `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'outbox'::regclass`)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// An ID may recur in another partition. What happens to one of its events leaves the other as it is.
func TestIDThatRecursInAnotherPartition(t *testing.T) {
	for name, tc := range map[string]struct {
		retention time.Duration
		rejects   bool
		left      int // rows
	}{
		"marked": {retention: time.Hour, left: 2}, "deleted": {retention: -1, left: 1},
		"pruned": {retention: time.Millisecond, left: 1},
		"parked": {rejects: true, left: 2},
	} {
		t.Run(name, func(t *testing.T) {
			pool, o := newPartitioned(t)
			partitions(t, pool, 2, false)
			_, err := pool.Exec(t.Context(), `WITH parked AS (
					INSERT INTO outbox (id, aggregatetype, created_at, parked_at) VALUES (gen_random_uuid(), 'missing', '2020-01-01', now()) RETURNING id)
				INSERT INTO outbox (id, aggregatetype) SELECT id, 't' FROM parked`)
			if err != nil {
				t.Fatal(err)
			}
			s := sender{reject: func(outbox.Event) bool { return tc.rejects }}
			run(t, pool, o, &s, pgoutbox.RelayConfig{Retention: tc.retention,
				StatsInterval: 10 * time.Millisecond, MaxAttempts: 1})
			eventually(t, pool, 0, pendingIn("outbox"))
			eventually(t, pool, tc.left, `SELECT count(*) FROM outbox`)
			const untouched = `parked_at IS NOT NULL AND published_at IS NULL AND attempts = 0`
			if n := ask[int](t, pool, `SELECT count(*) FROM outbox WHERE aggregatetype = 'missing' AND `+
				untouched); n != 1 {
				t.Errorf("%d parked events are as they were; want 1", n)
			}
		})
	}
}

// Events for the log only are deleted when they are written. An unsent event of the same ID in another
// partition stays.
func TestEventForTheLogOnlyDeletesNoOther(t *testing.T) {
	pool, _ := newPartitioned(t)
	partitions(t, pool, 2, false)
	id := ask[string](t, pool, `INSERT INTO outbox (id, aggregatetype, created_at) VALUES (gen_random_uuid(), 't', '2020-01-01') RETURNING id::text`)
	o, err := pgoutbox.New(pgoutbox.Config{LogOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, pool, o, outbox.Event{ID: id, Topic: "t", Value: []byte("v")})
	if left := ask[string](t, pool, `SELECT coalesce(string_agg(created_at::date::text, ' '), 'none') FROM outbox`); left != "2020-01-01" {
		t.Errorf("left: %s; want the event of 2020-01-01", left)
	}
}

// An archived partition is a table of its own, and its events are not sent again.
func TestArchivedPartition(t *testing.T) {
	pool, o := newPartitioned(t)
	partitions(t, pool, 2, true)
	holder := publishInto(t, pool, "t", "1")
	var s sender
	run(t, pool, o, &s, pgoutbox.RelayConfig{})
	eventually(t, pool, 0, pendingIn("outbox"))
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for ask[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = $1::regclass)`, holder) {
		partitions(t, pool, 2, true)
		<-ticker.C
	}
	if n := ask[int](t, pool, `SELECT count(*) FROM `+holder); n != 1 {
		t.Errorf("the archive has %d events; want 1", n)
	}
	publish(t, pool, o, outbox.Event{Topic: "t", Key: []byte("k"), Value: []byte("2")})
	eventually(t, pool, 0, pendingIn("outbox"))
	if got := s.values("k"); fmt.Sprint(got) != "[1 2]" {
		t.Errorf("%v were sent; want 1 and 2, once each", got)
	}
}
