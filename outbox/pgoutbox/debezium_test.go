//go:build rest

package pgoutbox_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

// debezium is the real Debezium, embedded, with outbox/debezium/outbox.properties.
type debezium struct {
	args    []string
	offsets string // the file of its offsets
	cmd     *exec.Cmd
	log     bytes.Buffer
}

// prepareDebezium installs Debezium, and creates the publication and the slot of a table.
func prepareDebezium(tb testing.TB, pool *pgxpool.Pool, table string) {
	tb.Helper()
	install := exec.CommandContext(tb.Context(), "../debezium/debezium.sh", "install")
	if out, err := install.CombinedOutput(); err != nil {
		tb.Fatalf("%v: %s", err, out)
	}
	if _, err := pool.Exec(tb.Context(),
		fmt.Sprintf(`CREATE PUBLICATION %s_events FOR TABLE %s WITH (publish = 'insert')`, table,
			table)); err != nil {
		tb.Fatal(err)
	}
	if _, err := pool.Exec(tb.Context(), `SELECT pg_create_logical_replication_slot($1, 'pgoutput')`,
		table); err != nil {
		tb.Fatal(err)
	}
}

// databaseSettings are the settings of outbox.properties that depend on the database.
func databaseSettings(pool *pgxpool.Pool, table string) map[string]string {
	cfg := pool.Config().ConnConfig
	return map[string]string{
		"database.hostname": cfg.Host, "database.port": fmt.Sprint(cfg.Port), "database.user": cfg.User,
		"database.password": cfg.Password, "database.dbname": cfg.Database,
		"table.include.list": "public." + table,
		"topic.prefix":       table, "slot.name": table, "publication.name": table + "_events",
	}
}

func newDebezium(t *testing.T, pool *pgxpool.Pool, table string) *debezium {
	t.Helper()
	prepareDebezium(t, pool, table)
	offsets := filepath.Join(t.TempDir(), "offsets")
	d := &debezium{offsets: offsets, args: []string{
		"run", servers.Kafka(t).Addr(), "offset.storage=org.apache.kafka.connect.storage.FileOffsetBackingStore",
		"offset.flush.interval.ms=200",
		"offset.storage.file.filename=" + offsets,
	}}
	for name, value := range databaseSettings(pool, table) {
		d.args = append(d.args, name+"="+value)
	}
	t.Cleanup(func() {
		if d.kill(); t.Failed() {
			t.Log(d.log.String())
		}
	})
	return d
}

func (d *debezium) start(t *testing.T) {
	t.Helper()
	d.cmd = exec.Command("../debezium/debezium.sh", d.args...)
	d.cmd.Env = append(os.Environ(), "TZ=UTC")
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// kill ends the process as a crash does.
func (d *debezium) kill() {
	if d.cmd != nil {
		_ = d.cmd.Process.Signal(syscall.SIGKILL) // it may have ended by itself
		_ = d.cmd.Wait()                          // it was killed
		d.cmd = nil
	}
}

// Debezium's outbox event router reads the table as it is: events from before its start, during its run, and
// while it was dead, also if the rows are only in the log.
func TestDebeziumSendsTheTableUnchanged(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	logOnly, err := pgoutbox.New(pgoutbox.Config{Table: table, LogOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	topics := []string{newTopic(t, 3), newTopic(t, 1)}
	r := newReader(t, topics...)
	d := newDebezium(t, pool, table)
	var sent []outbox.Event
	more := func(o *pgoutbox.Outbox) {
		for i := range 20 {
			n := len(sent)
			e := outbox.Event{
				ID: fmt.Sprintf("019a7c54-0000-7000-8000-%012d", n), Topic: topics[i%2],
				Key: fmt.Append(nil, "account ", i%5), Value: fmt.Appendf(nil, `{"n":%d}`, n),
				Headers: []outbox.Header{{Key: "n", Value: fmt.Append(nil, n)}},
			}
			switch i {
			case 10:
				e.Key, e.Value, e.Headers = []byte{0, 0xff}, []byte{0xfe, 0, '\n'}, nil
			case 11:
				e.Key = nil
			case 12:
				e.Value = nil
			}
			sent = append(sent, e)
			publish(t, pool, o, e)
		}
	}
	more(o)
	d.start(t)
	r.ids(t, len(sent))
	more(o)
	r.ids(t, len(sent))
	more(logOnly)
	r.ids(t, len(sent))
	for _, lost := range []bool{false, true} { // whether its offsets are lost
		d.kill()
		if lost {
			if err := os.Remove(d.offsets); err != nil {
				t.Fatal(err)
			}
		}
		more(logOnly)
		more(o)
		eventually(t, pool, 1, `SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1 AND NOT active`, table)
		d.start(t)
		r.ids(t, len(sent))
	}
	verify(t, r, sent, func(e outbox.Event) string {
		column := ""
		if e.Headers != nil {
			column = fmt.Sprintf(`[{"key": "n", "value": "%s"}]`, e.Headers[0].Value)
		}
		return fmt.Sprintf("id=%s event-id=%s idempotency-key=%s headers=%s", e.ID, e.ID, e.ID, column)
	})
}

func headersText(headers []outbox.Header) string {
	var text []string
	for _, h := range headers {
		text = append(text, h.Key+"="+string(h.Value))
	}
	return strings.Join(text, " ")
}

// verify checks that each event arrived unchanged, and those of a key in order. headers returns the headers
// that it must have.
func verify(t *testing.T, r *reader, sent []outbox.Event, headers func(e outbox.Event) string) {
	t.Helper()
	got := make(map[string]int) // the first record of each event
	for i := range slices.Backward(r.all) {
		got[idOf(r.all[i])] = i
	}
	last := make(map[string]int64)
	for _, e := range sent {
		i, ok := got[e.ID]
		if !ok {
			t.Errorf("event %s is not there", e.ID)
			continue
		}
		record := r.all[i]
		if record.Topic != e.Topic || !bytes.Equal(record.Key, e.Key) ||
			!bytes.Equal(record.Value, e.Value) || (record.Key == nil) != (e.Key == nil) ||
			(record.Value == nil) != (e.Value == nil) {
			t.Fatalf("%+v came as %+v", e, record)
		}
		var all []outbox.Header
		for _, h := range record.Headers {
			all = append(all, outbox.Header(h))
		}
		if got, want := headersText(all), headers(e); got != want {
			t.Fatalf("event %s has the headers %q, want %q", e.ID, got, want)
		}
		if of := e.Topic + string(e.Key); e.Key != nil {
			if before, ok := last[of]; ok && record.Offset <= before {
				t.Errorf("event %s is not behind the one before it", e.ID)
			}
			last[of] = record.Offset
		}
	}
}
