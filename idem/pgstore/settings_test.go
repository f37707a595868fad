//go:build servers

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/test/pgpooler"
)

// stateful is a bank whose effects have the settings under which they were written.
type stateful struct {
	*bank
	usual string // the settings without a change
}

func newStateful(t *testing.T, pool *pgxpool.Pool) *stateful {
	b := &stateful{bank: newBank(t, pool, idem.Config{})}
	execute(t, pool, `CREATE FUNCTION public.`+b.table+`_state() RETURNS text LANGUAGE sql AS $$ SELECT concat_ws(' ', session_user,
		current_setting('role'), current_setting('search_path'), current_setting('TimeZone'),
		coalesce(nullif(current_setting('app.tenant', true), ''), 'nobody'), to_regclass('pg_temp.staging'),
		current_setting('default_transaction_read_only')) $$`)
	b.usual = ask[string](t, pool, `SELECT public.`+b.table+`_state()`)
	return b
}

// enlist enlists an effect, and a change before or after it.
func (b *stateful) enlist(ctx context.Context, what, change string, after bool) error {
	effect := `INSERT INTO public.` + b.table + `_effects VALUES ($1 || ': ' || public.` + b.table + `_state())`
	switch {
	case change == "":
		return pgstore.Enlist(ctx, effect, what)
	case after:
		return errors.Join(pgstore.Enlist(ctx, effect, what), pgstore.Enlist(ctx, change))
	}
	return errors.Join(pgstore.Enlist(ctx, change), pgstore.Enlist(ctx, effect, what))
}

// wantUsual checks that n effects were written, except those of changes under the usual settings, which all connections
// have.
func (b *stateful) wantUsual(n int64) {
	b.Helper()
	if b.effects() != n {
		b.Errorf("%d effects; want %d", b.effects(), n)
	}
	if other := ask[int64](b, b.pool, `SELECT count(*) FROM public.`+b.table+`_effects WHERE what NOT LIKE 'change%'
		AND what NOT LIKE '%: ' || $1`, b.usual); other > 0 {
		b.Errorf("%d effects were written under other settings, such as %s; want %s", other, ask[string](b, b.pool,
			`SELECT max(what) FROM public.`+b.table+`_effects WHERE what NOT LIKE '%: ' || $1`, b.usual), b.usual)
	}
	for _, conn := range b.pool.AcquireAllIdle(b.Context()) {
		var state string
		if err := conn.QueryRow(b.Context(), `SELECT public.`+b.table+`_state()`).Scan(&state); err != nil || state != b.usual {
			b.Errorf("a connection has the settings %s, %v; want %s", state, err, b.usual)
		}
		conn.Release()
	}
}

// A record that changes settings, however it does so, has them alone: neither the others of its group nor later ones
// have them. If it changes what can't be reset, it commits in a transaction of its own, and the others in one.
func TestSettingsOfOneRecord(t *testing.T) {
	role := unique("role")
	execute(t, newPool(t, server.URL()), `CREATE ROLE `+role)
	set := func(name, value string, local bool) string {
		return fmt.Sprintf(`SELECT set_config('%s', '%s', %t)`, name, value, local)
	}
	const own, trigger = "SELECT $name()", "INSERT INTO $name VALUES (1)"
	for name, tc := range map[string]struct {
		change string // $name is a function, or a table with a trigger
		body   string // of the function
		after  bool   // the effect
		alone  bool
	}{
		"a setting of its own":         {change: set("app.tenant", "A", true)},
		"search path":                  {change: set("search_path", "pg_temp", true)},
		"role":                         {change: set("role", role, true), after: true, alone: true},
		"read only":                    {change: set("transaction_read_only", "on", true), after: true, alone: true},
		"time zone":                    {change: set("TimeZone", "Asia/Tokyo", true)},
		"a setting of the session":     {change: set("app.tenant", "A", false)},
		"the session's role":           {change: set("role", role, false), after: true, alone: true},
		"a function":                   {own, `PERFORM set_config('app.' || 'tenant', 'A', true);`, false, false},
		"a function's SET LOCAL":       {own, `SET LOCAL search_path = pg_temp;`, true, false},
		"a function's SET":             {own, `SET app.tenant = 'A';`, false, false},
		"a function's SET ROLE":        {own, `SET LOCAL ROLE ` + role + `;`, true, true},
		"a function's session":         {own, `SET SESSION AUTHORIZATION ` + role + `;`, true, true},
		"a function's read only":       {own, `SET TRANSACTION READ ONLY;`, true, true},
		"a function's temporary table": {own, `CREATE TEMP TABLE staging ON COMMIT DROP AS SELECT 1;`, false, true},
		"a table of the session":       {own, `CREATE TEMP TABLE staging AS SELECT 1;`, false, true},
		"a trigger":                    {trigger, `PERFORM set_config('app.tenant', 'A', true); RETURN NEW;`, false, false},
		"a trigger's role":             {trigger, `SET LOCAL ROLE ` + role + `; RETURN NEW;`, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newStateful(t, newPool(t, server.URL()))
			b.procedure(tc.body)
			change := strings.ReplaceAll(tc.change, "$name", `public.`+b.table+`_own`)
			transactions := map[bool]int64{true: 2, false: 1}[tc.alone]
			for n := range int64(3) { // the first one finds out what the statement does
				ss := b.enlisting(10, func(ctx context.Context, i int) error {
					if i != 4 {
						return b.enlist(ctx, fmt.Sprint(i), "", false)
					}
					return b.enlist(ctx, "change", change, tc.after)
				})
				if errs := b.store.Settle(t.Context(), ss); errs != nil {
					t.Fatal(errs)
				}
				b.wantUsual(10 * (n + 1))
				if tx := b.transactions(); tx != transactions*(n+1) {
					t.Errorf("%d transactions of %d groups; want %d each", tx, n+1, transactions)
				}
			}
		})
	}
}

