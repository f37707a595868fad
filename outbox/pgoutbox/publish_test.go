//go:build servers

package pgoutbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

func TestEventsCommitWithTheTransaction(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	undone := errors.New("undone")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if err := o.Publish(t.Context(), tx, outbox.Event{Topic: "t"}); err != nil {
			return err
		}
		return undone
	})
	if !errors.Is(err, undone) {
		t.Fatal(err)
	}
	if n := ask[int](t, pool, `SELECT count(*) FROM `+table); n != 0 {
		t.Errorf("%d rows of a transaction that was rolled back", n)
	}
	publish(t, pool, o, outbox.Event{Topic: "t", Key: []byte("k"), Value: []byte("1")},
		outbox.Event{Topic: "t", Key: []byte("k"), Value: []byte("2")})
	publish(t, pool, o)
	got := ask[string](t, pool, `SELECT string_agg(convert_from(payload, 'UTF8'), ',' ORDER BY seq) FROM `+
		table)
	if got != "1,2" {
		t.Errorf("the rows are %s, want 1,2", got)
	}
}

func TestPublishWritesToTheDefaultTable(t *testing.T) {
	pool := newPool(t, postgres.URL())
	if _, err := pgoutbox.Migrate(t.Context(), pool, ""); err != nil {
		t.Fatal(err)
	}
	topic := unique("t")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return pgoutbox.Publish(t.Context(), tx, outbox.Event{Topic: topic})
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := ask[int](t, pool, `SELECT count(*) FROM outbox WHERE aggregatetype = $1`, topic); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

// The handler's error drops its events. Its success commits them with the completion of its key, once.
func TestEventsOfAHandlerCommitWithItsKey(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	keys := unique("keys")
	if _, err := pgstore.Migrate(t.Context(), pool, keys); err != nil {
		t.Fatal(err)
	}
	store, err := pgstore.New(pool, pgstore.Config{Table: keys})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := idem.New(store, idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	failure := errors.New("not this time")
	task := func() idem.Task {
		return idem.Task{Key: "payment", Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
			tx, err := pgstore.TxFrom(ctx)
			if err != nil {
				return nil, err
			}
			return []byte("ok"), errors.Join(outbox.Publish(o.NewContext(ctx, tx), outbox.Event{Topic: "t"}),
				failure)
		})}
	}
	if out := engine.Do(t.Context(), task()); !errors.Is(out.Err, failure) {
		t.Fatalf("%v: %v", out.Kind, out.Err)
	}
	if n := ask[int](t, pool, `SELECT count(*) FROM `+table); n != 0 {
		t.Errorf("%d events of a handler that failed", n)
	}
	failure = nil
	for _, want := range []idem.Kind{idem.Executed, idem.Replayed} {
		if out := engine.Do(t.Context(), task()); out.Kind != want {
			t.Fatalf("%v, want %v: %v", out.Kind, want, out.Err)
		}
		if n := ask[int](t, pool, `SELECT count(*) FROM `+table); n != 1 {
			t.Errorf("%v: %d events, want 1", want, n)
		}
	}
}

func TestInvalidEventsAreErrors(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{MaxSize: 1000})
	missing, err := pgoutbox.New(pgoutbox.Config{Table: "nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	const id = "019a7c54-0000-7000-8000-000000000001"
	publish(t, pool, o, outbox.Event{ID: id, Topic: "t"})
	for name, c := range map[string]struct {
		o     *pgoutbox.Outbox
		event outbox.Event
		is    error
		says  string
	}{
		"no topic": {o, outbox.Event{}, outbox.ErrInvalidEvent, "no topic"},
		"too large": {o, outbox.Event{Topic: "t", Value: make([]byte, 1000)}, outbox.ErrInvalidEvent,
			"the maximum is 1000"},
		"an ID used before": {o, outbox.Event{ID: strings.ToUpper(id), Topic: "t"}, nil,
			"was published before"},
		"no table": {missing, outbox.Event{Topic: "t"}, nil, "run pgoutbox.Migrate"},
	} {
		t.Run(name, func(t *testing.T) {
			err := pgx.BeginFunc(t.Context(), pool,
				func(tx pgx.Tx) error { return c.o.Publish(t.Context(), tx, c.event) })
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want one that says %q", err, c.says)
			}
		})
	}
	if n := ask[int](t, pool, `SELECT count(*) FROM `+table); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

// An event that Publish accepts is not too large for the relay, whatever its headers become in JSON.
func TestEventsThatArePublishedAreNotTooLargeForTheRelay(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{MaxSize: relay.MaxSize})
	for text, inJSON := range map[string]int{"\x01": 6, "<": 1} {
		largest := (relay.MaxSize - 1000) / inJSON
		for _, n := range []int{largest, largest + 1000} {
			e := outbox.Event{Topic: "t", Key: []byte(text), Headers: []outbox.Header{{Key: "h", Value: []byte(strings.Repeat(text, n))}}}
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return o.Publish(t.Context(), tx, e) })
			if (err != nil) != (n > largest) || err != nil && !errors.Is(err, outbox.ErrInvalidEvent) {
				t.Errorf("%d times %q: %v", n, text, err)
			}
		}
	}
	run(t, pool, o, &sender{}, pgoutbox.RelayConfig{MaxAttempts: 1})
	eventually(t, pool, 0, pendingIn(table))
	if parked := ask[int](t, pool, `SELECT count(*) FROM `+table+` WHERE parked_at IS NOT NULL`); parked != 0 {
		t.Errorf("%d events are parked", parked)
	}
}

