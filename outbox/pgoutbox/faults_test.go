//go:build servers

package pgoutbox_test

import (
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// Rows of other programs than Publish, each with something that can't be sent or that is hard to store. Kafka
// rejects the events of each topic but good. Each is parked after its attempts, with the reason. The others
// are sent once, and so are those behind it.
func TestFaultOfARowIsItsOwn(t *testing.T) {
	const random = `(SELECT decode(string_agg(md5(random()::text), ''), 'hex') FROM generate_series(1, %d))`
	const tooLarge = `repeat('x', %d)`
	for name, row := range map[string]struct{ topic, key, payload, headers, says string }{
		"a topic that Kafka rejects": {topic: `'missing'`, says: "too odd"},
		"a topic of 300 characters":  {topic: `repeat('x', 300)`, says: "too odd"},
		"a topic of 40,000":          {topic: `repeat('x', 40000)`, says: "too odd"},
		"a topic that does not compress": {topic: `encode(` + fmt.Sprintf(random, 500) + `, 'hex')`,
			says: "too odd"},
		"a topic of another script": {topic: `'тема'`, says: "too odd"},
		"a key of 4,000 bytes":      {topic: `'missing'`, key: fmt.Sprintf(random, 250), says: "too odd"},
		"a key of 160,000 bytes":    {topic: `'missing'`, key: fmt.Sprintf(random, 10_000), says: "too odd"},
		"headers that are no list":  {headers: `'{"n": 1}'`, says: "the column headers"},
		"headers that are no bytes": {headers: `'[{"key": "a", "base64": "?"}]'`, says: "the column headers"},
		"a payload that is too large": {payload: fmt.Sprintf(tooLarge, relay.MaxSize) + `::bytea`,
			says: fmt.Sprintf("the maximum is %d", relay.MaxSize)},
		"a topic and a key that are too large": {topic: fmt.Sprintf(tooLarge, relay.MaxSize/2),
			key: fmt.Sprintf(tooLarge, relay.MaxSize/2+1) + `::bytea`, says: fmt.Sprintf("the maximum is %d", relay.MaxSize)},
		"headers that are too large": {headers: `jsonb_build_array(jsonb_build_object('key', 'a', 'value', ` +
			fmt.Sprintf(tooLarge, relay.MaxSize) + `))`, says: fmt.Sprintf("the maximum is %d", relay.MaxSize)},
	} {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t, postgres.URL())
			o, table := newOutbox(t, pool, pgoutbox.Config{})
			sql := func(column, otherwise string) string {
				if column == "" {
					return otherwise
				}
				return column
			}
			topic, key := sql(row.topic, `'good'`), sql(row.key, `'k'::bytea`)
			execute(t, pool, `INSERT INTO `+table+` (id, aggregatetype, aggregateid, payload, headers) VALUES
				('019a7c54-0000-7000-8000-000000000000', `+topic+`, `+key+`, `+sql(row.payload, `'bad'`)+`, `+
				sql(row.headers, `NULL`)+`)`)
			// one event behind it, which can be sent if its topic and key can
			execute(t, pool, `INSERT INTO `+table+` (id, aggregatetype, aggregateid, payload)
				SELECT '019a7c54-0000-7000-8000-000000000001', aggregatetype, aggregateid, 'behind' FROM `+table)
			for i := range 20 {
				publish(t, pool, o, outbox.Event{Topic: "good", Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)})
			}
			kafka := &sender{reject: func(e outbox.Event) bool { return e.Topic != "good" }}
			run(t, pool, o, kafka, pgoutbox.RelayConfig{MaxAttempts: 2, RetryDelay: 10 * time.Millisecond,
				PollInterval: 10 * time.Millisecond})
			eventually(t, pool, 0, pendingIn(table))
			parked := make(map[string]pgoutbox.ParkedEvent)
			for e, err := range o.ListParked(t.Context(), pool, 0) {
				if err != nil {
					t.Fatal(err)
				}
				parked[e.ID] = e
			}
			bad := parked["019a7c54-0000-7000-8000-000000000000"]
			if bad.Attempts != 2 || !strings.Contains(bad.Failure, row.says) || len(bad.Failure) > 1000 {
				t.Errorf("%d attempts, %.200q; want 2, and %q", bad.Attempts, bad.Failure, row.says)
			}
			want := 20
			if topicAndKey := row.topic == "" && len(row.key) == 0; topicAndKey {
				want = 21
			}
			values := kafka.all()
			if len(values) != want || len(parked) != 22-want {
				t.Errorf("%d events were sent, and %d parked; want %d, and the others: %q", len(values),
					len(parked), want, values)
			}
			slices.Sort(values)
			if once := slices.Compact(slices.Clone(values)); len(once) != len(values) {
				t.Errorf("%q: some were sent twice", values)
			}
		})
	}
}