// procedure creates the function, and the table with a trigger, that a change uses.
func (b *stateful) procedure(body string) {
	b.Helper()
	own := `public.` + b.table + `_own`
	if !strings.Contains(body, "RETURN NEW") {
		execute(b.T, b.pool, `CREATE FUNCTION `+own+`() RETURNS void LANGUAGE plpgsql AS $$ BEGIN `+body+` END $$`)
		return
	}
	execute(b.T, b.pool, `CREATE TABLE `+own+` (n int)`)
	execute(b.T, b.pool, `CREATE FUNCTION `+own+`() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN `+body+` END $$`)
	execute(b.T, b.pool, `CREATE TRIGGER own BEFORE INSERT ON `+own+` FOR EACH ROW EXECUTE FUNCTION `+own+`()`)
}

// A statement that changes the role for some records only is found by those for which it does.
func TestRoleOfSomeRecords(t *testing.T) {
	b := newStateful(t, newPool(t, server.URL()))
	role := unique("role")
	execute(t, b.pool, `CREATE ROLE `+role)
	for n, changed := range []int{-1, 4, 0, 9} {
		ss := b.enlisting(10, func(ctx context.Context, i int) error {
			return errors.Join(b.enlist(ctx, fmt.Sprint(i), "", false),
				pgstore.Enlist(ctx, `SELECT CASE WHEN $1 THEN set_config('role', '`+role+`', true) END`, i == changed))
		})
		if errs := b.store.Settle(t.Context(), ss); errs != nil {
			t.Fatal(errs)
		}
		b.wantUsual(int64(10 * (n + 1)))
	}
}

// A record that changes what can't be reset does not share it with the records up to the one that sets it back, also if
// the statements were seen to change nothing before.
func TestChangesThatALaterRecordSetsBack(t *testing.T) {
	role := unique("role")
	execute(t, newPool(t, server.URL()), `CREATE ROLE `+role)
	for name, tc := range map[string]struct {
		sql, nothing, change, back string // the arguments of the statement
	}{
		"role": {`SELECT set_config('role', $1, true)`, "none", role, "none"},
		"a table of the session": {`SELECT public.$table_own($1)`, "SELECT 1", "CREATE TEMP TABLE staging AS SELECT 1",
			"DROP TABLE IF EXISTS staging"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newStateful(t, newPool(t, server.URL()))
			execute(t, b.pool, `GRANT ALL ON ALL TABLES IN SCHEMA public TO `+role)
			execute(t, b.pool, `CREATE FUNCTION public.`+b.table+
				`_own(text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE $1; END $$`)
			sql := strings.ReplaceAll(tc.sql, "$table", b.table)
			for _, args := range [][]string{{tc.nothing, tc.nothing}, {tc.change, "", "", tc.back}} {
				ss := b.enlisting(len(args), func(ctx context.Context, i int) error {
					if args[i] == "" {
						return b.enlist(ctx, fmt.Sprint(i), "", false)
					}
					return errors.Join(pgstore.Enlist(ctx, sql, args[i]), b.enlist(ctx, "change", "", false))
				})
				if errs := b.store.Settle(t.Context(), ss); errs != nil {
					t.Fatal(errs)
				}
			}
			b.wantUsual(6)
		})
	}
}

