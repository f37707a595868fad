//go:build servers

package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/app/postgres"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/test/apptest"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/lambda/msk"
)

// server is shared by the tests, each of which has a database of its own.
var server *pgserver.Server

func TestMain(m *testing.M) {
	var err error
	if server, err = pgserver.Start(context.Background(), pgserver.Config{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(), goleak.Cleanup(func(code int) {
		if err := server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}

// database is a database and a connection to it.
type database struct {
	url  string
	t    *testing.T
	pool *pgxpool.Pool
}

var databases atomic.Int64

func newDatabase(t *testing.T) *database {
	t.Helper()
	return newDatabaseOn(t, server)
}

func newDatabaseOn(t *testing.T, server *pgserver.Server) *database {
	t.Helper()
	name := fmt.Sprint("db", databases.Add(1))
	admin := apptest.Must(pgxpool.New(t.Context(), server.URL()))
	defer admin.Close()
	apptest.Must(admin.Exec(t.Context(), "CREATE DATABASE "+name))
	url := server.URLOf(pgserver.User, pgserver.Password, name)
	pool := apptest.Must(pgstore.NewPool(url))
	t.Cleanup(pool.Close)
	return &database{url: url, t: t, pool: pool}
}

func (d *database) exec(sql string) {
	d.t.Helper()
	if _, err := d.pool.Exec(d.t.Context(), sql); err != nil {
		d.t.Fatal(err)
	}
}

func (d *database) number(sql string) (n int) {
	d.t.Helper()
	if err := d.pool.QueryRow(d.t.Context(), sql).Scan(&n); err != nil {
		d.t.Fatal(err)
	}
	return n
}

func (d *database) env(more ...string) map[string]string {
	env := map[string]string{"IDEMSK_STORE": "postgres", "IDEMSK_STORE_URL": d.url, "IDEMSK_TABLE": "keys"}
	for i := 0; i < len(more); i += 2 {
		env[more[i]] = more[i+1]
	}
	return env
}

func (d *database) migrate() {
	d.t.Helper()
	if _, err := pgstore.Migrate(d.t.Context(), d.pool, "keys"); err != nil {
		d.t.Fatal(err)
	}
}

func TestFunctionOnPostgreSQL(t *testing.T) {
	db := newDatabase(t)
	calls := 0
	f := apptest.MustStart(t, db.env(), func(context.Context, msk.Record) ([]byte, error) {
		calls++
		return nil, nil
	}, postgres.Store())
	defer f.Close()
	if log := f.Stderr.String(); !strings.Contains(log, `"level":"ERROR"`) ||
		!strings.Contains(log, "run idemsk migrate") {
		t.Errorf("without the table the log says %q; want what to do", log)
	}
	if _, err := f.Invoke(t.Context(), []byte(apptest.Event)); err == nil ||
		!strings.Contains(err.Error(), "keys") {
		t.Errorf("without the table: error %v; want one that names it", err)
	}
	db.migrate()
	for range 2 {
		f.Deliver(t)
	}
	apptest.Equal(t, "calls", calls, 1)
	apptest.Equal(t, "keys", db.number(`SELECT count(*) FROM keys WHERE status = 'COMPLETED'`), 1)
}

func TestReadyStoreLogsNothing(t *testing.T) {
	db := newDatabase(t)
	db.migrate()
	f := apptest.MustStart(t, db.env("IDEMSK_DEAD_LETTER_QUEUE_URL", "http://127.0.0.1:9/0/q", "AWS_REGION",
		"eu-central-1"), apptest.Returning("", nil), postgres.Store())
	defer f.Close()
	apptest.Equal(t, "log", f.Stderr.String(), "")
	db.exec(`INSERT INTO keys_migrations (version, name) VALUES (99, 'later')`)
	g := apptest.MustStart(t, db.env(), apptest.Returning("", nil), postgres.Store())
	defer g.Close()
	if log := g.Stderr.String(); !strings.Contains(log,
		`"level":"WARN","msg":"the store is less than it should be"`) {
		t.Errorf("on a newer table the log says %q; want a warning", log)
	}
	db.exec("ALTER DATABASE " + db.pool.Config().ConnConfig.Database +
		" SET default_transaction_read_only = on")
	h := apptest.MustStart(t, db.env(), apptest.Returning("", nil), postgres.Store())
	defer h.Close()
	if log := h.Stderr.String(); !strings.Contains(log, `"level":"ERROR","msg":"the store is not ready`) ||
		!strings.Contains(log, "read-only") {
		t.Errorf("on a newer table of a read-only database the log says %q; want an error", log)
	}
}

// The handler's writes are committed with its key's completion only.
func TestHandlerInTransaction(t *testing.T) {
	db := newDatabase(t)
	db.migrate()
	db.exec(`CREATE TABLE bookings (id serial)`)
	boom := errors.New("boom")
	fail := true
	book := msk.HandlerFunc(func(ctx context.Context, _ msk.Record) ([]byte, error) {
		tx, err := pgstore.TxFrom(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO bookings DEFAULT VALUES`); err != nil {
			return nil, err
		}
		if fail {
			return nil, boom
		}
		return nil, nil
	})
	f := apptest.MustStart(t, db.env("IDEMSK_CONCURRENCY", "2"), book, postgres.Store())
	defer f.Close()
	if _, err := f.Invoke(t.Context(), []byte(apptest.Event)); err == nil {
		t.Error("a failed batch is a success")
	}
	apptest.Equal(t, "bookings after the failure", db.number(`SELECT count(*) FROM bookings`), 0)
	fail = false
	for range 2 {
		f.Deliver(t)
	}
	apptest.Equal(t, "bookings", db.number(`SELECT count(*) FROM bookings`), 1)
	apptest.Equal(t, "attempts", db.number(`SELECT attempts FROM keys`), 2)
}

// Up to IDEMSK_CONCURRENCY handlers have a transaction at the same time, without waiting for a connection.
func TestHandlersInTransactionsRunConcurrently(t *testing.T) {
	db := newDatabase(t)
	db.migrate()
	const atOnce = 8 // more than a pool has by default on a small host
	var here atomic.Int64
	all := make(chan struct{})
	meet := msk.HandlerFunc(func(ctx context.Context, _ msk.Record) ([]byte, error) {
		if _, err := pgstore.TxFrom(ctx); err != nil {
			return nil, err
		}
		if here.Add(1) == atOnce {
			close(all)
		}
		select {
		case <-all:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	f := apptest.MustStart(t, db.env("IDEMSK_CONCURRENCY", strconv.Itoa(atOnce)), meet, postgres.Store())
	defer f.Close()
	partitions := make([]string, atOnce)
	for i := range partitions {
		partitions[i] = fmt.Sprintf(`"payments-%d":[{"topic":"payments","partition":%d,"offset":7,"timestamp":1767225600000,`+
			`"timestampType":"CREATE_TIME","value":"e30=","headers":[{"idempotency-key":[%d]}]}]`, i, i,
			'a'+i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, err := f.Invoke(ctx, []byte(`{"eventSource":"aws:kafka","records":{`+strings.Join(partitions, ",")+
		`}}`))
	if err != nil {
		t.Errorf("%d of %d at once: %v", here.Load(), atOnce, err)
	}
}

func TestNoTransactionWithoutPostgreSQL(t *testing.T) {
	f := apptest.MustStart(t, map[string]string{"IDEMSK_STORE": "memory"},
		func(ctx context.Context, _ msk.Record) ([]byte, error) {
			_, err := pgstore.TxFrom(ctx)
			apptest.Equal(t, "unavailable", idem.IsUnavailable(err), true)
			return nil, nil
		}, postgres.Store())
	f.Deliver(t)
}

func TestRotatedPostgreSQLPassword(t *testing.T) {
	// a role belongs to all databases of a server
	db := newDatabaseOn(t, testkit.Run(t, pgserver.Start, pgserver.Config{}))
	db.migrate()
	db.exec(`CREATE ROLE app LOGIN PASSWORD 'one'`)
	db.exec(`GRANT SELECT, INSERT, UPDATE, DELETE ON keys, keys_migrations TO app`)
	secrets := apptest.NewSecrets(t, `{"username":"app","password":"one"}`)
	server := apptest.Must(url.Parse(db.url))
	server.User = nil
	f := apptest.MustStart(t, db.env("IDEMSK_STORE_URL", server.String(), "IDEMSK_STORE_SECRET_ARN",
		apptest.SecretARN), apptest.Returning("", nil), postgres.Store())
	defer f.Close()
	f.Deliver(t)
	apptest.Equal(t, "reads", secrets.Count(), 1)

	db.exec(`ALTER ROLE app PASSWORD 'two'`)
	db.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'`)
	secrets.Hold(`{"username":"app","password":"two"}`)
	f.Settle(t)
	apptest.Equal(t, "reads", secrets.Count(), 2)
}

func TestSecretNamesTheServer(t *testing.T) {
	db := newDatabase(t)
	db.migrate()
	secret := apptest.Must(json.Marshal(map[string]string{"url": db.url}))
	apptest.NewSecrets(t, string(secret))
	f := apptest.MustStart(t, db.env("IDEMSK_STORE_URL", "", "IDEMSK_STORE_SECRET_ARN", apptest.SecretARN),
		apptest.Returning("", nil), postgres.Store())
	defer f.Close()
	f.Deliver(t)
}

func TestErrorsDoNotContainThePostgreSQLPassword(t *testing.T) {
	apptest.NewSecrets(t, "postgres://u:secret@h:port/x")
	for _, env := range []map[string]string{
		{"IDEMSK_STORE": "postgres"},
		{"IDEMSK_STORE": "postgres", "IDEMSK_STORE_URL": "postgres://u:secret@:port/x"},
		{"IDEMSK_STORE": "postgres", "IDEMSK_STORE_URL": "postgres://u:secret@h/x",
			"IDEMSK_TABLE": "my-schema.my.table"},
		{"IDEMSK_STORE": "postgres", "IDEMSK_STORE_SECRET_ARN": apptest.SecretARN},
		{"IDEMSK_STORE": "postgres", "IDEMSK_STORE_SECRET_ARN": "payments/database"},
	} {
		f, err := apptest.Start(t, env, apptest.Returning("", nil), postgres.Store())
		if err == nil || strings.Contains(err.Error()+f.Stderr.String(), "secret@") {
			t.Errorf("%v: error %v; want one without the password", env, err)
		}
	}
	env := map[string]string{"IDEMSK_STORE": "postgres",
		"IDEMSK_STORE_URL": "postgres://u:hush@127.0.0.1:1/x"}
	f := apptest.MustStart(t, env, apptest.Returning("", nil), postgres.Store())
	defer f.Close()
	_, err := f.Invoke(t.Context(), []byte(apptest.Event))
	if log := f.Stderr.String(); err == nil || !strings.Contains(log, "can't be reached") ||
		strings.Contains(err.Error()+log, "hush") {
		t.Errorf("error %v, log %q; want what to check, without the password", err, log)
	}
}
