//go:build servers

package pgstore_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
)

// enlisting returns n claimed completions, with what enlist enlists for each.
func (b *bank) enlisting(n int, enlist func(ctx context.Context, i int) error) []store.Settlement {
	b.Helper()
	ss := make([]store.Settlement, n)
	for i := range ss {
		ss[i] = settlement(claimOne(b.T, b.store, request(unique("k"), 1), store.Claimed).Entry, store.OpComplete)
		ss[i].Effect = b.store.NewEffect()
		ctx := context.WithValue(b.Context(), store.EffectKey{}, func() store.Effect { return ss[i].Effect })
		if err := enlist(ctx, i); err != nil {
			b.Fatal(err)
		}
		if _, err := ss[i].Effect.Seal(); err != nil {
			b.Fatal(err)
		}
	}
	return ss
}

// valuer is an argument whose method returns an error, or panics.
type valuer struct{ err error }

// Value implements driver.Valuer.
func (v valuer) Value() (driver.Value, error) {
	if v.err == nil {
		panic("no error")
	}
	return nil, v.err
}

// badStatement is a statement that fails, whatever is sent with it.
type badStatement struct {
	sql  string
	args []any
	says string
}

// unsendable are statements with arguments that can't be encoded.
func unsendable(table string) map[string]badStatement {
	insert := `INSERT INTO ` + table + ` VALUES ($1)`
	return map[string]badStatement{
		"a number that is too large":         {insert, []any{int64(3_000_000_000)}, "greater than maximum"},
		"a struct":                           {insert, []any{struct{ A int }{1}}, "unable to encode"},
		"an argument too few":                {insert, nil, "argument"},
		"an argument too many":               {insert, []any{1, 2}, "argument"},
		"an error of its own":                {insert, []any{valuer{errBoom}}, "boom"},
		"an error as of a connection":        {insert, []any{valuer{io.ErrUnexpectedEOF}}, "unexpected EOF"},
		"an error as of the caller":          {insert, []any{valuer{context.Canceled}}, "context canceled"},
		"a panic":                            {insert, []any{valuer{}}, "panicked: no error"},
		"a named argument that is not there": {strings.Replace(insert, "$1", "@x", 1), []any{pgx.StrictNamedArgs{"y": 1}}, "x"},
	}
}

// A statement whose arguments can't be encoded is found before it is sent, in each mode that
// costs the others of its group nothing, and is the error of its handler.
func TestArgumentsThatCantBeEncoded(t *testing.T) {
	for name, mode := range map[string]pgx.QueryExecMode{
		"cached statements": pgx.QueryExecModeCacheStatement, "cached descriptions": pgx.QueryExecModeCacheDescribe,
		"described": pgx.QueryExecModeDescribeExec, "not described": pgx.QueryExecModeExec,
	} {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t, server.URL(), func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			b := newBank(t, pool, idem.Config{})
			execute(t, pool, `CREATE TABLE `+b.table+`_amounts (amount int4)`)
			for name, bad := range unsendable(b.table + "_amounts") {
				if mode == pgx.QueryExecModeExec {
					bad.says = "" // the server finds some of them
				}
				t.Run(name, func(t *testing.T) { b.wantAlone(t, bad, true) })
			}
		})
	}
}

// wantAlone settles a group of which one completion has a bad statement: it fails, and the others do not.
func (b *bank) wantAlone(t *testing.T, bad badStatement, rejected bool) {
	t.Helper()
	const n, at = 10, 4
	before := b.effects()
	ss := b.enlisting(n, func(ctx context.Context, i int) error {
		_, err := b.enlists(unique("effect "))(ctx)
		if i == at {
			err = errors.Join(err, pgstore.Enlist(ctx, bad.sql, bad.args...))
		}
		return err
	})
	for i, err := range b.store.Settle(t.Context(), ss) {
		switch {
		case i != at && err != nil:
			t.Errorf("%d: %v", i, err)
		case i == at && (errors.Is(err, store.ErrRejected) != rejected || err == nil || !strings.Contains(err.Error(), bad.says)):
			t.Errorf("the one that fails: %v; want %q", err, bad.says)
		}
	}
	if made := b.effects() - before; made != n-1 {
		t.Errorf("%d effects of %d", made, n-1)
	}
	wantGivenBack(t, b.pool)
}