// What a handler's own transaction changes in its session is not what later handlers and claims have, however it ends.
func TestSettingsOfATransaction(t *testing.T) {
	role := unique("role")
	execute(t, newPool(t, server.URL()), `CREATE ROLE `+role)
	for name, change := range map[string]string{
		"a setting of its own":   `SELECT set_config('app.tenant', 'A', false)`,
		"search path":            `SET search_path = public`,
		"time zone":              `SET TimeZone = 'Asia/Tokyo'`,
		"read only":              `SET default_transaction_read_only = on`,
		"role":                   `SET ROLE ` + role,
		"session":                `SET SESSION AUTHORIZATION ` + role,
		"a table of the session": `CREATE TEMP TABLE staging AS SELECT 1`,
	} {
		for end, wants := range map[string]idem.Kind{"": idem.Executed, "error": idem.Retry, "COMMIT": idem.DeadLettered} {
			t.Run(name+" "+end, func(t *testing.T) {
				b := newStateful(t, newPool(t, server.URL(), func(c *pgxpool.Config) { c.MaxConns = 2 }))
				execute(t, b.pool, `GRANT ALL ON ALL TABLES IN SCHEMA public TO `+role)
				b.want(b.engine.Do(t.Context(), b.task("change", func(ctx context.Context, tx pgx.Tx) (_ []byte, err error) {
					if end == "COMMIT" {
						_, err = tx.Exec(ctx, end)
					}
					_, changing := tx.Exec(ctx, change)
					if err = errors.Join(err, changing); err == nil && end == "error" {
						err = errBoom
					}
					return nil, err
				})), wants)
				for n := range 2 {
					b.want(b.engine.Do(t.Context(), b.task(fmt.Sprint("tx", n), func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
						_, err := tx.Exec(ctx, `INSERT INTO public.`+b.table+`_effects VALUES (': ' || public.`+b.table+`_state())`)
						return nil, err
					})), idem.Executed)
					b.want(b.engine.Do(t.Context(), b.handled(fmt.Sprint("enlisted", n), idem.HandlerFunc(
						func(ctx context.Context) ([]byte, error) { return nil, b.enlist(ctx, "", "", false) }))), idem.Executed)
				}
				b.wantUsual(4)
			})
		}
	}
}

// Behind a pooler a connection that the store closes goes on as the server's. Later records have nothing of a record
// that has changed its session, whichever way the two write.
func TestSettingsBehindAPooler(t *testing.T) {
	role := unique("role")
	direct := newPool(t, server.URL())
	execute(t, direct, `CREATE ROLE `+role)
	for name, change := range map[string]string{
		"a setting of its own":   `SELECT set_config('app.tenant', 'A', false)`,
		"role":                   `SELECT set_config('role', '` + role + `', false)`,
		"session":                `SELECT set_config('session_authorization', '` + role + `', false)`,
		"a table of the session": `SELECT $name()`,
	} {
		for _, way := range []string{"enlisted", "transaction", "bulk", "another user"} {
			t.Run(name+" "+way, func(t *testing.T) {
				pooled := newPool(t, pgpooler.Start(t, server.URL())+"&default_query_exec_mode=exec",
					func(c *pgxpool.Config) { c.MaxConns = 2 })
				b := newStateful(t, pooled)
				b.pool = direct
				b.procedure(`CREATE TEMP TABLE staging AS SELECT 1;`)
				change := strings.ReplaceAll(change, "$name", `public.`+b.table+`_own`)
				execute(t, direct, `GRANT ALL ON ALL TABLES IN SCHEMA public TO `+role)
				effect := `INSERT INTO public.` + b.table + `_effects VALUES (': ' || public.` + b.table + `_state())`
				for n := range int64(3) {
					ss := b.enlisting(4, func(ctx context.Context, i int) error { return b.enlist(ctx, fmt.Sprint(i), "", false) })
					if errs := b.store.Settle(t.Context(), ss); errs != nil {
						t.Fatal(errs)
					}
					for _, sql := range []string{effect, change} {
						key := fmt.Sprint(sql == change, n)
						switch {
						case sql == change && way == "another user":
							execute(t, pooled, sql)
						case sql == change && way == "enlisted":
							b.want(b.engine.Do(t.Context(), b.handled(key, idem.HandlerFunc(
								func(ctx context.Context) ([]byte, error) { return nil, pgstore.Enlist(ctx, sql) }))), idem.Executed)
						case sql == change && way == "bulk":
							b.want(b.inOneCall(t, key, sql), idem.Executed)
						default:
							b.want(b.engine.Do(t.Context(), b.task(key, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
								_, err := tx.Exec(ctx, sql)
								return nil, err
							})), idem.Executed)
						}
					}
					b.wantUsual(5 * (n + 1))
				}
			})
		}
	}
}