// The roles of docs/outbox.md are sufficient for writers and relays, in any schema.
func TestRolesInDocsAreSufficient(t *testing.T) {
	admin := newPool(t, postgres.URL())
	schema := unique("Schema")
	table := schema + ".Out-box"
	for _, sql := range []string{
		`CREATE SCHEMA "%[1]s"`, `CREATE ROLE "writer%[1]s" LOGIN PASSWORD 'w'`,
		`CREATE ROLE "relay%[1]s" LOGIN PASSWORD 'r'`,
		`GRANT USAGE ON SCHEMA "%[1]s" TO "writer%[1]s", "relay%[1]s"`,
	} {
		if _, err := admin.Exec(t.Context(), fmt.Sprintf(sql, schema)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pgoutbox.Migrate(t.Context(), admin, table); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`GRANT INSERT ON "%[1]s"."Out-box" TO "writer%[1]s"`,
		`GRANT SELECT, UPDATE, DELETE ON "%[1]s"."Out-box" TO "relay%[1]s"`,
		`GRANT SELECT ON "%[1]s"."Out-box_migrations" TO "relay%[1]s"`,
	} {
		if _, err := admin.Exec(t.Context(), fmt.Sprintf(sql, schema)); err != nil {
			t.Fatal(err)
		}
	}
	o, err := pgoutbox.New(pgoutbox.Config{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	writer := newPool(t, postgres.URLOf("writer"+schema, "w", pgserver.Database))
	reader := newPool(t, postgres.URLOf("relay"+schema, "r", pgserver.Database))
	run(t, reader, o, &sender{}, pgoutbox.RelayConfig{Retention: time.Millisecond,
		StatsInterval: 10 * time.Millisecond})
	for range 2 {
		publish(t, writer, o, outbox.Event{Topic: "t"})
		eventually(t, admin, 0, fmt.Sprintf(`SELECT count(*) FROM "%s"."Out-box"`, schema))
	}
	err = pgx.BeginFunc(t.Context(), reader,
		func(tx pgx.Tx) error { return o.Publish(t.Context(), tx, outbox.Event{Topic: "t"}) })
	if err == nil || !strings.Contains(err.Error(), "the role needs") {
		t.Errorf("%v", err)
	}
	failed, said := make(chan error, 1), new(lockedBuffer)
	run(t, writer, o, &sender{}, pgoutbox.RelayConfig{
		StatsInterval: 10 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(said, nil)),
		Stats: func(s pgoutbox.Stats) {
			select {
			case failed <- s.LastFailure:
			default:
			}
		},
	})
	for err := range failed {
		if err != nil && strings.Contains(err.Error(), "permission denied") {
			if !strings.Contains(err.Error(), "the role needs") {
				t.Errorf("a relay with the role of writers: %v", err)
			}
			break
		}
	}
	if !strings.Contains(said.String(), "the table could not be checked") || strings.Count(said.String(), "permission denied") !=
		strings.Count(said.String(), "the role needs") {
		t.Errorf("the log does not name the remedy:\n%s", said)
	}
}

func TestConfigurationsAreChecked(t *testing.T) {
	for _, cfg := range []pgoutbox.Config{{Table: "1st"}, {Table: "a.b.c"}, {MaxSize: -1}, {MaxSize: relay.MaxSize + 1}} {
		if _, err := pgoutbox.New(cfg); !errors.Is(err, pgoutbox.ErrInvalidConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	pool := newPool(t, postgres.URL())
	o, _ := newOutbox(t, pool, pgoutbox.Config{})
	for _, cfg := range []pgoutbox.RelayConfig{{Batch: -1}, {Workers: -1}, {MaxAttempts: -1},
		{RetryDelay: -1}, {PollInterval: -1}, {Retention: -2}} {
		if _, err := pgoutbox.NewRelay(o, pool, &sender{}, cfg); !errors.Is(err, pgoutbox.ErrInvalidConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	if _, err := pgoutbox.NewRelay(o, nil, &sender{}, pgoutbox.RelayConfig{}); !errors.Is(err,
		pgoutbox.ErrInvalidConfig) {
		t.Error(err)
	}
}

func TestTableIsCreatedOnlyByMigrate(t *testing.T) {
	pool := newPool(t, postgres.URL())
	table := unique("outbox")
	o, err := pgoutbox.New(pgoutbox.Config{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Check(t.Context(), pool); !errors.Is(err, pgoutbox.ErrNoTable) {
		t.Errorf("before: %v", err)
	}
	r, err := pgoutbox.NewRelay(o, pool, &sender{}, pgoutbox.RelayConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); !errors.Is(err, pgoutbox.ErrNoTable) {
		t.Errorf("a relay without a table: %v", err)
	}
	for _, want := range []int{1, 0} {
		applied, err := pgoutbox.Migrate(t.Context(), pool, table)
		if err != nil || len(applied) != want {
			t.Errorf("%v applied, want %d: %v", applied, want, err)
		}
	}
	if err := o.Check(t.Context(), pool); err != nil {
		t.Error(err)
	}
	for version, want := range map[int]error{0: pgoutbox.ErrTableOlder, 99: pgoutbox.ErrTableNewer} {
		if _, err := pool.Exec(t.Context(),
			fmt.Sprintf(`UPDATE %s_migrations SET version = %d`, table, version)); err != nil {
			t.Fatal(err)
		}
		if err := o.Check(t.Context(), pool); !errors.Is(err, want) {
			t.Errorf("at version %d: %v, want %v", version, err, want)
		}
	}
}
