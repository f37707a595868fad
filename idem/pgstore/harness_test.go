//go:build servers

package pgstore_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

// server is shared by the tests that do not change it.
var server *pgserver.Server

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		os.Exit(work())
	}
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

// ownServer starts a server for a test that stops it or changes its settings.
func ownServer(tb testing.TB, settings map[string]string) *pgserver.Server {
	tb.Helper()
	return testkit.Run(tb, pgserver.Start, pgserver.Config{Settings: settings})
}

func newPool(tb testing.TB, url string, options ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	pool, err := pgstore.NewPool(url, append(options, func(c *pgxpool.Config) {
		// a busy machine takes long for as many logins
		c.MaxConns, c.ConnConfig.ConnectTimeout = 24, time.Minute
	})...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

var names atomic.Int64

// unique returns a name that is not used on the server.
func unique(prefix string) string { return fmt.Sprint(prefix, names.Add(1)) }

// newTable creates a table and returns its name.
func newTable(tb testing.TB, pool *pgxpool.Pool) string {
	tb.Helper()
	name := unique("t")
	if _, err := pgstore.Migrate(tb.Context(), pool, name); err != nil {
		tb.Fatal(err)
	}
	return name
}

func newStore(tb testing.TB, pool *pgxpool.Pool, cfg pgstore.Config) *pgstore.Store {
	tb.Helper()
	if cfg.Table == "" {
		cfg.Table = newTable(tb, pool)
	}
	s, err := pgstore.New(pool, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func execute(tb testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	tb.Helper()
	if _, err := pool.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

func ask[T any](tb testing.TB, pool *pgxpool.Pool, sql string, args ...any) (answer T) {
	tb.Helper()
	if err := pool.QueryRow(tb.Context(), sql, args...).Scan(&answer); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return answer
}

// still returns a clock that only advance changes, for SQL and for the test.
func still(tb testing.TB, pool *pgxpool.Pool) (expression string, now func() time.Time,
	advance func(time.Duration)) {
	tb.Helper()
	name := unique("clock")
	clock := storetest.NewClock()
	execute(tb, pool, `CREATE TABLE `+name+` AS SELECT $1::timestamptz AS now`, clock.Now())
	return `(SELECT now FROM ` + name + `)`, clock.Now, func(d time.Duration) {
		clock.Advance(d)
		execute(tb, pool, `UPDATE `+name+` SET now = $1`, clock.Now())
	}
}

// ticking returns the server's clock, with an offset that the test can increase.
func ticking(tb testing.TB, pool *pgxpool.Pool) (expression string, now func() time.Time,
	advance func(time.Duration)) {
	tb.Helper()
	name := unique("clock")
	execute(tb, pool, `CREATE TABLE `+name+` AS SELECT interval '0' AS ahead`)
	expression = `(clock_timestamp() + (SELECT ahead FROM ` + name + `))`
	now = func() time.Time { return ask[time.Time](tb, pool, `SELECT `+expression) }
	return expression, now, func(d time.Duration) {
		execute(tb, pool,
			`UPDATE `+name+` SET ahead = ahead + $1`, d)
	}
}

// The kinds of clocks of the suite.
const (
	stands = iota // the store and the test see exactly the same time
	ticks         // the server's clock: times differ by the duration of the test
)

// tolerance is far more than a test takes on a busy machine. The clock that stands still checks exact times.
const tolerance = 4 * time.Second

// harness returns a harness with a store on a new table.
func harness(tb testing.TB, pool *pgxpool.Pool, clock int, enlist bool) storetest.Harness {
	tb.Helper()
	st := newStore(tb, pool, pgstore.Config{})
	var expression string
	h := storetest.Harness{
		Skew: st.MaxClockSkew(),
		Raw:  func(tb testing.TB, key string) []byte { return raw(tb, pool, st.Table(), key) },
		Sweep: func(tb testing.TB) {
			tb.Helper()
			early := `SELECT count(*) FROM ` + st.Table() + ` WHERE prune_after < expiry_timestamp`
			if n := ask[int](tb, pool, early); n > 0 {
				tb.Errorf("%d entries can be pruned before they expire", n)
			}
			// up to a lease later otherwise
			execute(tb, pool, `UPDATE `+st.Table()+` SET prune_after = expiry_timestamp
				WHERE expiry_timestamp <= `+expression)
			if _, err := st.Prune(tb.Context(), 1000); err != nil {
				tb.Fatal(err)
			}
		},
	}
	if clock == stands {
		expression, h.Now, h.Advance = still(tb, pool)
	} else {
		expression, h.Now, h.Advance = ticking(tb, pool)
		h.Tolerance = tolerance
	}
	st.SetClock(expression)
	again := &storetest.Resender{Store: st, Admin: st}
	h.Store, h.LoseReply = again, again.Arm
	h.Effects = counters(tb, pool, st, enlist)
	return h
}

// counters returns effects that insert rows into a table in transactions of the store, or enlist the
// insertion.
func counters(tb testing.TB, pool *pgxpool.Pool, st *pgstore.Store, enlist bool) *storetest.Effects {
	tb.Helper()
	table := st.Table() + "_counters"
	execute(tb, pool, `CREATE TABLE `+table+` (name text, once text UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
	in := func(tb testing.TB, e store.Effect, sql string, args ...any) {
		tb.Helper()
		ctx := context.WithValue(tb.Context(), store.EffectKey{}, func() store.Effect { return e })
		if enlist {
			if err := pgstore.Enlist(ctx, sql, args...); err != nil {
				tb.Fatal(err)
			}
			return
		}
		tx, err := pgstore.TxFrom(ctx)
		if err == nil {
			_, err = tx.Exec(ctx, sql, args...)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	return &storetest.Effects{
		Transactor: st,
		Count: func(tb testing.TB, e store.Effect,
			name string) {
			in(tb, e, `INSERT INTO `+table+` VALUES ($1)`, name)
		},
		Refuse: func(tb testing.TB, e store.Effect) {
			in(tb, e, `INSERT INTO `+table+` VALUES ('twice', 'x'), ('twice', 'x')`)
		},
		Read: func(tb testing.TB, name string) int {
			return ask[int](tb, pool, `SELECT count(*) FROM `+table+` WHERE name = $1`, name)
		},
	}
}

// txHandler is a handler that gets its transaction as an argument.
type txHandler func(ctx context.Context, tx pgx.Tx) ([]byte, error)

// Handle implements idem.Handler.
func (h txHandler) Handle(ctx context.Context) ([]byte, error) {
	tx, err := pgstore.TxFrom(ctx)
	if err != nil {
		return nil, err
	}
	return h(ctx, tx)
}

// raw returns a row as JSON text. The keys that the suite passes need no escapes.
func raw(tb testing.TB, pool *pgxpool.Pool, table, key string) []byte {
	tb.Helper()
	text := ask[*string](tb, pool, `SELECT (SELECT to_jsonb(t)::text FROM `+table+
		` t WHERE idempotency_key = $1)`, key)
	if text == nil {
		return nil
	}
	return []byte(*text)
}