// inOneCall performs a statement in the transaction of a bulk handler.
func (b *stateful) inOneCall(t *testing.T, key, sql string) idem.Outcome {
	t.Helper()
	scheduler, err := idem.NewScheduler(b.engine, idem.SchedulerConfig{
		Bulk: func(ctx context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
			tx, err := pgstore.TxFrom(ctx)
			if err == nil {
				_, err = tx.Exec(ctx, sql)
			}
			return make([]idem.BulkResult, len(items)), err
		}})
	if err != nil {
		t.Fatal(err)
	}
	it := &idem.Item{Task: b.task(key, nil)}
	scheduler.Run(t.Context(), [][]*idem.Item{{it}})
	return it.Outcome
}

// What another user of the pool has left in a session is not what a group has.
func TestSettingsOfOthers(t *testing.T) {
	b := newStateful(t, newPool(t, server.URL(), func(c *pgxpool.Config) { c.MaxConns = 1 }))
	for n, change := range []string{`SELECT 1`, `SELECT set_config('app.tenant', 'A', false)`, `SET TimeZone = 'Asia/Tokyo'`,
		`CREATE TEMP TABLE staging AS SELECT 1`} {
		execute(t, b.pool, change)
		ss := b.enlisting(3, func(ctx context.Context, i int) error { return b.enlist(ctx, fmt.Sprint(i), "", false) })
		if errs := b.store.Settle(t.Context(), ss); errs != nil {
			t.Fatal(errs)
		}
		b.wantUsual(int64(3 * (n + 1)))
	}
}

// Each of many records has a tenant of its own.
func TestEachRecordHasItsTenant(t *testing.T) {
	const records = 50
	b := newStateful(t, newPool(t, server.URL()))
	scheduler, err := idem.NewScheduler(b.engine, idem.SchedulerConfig{Concurrency: records})
	if err != nil {
		t.Fatal(err)
	}
	var lanes [][]*idem.Item
	for i := range records {
		h := func(ctx context.Context) ([]byte, error) {
			change := ""
			if i%2 == 0 {
				change = fmt.Sprintf(`SELECT set_config('app.tenant', 'T%d', true)`, i)
			}
			return nil, b.enlist(ctx, fmt.Sprint(i), change, false)
		}
		lanes = append(lanes, []*idem.Item{{Task: b.handled(fmt.Sprint("k", i), idem.HandlerFunc(h))}})
	}
	scheduler.Run(t.Context(), lanes)
	for i, lane := range lanes {
		b.want(lane[0].Outcome, idem.Executed)
		want := fmt.Sprintf("%d: %s", i, b.usual)
		if i%2 == 0 {
			want = strings.Replace(want, "nobody", fmt.Sprintf("T%d", i), 1)
		}
		if n := ask[int](t, b.pool, `SELECT count(*) FROM `+b.table+`_effects WHERE what = $1`, want); n != 1 {
			t.Errorf("there are %d effects %q", n, want)
		}
	}
}

// The settings that a pool gives its connections are those of each record. A role that a handler's own transaction has
// left on a connection is not: the connection is closed.
func TestSettingsOfThePool(t *testing.T) {
	role := unique("role")
	execute(t, newPool(t, server.URL()), `CREATE ROLE `+role)
	b := newStateful(t, newPool(t, server.URL(), func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["options"] = "-c app.tenant=pool"
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `SELECT set_config('TimeZone', 'Asia/Tokyo', false), set_config('search_path', 'public', false)`)
			return err
		}
	}))
	if !strings.Contains(b.usual, "public Asia/Tokyo pool") {
		t.Fatal(b.usual)
	}
	group := func() {
		t.Helper()
		ss := b.enlisting(10, func(ctx context.Context, i int) error {
			change := ""
			if i == 4 {
				change = `SELECT set_config('TimeZone', 'UTC', false)`
			}
			return b.enlist(ctx, map[bool]string{true: "change", false: fmt.Sprint(i)}[change != ""], change, false)
		})
		if errs := b.store.Settle(t.Context(), ss); errs != nil {
			t.Fatal(errs)
		}
	}
	group()
	b.wantUsual(10)
	if n := b.transactions(); n != 1 {
		t.Errorf("%d transactions; want 1", n)
	}
	execute(t, b.pool, `GRANT ALL ON ALL TABLES IN SCHEMA public TO `+role)
	b.want(b.engine.Do(t.Context(), b.task("k", func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		_, err := tx.Exec(ctx, `SET ROLE `+role)
		return nil, err
	})), idem.Executed)
	group()
	b.wantUsual(20)
}