// Whatever one handler's statement does to the transaction or the connection, the others of its group complete.
func TestOneStatementFailsWithoutTheOthers(t *testing.T) {
	// the server ends the statements of a client that has gone
	server := ownServer(t, map[string]string{"client_connection_check_interval": "100ms"})
	pool := newPool(t, server.URL())
	b := newBank(t, pool, idem.Config{})
	b.store = newStore(t, pool, pgstore.Config{Table: b.table, RoundTripTimeout: shortLimit})
	execute(t, pool, `CREATE TABLE `+b.table+`_once (what text UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
	execute(t, pool, `CREATE FUNCTION `+b.table+`_raise(code text) RETURNS void LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = code; END $$`)
	execute(t, pool, `CREATE FUNCTION `+b.table+`_slow() RETURNS void LANGUAGE plpgsql SET statement_timeout = '50ms' AS
		$$ BEGIN PERFORM pg_sleep(3600); END $$`)
	raise := func(code string) badStatement {
		return badStatement{`SELECT ` + b.table + `_raise($1)`, []any{code}, code}
	}
	for name, bad := range map[string]badStatement{
		"a constraint":                 {`INSERT INTO ` + b.table + ` (idempotency_key) VALUES (NULL)`, nil, "not-null"},
		"a constraint at the end":      {`INSERT INTO ` + b.table + `_once VALUES ('x'), ('x')`, nil, "duplicate key"},
		"a cast":                       {`SELECT $1::text::integer`, []any{"abc"}, "invalid input syntax"},
		"a text with a NUL":            {`SELECT $1::text`, []any{"a\x00b"}, "invalid byte sequence"},
		"no such table":                {`INSERT INTO no_such_table VALUES (1)`, nil, "no_such_table"},
		"no statement":                 {`SELECT FROM WHERE`, nil, "syntax error"},
		"two statements":               {`SELECT 1; SELECT 2`, nil, "multiple commands"},
		"no permission":                raise("42501"),
		"the end of a statement":       raise("57014"),
		"a serialization failure":      raise("40001"),
		"a deadlock":                   raise("40P01"),
		"a lock that is not free":      raise("55P03"),
		"no memory":                    raise("53200"),
		"a refusal as of a completion": raise("22012"),
		"a key as of a completion":     raise("23505"),
	} {
		t.Run(name, func(t *testing.T) { b.wantAlone(t, bad, true) })
	}
	// it is not known whether such a statement was committed
	for name, bad := range map[string]badStatement{
		"the end of the connection": {`SELECT pg_terminate_backend(pg_backend_pid())`, nil, "terminating connection"},
		"no answer":                 {`SELECT pg_sleep(3600)`, nil, "no answer"},
	} {
		t.Run(name, func(t *testing.T) { b.wantAlone(t, bad, false) })
	}
}

// A statement that the server can't prepare is the error of each handler that has it, found together.
func TestStatementOfManyThatCantBePrepared(t *testing.T) {
	b := newBank(t, newPool(t, server.URL()), idem.Config{})
	ss := b.enlisting(20, func(ctx context.Context, i int) error {
		if i%2 == 0 {
			return pgstore.Enlist(ctx, `INSERT INTO no_such_table VALUES (1)`)
		}
		_, err := b.enlists(fmt.Sprint(i))(ctx)
		return err
	})
	for i, err := range b.store.Settle(t.Context(), ss) {
		if errors.Is(err, store.ErrRejected) != (i%2 == 0) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if n, tx := b.effects(), b.transactions(); n != 10 || tx != 1 {
		t.Errorf("%d effects in %d transactions; want 10 in 1", n, tx)
	}
}

// A record with a bad argument is tried as often as any other, and becomes a dead letter with its own error.
func TestBadArgumentThroughTheEngine(t *testing.T) {
	const attempts, records = 3, 20
	b := newBank(t, newPool(t, server.URL()), idem.Config{MaxAttempts: attempts, RetryDelay: -1})
	scheduler, err := idem.NewScheduler(b.engine, idem.SchedulerConfig{Concurrency: records})
	if err != nil {
		t.Fatal(err)
	}
	for n := range attempts {
		var lanes [][]*idem.Item
		for i := range records {
			h := b.enlists(fmt.Sprint(i))
			if i == 7 {
				h = func(ctx context.Context) ([]byte, error) {
					return nil, pgstore.Enlist(ctx, `SELECT $1::int4`, struct{}{})
				}
			}
			lanes = append(lanes, []*idem.Item{{Task: b.handled(fmt.Sprint("k", i), h)}})
		}
		scheduler.Run(t.Context(), lanes)
		want := map[bool]idem.Kind{true: idem.DeadLettered, false: idem.Retry}[n == attempts-1]
		for i, lane := range lanes {
			switch {
			case i == 7:
				b.want(lane[0].Outcome, want)
			case n == 0:
				b.want(lane[0].Outcome, idem.Executed)
			default:
				b.want(lane[0].Outcome, idem.Replayed)
			}
		}
	}
	if b.effects() != records-1 || len(b.letters) != 1 ||
		!strings.Contains(b.letters[0].Failure.Message, "SELECT $1::int4") {
		t.Errorf("%d effects, dead letters %+v", b.effects(), b.letters)
	}
}

// A handler's transaction whose enlisted statement can't be encoded is rolled back at once, and its key is held. So
// is that of a call, whose records are handled alone.
func TestTransactionWithABadArgument(t *testing.T) {
	b := newBank(t, newPool(t, server.URL()), idem.Config{})
	for name, bad := range unsendable("no_table") {
		bad.sql = strings.NewReplacer("INSERT INTO no_table VALUES ($1)", "SELECT $1::int4",
			"INSERT INTO no_table VALUES (@x)", "SELECT @x::int4").Replace(bad.sql)
		t.Run(name, func(t *testing.T) {
			entry := claimOne(t, b.store, request(unique("k"), 1), store.Claimed).Entry
			set, in := b.inTransaction(entry)
			if err := pgstore.Enlist(in, bad.sql, bad.args...); err != nil {
				t.Fatal(err)
			}
			err := errors.Join(b.store.Settle(t.Context(), []store.Settlement{set})...)
			if !errors.Is(err, store.ErrRejected) || !strings.Contains(err.Error(), bad.says) {
				t.Errorf("%v; want %q", err, bad.says)
			}
			if seen := b.get(entry.Key); !store.Holds(&set, &seen) || b.effects() != 0 {
				t.Errorf("%+v, %d effects", seen, b.effects())
			}
			wantGivenBack(t, b.pool)
		})
	}
	t.Run("a call", func(t *testing.T) {
		items, calls := b.bulk(t.Context(), numbered(3),
			func(ctx context.Context, _ pgx.Tx, items []*idem.Item) error {
				if items[len(items)-1].Task.Key == "k0002" {
					return pgstore.Enlist(ctx, `SELECT $1::int4`, struct{}{})
				}
				return nil
			})
		if len(calls) != 4 {
			t.Errorf("calls of %v items", calls)
		}
		b.wantOnce(items, map[string]idem.Kind{"k0002": idem.Retry})
	})
}