// all returns the values of the events that were sent.
func (s *sender) all() (values []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		values = append(values, string(e.Value))
	}
	return values
}

// What an operator has added to the table, or a row itself, makes PostgreSQL refuse to mark some rows, as
// published or as rejected. The others are marked. No event is sent twice, and the log names those at fault.
// When the cause is removed, these are marked too.
func TestRowThatCanNotBeMarkedLeavesTheOthersMarked(t *testing.T) {
	const refused = `payload IN ('3', '7', 'bad 3')`
	for name, tc := range map[string]struct{ fault, repair string }{
		"a trigger raises": {
			`CREATE FUNCTION {{table}}_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
			CREATE TRIGGER refuse BEFORE UPDATE OR DELETE ON {{table}} FOR EACH ROW WHEN (OLD.` + refused + `) EXECUTE FUNCTION {{table}}_refuse()`,
			`DROP TRIGGER refuse ON {{table}}`,
		},
		"a trigger raises an error of its own": {
			`CREATE FUNCTION {{table}}_own() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one' USING ERRCODE = 'PAY01'; END $$;
			CREATE TRIGGER refuse BEFORE UPDATE OR DELETE ON {{table}} FOR EACH ROW WHEN (OLD.` + refused + `) EXECUTE FUNCTION {{table}}_own()`,
			`DROP TRIGGER refuse ON {{table}}`,
		},
		"a trigger finds two rows": {
			`CREATE FUNCTION {{table}}_two() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE one int; BEGIN one := (SELECT generate_series(1, 2)); RETURN NEW; END $$;
			CREATE TRIGGER refuse BEFORE UPDATE OR DELETE ON {{table}} FOR EACH ROW WHEN (OLD.` + refused + `) EXECUTE FUNCTION {{table}}_two()`,
			`DROP TRIGGER refuse ON {{table}}`,
		},
		"a trigger keeps rows as they are": {
			`CREATE FUNCTION {{table}}_keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
			CREATE TRIGGER refuse BEFORE UPDATE OR DELETE ON {{table}} FOR EACH ROW WHEN (OLD.` + refused + `) EXECUTE FUNCTION {{table}}_keep()`,
			`DROP TRIGGER refuse ON {{table}}`,
		},
		"a trigger raises at the commit": {
			`CREATE FUNCTION {{table}}_late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
			CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE OR DELETE ON {{table}} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
				WHEN (OLD.` + refused + `) EXECUTE FUNCTION {{table}}_late()`,
			`DROP TRIGGER refuse ON {{table}}`,
		},
		"a trigger may not read another table": {
			`CREATE FUNCTION {{table}}_other() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM FROM no_such_table; RETURN NEW; END $$;
			CREATE TRIGGER refuse BEFORE UPDATE OR DELETE ON {{table}} FOR EACH ROW WHEN (OLD.` + refused + `) EXECUTE FUNCTION {{table}}_other()`,
			`DROP TRIGGER refuse ON {{table}}`,
		},
		"a constraint that old rows do not meet": {
			`ALTER TABLE {{table}} ADD CONSTRAINT refuse CHECK (NOT (` + refused + `)) NOT VALID`,
			`ALTER TABLE {{table}} DROP CONSTRAINT refuse`,
		},
		"an index": {
			`CREATE UNIQUE INDEX refuse ON {{table}} ((1)) WHERE (published_at IS NOT NULL OR attempts > 0) AND ` + refused,
			`DROP INDEX refuse`,
		},
		"attempts without a successor": {
			`UPDATE {{table}} SET attempts = 2147483647 WHERE ` + refused,
			`UPDATE {{table}} SET attempts = 0`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t, postgres.URL())
			o, table := newOutbox(t, pool, pgoutbox.Config{})
			const n = 50
			for i := range n {
				publish(t, pool, o, outbox.Event{Topic: "good", Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)},
					outbox.Event{Topic: "missing", Key: fmt.Append(nil, i), Value: fmt.Append(nil, "bad ", i)})
			}
			execute(t, pool, strings.ReplaceAll(tc.fault, "{{table}}", table))
			rejected := make(map[string]int) // how often
			kafka := &sender{reject: func(e outbox.Event) bool {
				if e.Topic == "missing" {
					rejected[string(e.Value)]++
				}
				return e.Topic == "missing"
			}}
			said := new(lockedBuffer)
			run(t, pool, o, kafka, pgoutbox.RelayConfig{Workers: 1, MaxAttempts: 1, PollInterval: 10 * time.Millisecond,
				RetryDelay: time.Millisecond, MaxRetryDelay: 20 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(said, nil)), StatsInterval: 10 * time.Millisecond})
			eventually(t, pool, 0, pendingIn(table)+` AND NOT (`+refused+`)`)
			kafka.wait(t, func() bool { return rejected["bad 3"] > 5 }) // some rounds later
			kafka.set(func() {
				for value, times := range rejected {
					if value != "bad 3" && times != 1 {
						t.Errorf("%s was rejected %d times", value, times)
					}
				}
			})
			if !strings.Contains(said.String(), "PostgreSQL refuses to mark events of the outbox") {
				t.Errorf("the log is %s", said)
			}
			execute(t, pool, strings.ReplaceAll(tc.repair, "{{table}}", table))
			eventually(t, pool, 0, pendingIn(table))
			values := kafka.all()
			slices.Sort(values)
			if once := slices.Compact(slices.Clone(values)); len(values) != n || len(once) != n {
				t.Errorf("%d events were sent, %d of them once; want %d", len(values), len(once), n)
			}
		})
	}
}

// Rows that can't be marked, however many, do not delay others. The later events of the key of a rejected one wait.
func TestRowsThatCantBeMarkedDoNotDelayOthers(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	const old = 600
	for _, topic := range []string{"old", "bad"} {
		execute(t, pool, `INSERT INTO `+table+` (id, aggregatetype, aggregateid, payload)
			SELECT gen_random_uuid(), '`+topic+`', convert_to('`+topic+`' || n, 'UTF8'), 'v' FROM generate_series(1, `+fmt.Sprint(old)+`) n`)
	}
	execute(t, pool, `ALTER TABLE `+table+` ADD CHECK (convert_from(payload, 'UTF8') <> 'v') NOT VALID`)
	for n := range 20 {
		publish(t, pool, o, outbox.Event{Topic: "old", Key: fmt.Append(nil, "old", n+1), Value: []byte("w")},
			outbox.Event{Topic: "bad", Key: fmt.Append(nil, "bad", n+1), Value: []byte("w")})
	}
	kafka := &sender{reject: func(e outbox.Event) bool { return e.Topic == "bad" && string(e.Value) == "v" }}
	run(t, pool, o, kafka, pgoutbox.RelayConfig{Batch: 64, PollInterval: 10 * time.Millisecond, RetryDelay: time.Minute})
	eventually(t, pool, 0, pendingIn(table)+` AND aggregatetype = 'old' AND payload = 'w'`)
	if n := ask[int](t, pool, pendingIn(table)+` AND aggregatetype = 'bad' AND payload = 'w'`); n != 20 {
		t.Errorf("%d later events of rejected ones wait; want 20", n)
	}
}

// The reasons of rejections contain what others have written. They are stored in a database of any encoding.
func TestRejectionIsStoredInAnyEncoding(t *testing.T) {
	root := newPool(t, postgres.URL())
	for encoding, topic := range map[string]string{"LATIN1": `'\u00fcberweisungen'`, "SQL_ASCII": `E'\\xff'`} {
		t.Run(encoding, func(t *testing.T) {
			database := strings.ToLower(encoding)
			execute(t, root, `CREATE DATABASE `+database+` ENCODING '`+encoding+`' LOCALE 'C' TEMPLATE template0`)
			pool := newPool(t, postgres.URLOf(pgserver.User, pgserver.Password, database))
			o, table := newOutbox(t, pool, pgoutbox.Config{})
			execute(t, pool, `INSERT INTO `+table+` (id, aggregatetype, headers) VALUES (gen_random_uuid(), `+topic+`, NULL),
				(gen_random_uuid(), 't', '{"n": 1}')`)
			publish(t, pool, o, outbox.Event{Topic: "good"})
			kafka := &sender{reject: func(e outbox.Event) bool { return e.Topic != "good" }}
			run(t, pool, o, kafka, pgoutbox.RelayConfig{MaxAttempts: 1, PollInterval: 10 * time.Millisecond})
			eventually(t, pool, 0, pendingIn(table))
			if n := ask[int](t, pool, `SELECT count(*) FROM `+table+` WHERE failure <> '' AND parked_at IS NOT NULL`); n != 2 || len(kafka.all()) != 1 {
				t.Errorf("%d events are parked with a reason, and %q sent; want 2, and the other one", n, kafka.all())
			}
		})
	}
}

// Many events of a missing topic give few lines in the log, which count all their attempts.
func TestRejectionsOfATopicAreLoggedTogether(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	const events, attempts = 20, 8
	for i := range events {
		publish(t, pool, o, outbox.Event{Topic: "missing", Key: fmt.Append(nil, i)})
	}
	said := new(lockedBuffer)
	kafka := &sender{reject: func(outbox.Event) bool { return true }}
	stop := run(t, pool, o, kafka, pgoutbox.RelayConfig{MaxAttempts: attempts, RetryDelay: time.Millisecond,
		MaxRetryDelay: time.Millisecond, PollInterval: 10 * time.Millisecond, StatsInterval: time.Hour,
		Logger: slog.New(slog.NewTextHandler(said, nil))})
	eventually(t, pool, 0, pendingIn(table))
	stop()
	lines := regexp.MustCompile(`level=(\w+) msg="events of the outbox are rejected[^"]*" table=\w+ topic=missing events=(\d+) `).
		FindAllStringSubmatch(said.String(), -1)
	sum := make(map[string]int)
	for _, l := range lines {
		n, err := strconv.Atoi(l[2])
		if err != nil {
			t.Fatal(err)
		}
		sum[l[1]] += n
	}
	if len(lines) > 4 || sum["WARN"] != events*(attempts-1) || sum["ERROR"] != events {
		t.Errorf("%d lines about %v rejections; want at most 4, of all:\n%s", len(lines), sum, said)
	}
}

// With the constraints of docs/outbox.md, for Debezium, the table refuses the rows that would stop a connector.
// What Publish accepts is inserted.
func TestConstraintsOfTheDocumentsRefuseFaults(t *testing.T) {
	document, err := os.ReadFile("../../docs/outbox.md")
	if err != nil {
		t.Fatal(err)
	}
	sql := regexp.MustCompile(`(?s)ALTER TABLE outbox\s+ADD CHECK.*?;`).FindString(string(document))
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{MaxSize: 900_000})
	execute(t, pool, strings.Replace(sql, "TABLE outbox", "TABLE "+table, 1))
	for _, values := range []string{
		`'a b', NULL, NULL, NULL`, `'.', NULL, NULL, NULL`, `'..', NULL, NULL, NULL`, `repeat('x', 250), NULL, NULL, NULL`,
		`E'a\n', NULL, NULL, NULL`, `'t', NULL, NULL, '{"n": 1}'`, `'t', repeat('x', 600000)::bytea, repeat('x', 600000)::bytea, NULL`,
	} {
		if _, err := pool.Exec(t.Context(), `INSERT INTO `+table+
			` (id, aggregatetype, aggregateid, payload, headers) VALUES (gen_random_uuid(), `+values+`)`); err == nil {
			t.Errorf("%s: it was inserted", values)
		}
	}
	publish(t, pool, o, outbox.Event{Topic: "t"}, outbox.Event{Topic: strings.Repeat("x", 249), Key: []byte("k"), Value: make([]byte, 899_000),
		Headers: []outbox.Header{{Key: "h"}}})
}
