//go:build servers

package pgstore_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/pgpooler"
	"github.com/idemsk/idemsk/internal/test/pgserver"
)

func TestNewNamesEveryInvalidField(t *testing.T) {
	_, err := pgstore.New(nil, pgstore.Config{Table: "a b", MaxClockSkew: -2, IdleLimit: -1})
	if !errors.Is(err, idem.ErrInvalidConfig) {
		t.Fatalf("%v; want ErrInvalidConfig", err)
	}
	for _, want := range []string{"pool", `Table is "a b"`, "MaxClockSkew is -2ns", "IdleLimit is -1ns"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q in it", err, want)
		}
	}
}

func TestTableNames(t *testing.T) {
	pool := newPool(t, server.URL())
	execute(t, pool, `CREATE SCHEMA "Ops"`)
	defer execute(t, pool, `DROP SCHEMA "Ops" CASCADE`)
	for name, ok := range map[string]bool{
		"idemsk": true, "Idem-sk_2": true, "Ops.idemsk": true, strings.Repeat("t", 48): true, "select": true,
		"1a": false, "a b": false, "a.b.c": false, `a"b`: false, "a;b": false, strings.Repeat("t", 49): false,
		".a": false,
	} {
		if pgstore.ValidTable(name) != ok {
			t.Errorf("ValidTable(%q) is %t", name, !ok)
		}
		if _, err := pgstore.Migrate(t.Context(), pool, name); (err == nil) != ok {
			t.Errorf("migrate %q: %v", name, err)
		}
		if !ok {
			continue
		}
		st := newStore(t, pool, pgstore.Config{Table: name})
		if err := st.Check(t.Context()); err != nil || st.Table() != name {
			t.Errorf("check %q: %v", st.Table(), err)
		}
		if res := st.Claim(t.Context(), []store.ClaimRequest{request("k",
			1)})[0]; res.State != store.Claimed {
			t.Errorf("claim in %q: %v", name, res.Err)
		}
	}
}

// everyOperation returns the error of each of the store's operations, by its name.
func everyOperation(t *testing.T, st *pgstore.Store) map[string]error {
	t.Helper()
	errs := map[string]error{
		"claim":  st.Claim(t.Context(), []store.ClaimRequest{request("k", 1)})[0].Err,
		"delete": st.Delete(t.Context(), "k", 1),
		"check":  st.Check(t.Context()),
	}
	for _, op := range []store.SettleOp{store.OpComplete, store.OpFail, store.OpRelease, store.OpExtend} {
		errs[op.String()] = st.Settle(t.Context(),
			[]store.Settlement{settlement(store.Entry{Key: "k", Token: 1, Owner: "o"}, op)})[0]
	}
	_, errs["get"] = st.Get(t.Context(), "k")
	_, errs["prune"] = st.Prune(t.Context(), 10)
	for _, err := range st.List(t.Context(), store.ListQuery{Status: store.StatusFailed}) {
		errs["list"] = err
	}
	return errs
}

// wantEach checks that each error contains all texts.
func wantEach(t *testing.T, errs map[string]error, wants ...string) {
	t.Helper()
	for op, err := range errs {
		for _, want := range append(wants, "pgstore: "+op) {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q in it", op, err, want)
			}
		}
		if errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v is a proper answer", op, err)
		}
		if err != nil && strings.Contains(err.Error(), pgserver.Password) {
			t.Errorf("%s: the error tells the password: %v", op, err)
		}
	}
}

func TestErrorsNameTheRemedy(t *testing.T) {
	root := newPool(t, server.URL())
	table := newTable(t, root)
	role := unique("role")
	execute(t, root, `CREATE ROLE `+role+` LOGIN PASSWORD 'secret'`)
	execute(t, root, `GRANT SELECT ON `+table+`_migrations TO `+role)
	for _, tc := range []struct {
		name, url, table string
		want             []string
	}{
		{"no server", "postgres://postgres@127.0.0.1:1/postgres", table,
			[]string{"can't be reached", "IDEMSK_STORE_URL"}},
		{"wrong password", server.URLOf(pgserver.User, "wrong", pgserver.Database), table,
			[]string{"password authentication failed", "credentials are wrong"}},
		{"no such user", server.URLOf("who", "x", pgserver.Database), table,
			[]string{"credentials are wrong"}},
		{"no such database", server.URLOf(pgserver.User, pgserver.Password, "elsewhere"), table,
			[]string{"elsewhere", "does not exist", "IDEMSK_STORE_URL"}},
		{"no such table", server.URL(), "not_there",
			[]string{"not_there", "run idemsk migrate", "IDEMSK_TABLE"}},
		{"no such schema", server.URL(), "nowhere.not_there",
			[]string{"nowhere.not_there", "run idemsk migrate"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			st := newStore(t, newPool(t, tc.url), pgstore.Config{Table: tc.table})
			wantEach(t, everyOperation(t, st), append(tc.want, "table "+tc.table)...)
		})
	}
	t.Run("no privilege", func(t *testing.T) {
		st := newStore(t, newPool(t, server.URLOf(role, "secret", pgserver.Database)),
			pgstore.Config{Table: table})
		errs := everyOperation(t, st)
		delete(errs, "check") // it reads no key
		wantEach(t, errs, "permission denied", "the role needs SELECT, INSERT, UPDATE and DELETE")
	})
	t.Run("prepared statements behind a pooler", func(t *testing.T) {
		url := pgpooler.Start(t, server.URL())
		everyOperation(t, newStore(t, newPool(t, url), pgstore.Config{Table: table})) // another client
		errs := everyOperation(t, newStore(t, newPool(t, url), pgstore.Config{Table: table}))
		wantEach(t, errs, "SQLSTATE 42P05", "max_prepared_statements", "default_query_exec_mode=exec")
		for op, err := range errs {
			if !errors.Is(err, store.ErrMisconfigured) {
				t.Errorf("%s: %v; want ErrMisconfigured", op, err)
			}
		}
		st := newStore(t, newPool(t, url+"&default_query_exec_mode=exec"), pgstore.Config{Table: table})
		if err := st.Check(t.Context()); err != nil {
			t.Errorf("with the remedy: %v", err)
		}
	})
	t.Run("a transaction", func(t *testing.T) {
		b := newBank(t, root, idem.Config{})
		set, in := b.inTransaction(claimOne(t, b.store, request("k", 1), store.Claimed).Entry)
		execute(t, root, `ALTER TABLE `+b.table+` RENAME TO `+b.table+`_away`)
		for range 2 { // the transaction has ended after the first one
			wantEach(t, map[string]error{"complete": b.store.Settle(t.Context(), []store.Settlement{set})[0]},
				b.table, "run idemsk migrate")
		}
		if _, err := pgstore.TxFrom(in); err == nil || b.effects() != 0 {
			t.Errorf("after the end: %v, %d effects", err, b.effects())
		}
		wantGivenBack(t, root)
	})
}

func TestNewPoolRejectsInvalidURLs(t *testing.T) {
	for _, url := range []string{"postgres://user:" + pgserver.Password + "@host:port/x", "redis://host",
		"postgres://h/x?sslmode=perhaps", "postgres://u:x@" + pgserver.Password + "@h/x", "postgres://u:1/" + pgserver.Password + "@h/x",
		"host=h password = " + pgserver.Password + " sslmode=perhaps", "host=h PASSWORD=" + pgserver.Password + " sslmode=perhaps",
		"host=h password=x " + pgserver.Password + " sslmode=disable"} {
		_, err := pgstore.NewPool(url)
		if !errors.Is(err, idem.ErrInvalidConfig) || !strings.Contains(err.Error(), "IDEMSK_STORE_URL") {
			t.Errorf("%s: %v; want ErrInvalidConfig that names the variable", url, err)
		} else if strings.Contains(err.Error(), pgserver.Password) {
			t.Errorf("the error tells the password: %v", err)
		}
	}
}

func TestCheckReportsTheStateOfTheTable(t *testing.T) {
	pool := newPool(t, server.URL())
	table := newTable(t, pool)
	st := newStore(t, pool, pgstore.Config{Table: table})
	check := func(want error, says string) {
		t.Helper()
		if err := st.Check(t.Context()); !errors.Is(err, want) ||
			(want != nil && !strings.Contains(err.Error(), says)) {
			t.Errorf("%v; want %v, and %q in it", err, want, says)
		}
	}
	check(nil, "")
	execute(t, pool, `INSERT INTO `+table+`_migrations VALUES (7, '0007_of_the_future.sql')`)
	check(pgstore.ErrTableNewer, "at version 7")
	if _, err := pgstore.Migrate(t.Context(), pool, table); !errors.Is(err, pgstore.ErrTableNewer) {
		t.Errorf("migrating a newer table: %v; want ErrTableNewer", err)
	}
	execute(t, pool, `DELETE FROM `+table+`_migrations`)
	check(pgstore.ErrTableOlder, "run idemsk migrate")
	execute(t, pool, `DROP TABLE `+table)
	check(pgstore.ErrNoTable, "run idemsk migrate")
	check(store.ErrMisconfigured, "run idemsk migrate")
	if res := st.Claim(t.Context(), []store.ClaimRequest{request("k", 1)})[0]; !errors.Is(res.Err,
		store.ErrMisconfigured) {
		t.Errorf("a claim without a table: %v; want ErrMisconfigured", res.Err)
	}
}

// What the role may not do with the table of the keys is an error before the first claim.
func TestCheckReportsMissingPermissions(t *testing.T) {
	direct := newPool(t, server.URL())
	const byColumn = `DO $$ BEGIN EXECUTE (SELECT format('REVOKE UPDATE ON TABLE0 FROM ROLE0; GRANT UPDATE (%s) ON TABLE0 TO ROLE0',
		string_agg(quote_ident(attname), ',')) FROM pg_attribute WHERE attrelid = 'TABLE0'::regclass AND attnum > 0 AND NOT attisdropped); END $$`
	for _, tc := range []struct{ change, want string }{
		{"", ""},
		{"REVOKE SELECT ON TABLE0 FROM ROLE0", "lacks SELECT"},
		{"REVOKE INSERT ON TABLE0 FROM ROLE0", "lacks INSERT"},
		{"REVOKE UPDATE ON TABLE0 FROM ROLE0", "lacks UPDATE"},
		{byColumn, ""},
		{byColumn + "; REVOKE UPDATE (owner) ON TABLE0 FROM ROLE0", "lacks UPDATE"},
		{"ALTER TABLE TABLE0 ENABLE ROW LEVEL SECURITY", "row-level security"},
		{"ALTER TABLE TABLE0 ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON TABLE0 TO ROLE0 USING (true)", ""},
		{"ALTER TABLE TABLE0 ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON TABLE0 USING (true)", ""},
		{"ALTER TABLE TABLE0 ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON TABLE0 TO pg_monitor USING (true)", "row-level security, and no policy that lets the role SELECT, INSERT, UPDATE"},
		{"ALTER TABLE TABLE0 ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON TABLE0 TO pg_monitor USING (true); GRANT pg_monitor TO ROLE0", ""},
		{"ALTER TABLE TABLE0 ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON TABLE0 AS RESTRICTIVE USING (true)", "row-level security"},
		{"ALTER TABLE TABLE0 ENABLE ROW LEVEL SECURITY; CREATE POLICY r ON TABLE0 FOR SELECT USING (true); CREATE POLICY w ON TABLE0 FOR UPDATE USING (true)", "lets the role INSERT:"},
	} {
		table, role := newTable(t, direct), unique("role")
		execute(t, direct, `CREATE ROLE `+role+` LOGIN PASSWORD 'x'`)
		execute(t, direct, `GRANT SELECT, INSERT, UPDATE ON `+table+` TO `+role)
		execute(t, direct, `GRANT SELECT ON `+table+`_migrations TO `+role)
		if tc.change != "" {
			execute(t, direct, strings.NewReplacer("TABLE0", table, "ROLE0", role).Replace(tc.change))
		}
		u, err := url.Parse(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(role, "x")
		st := newStore(t, newPool(t, u.String()), pgstore.Config{Table: table})
		err = st.Check(t.Context())
		if tc.want == "" && err != nil || tc.want != "" && (!errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v; want %q", tc.change, err, tc.want)
		}
		if claimed := st.Claim(t.Context(), []store.ClaimRequest{request("k", 1)})[0]; (claimed.Err == nil) != (tc.want == "") && tc.want != "lacks UPDATE" {
			t.Errorf("%s: a claim: %v", tc.change, claimed.Err)
		}
	}
}

func TestCheckRefusesAnOlderServer(t *testing.T) {
	for version, ok := range map[int]bool{90624: false, 140012: false, 150000: true, 180001: true} {
		if err := pgstore.CheckServer(version); (err == nil) != ok ||
			(err != nil && !strings.Contains(err.Error(), "want 15 or later")) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

func TestCheckRequiresUTF8(t *testing.T) {
	root := newPool(t, server.URL())
	execute(t, root, `CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0`)
	pool := newPool(t, server.URLOf(pgserver.User, pgserver.Password, "latin"))
	if err := newStore(t, pool, pgstore.Config{}).Check(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "encoding is LATIN1") {
		t.Error(err)
	}
	pool.Close() // so that the database can be dropped
	execute(t, root, `DROP DATABASE latin`)
}

func readOnly(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" }

func TestErrorsNameAReadOnlyServer(t *testing.T) {
	root := newPool(t, server.URL())
	st := newStore(t, newPool(t, server.URL(), readOnly), pgstore.Config{Table: newTable(t, root)})
	errs := everyOperation(t, st)
	delete(errs, "get") // it only reads
	delete(errs, "list")
	wantEach(t, errs, "read-only", "target_session_attrs=read-write")
}

// After the promotion, completed keys are duplicates, and claims that were refused before succeed.
func TestStandbyRefusesUntilPromoted(t *testing.T) {
	primary := ownServer(t, nil)
	pool := newPool(t, primary.URL())
	st := newStore(t, pool, pgstore.Config{})
	done := st.Claim(t.Context(), []store.ClaimRequest{request("done", 1)})[0].Entry
	if errs := st.Settle(t.Context(), []store.Settlement{settlement(done, store.OpComplete)}); errs != nil {
		t.Fatal(errs[0])
	}
	standby, err := primary.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := standby.Close(); err != nil {
			t.Error(err)
		}
	}()
	there := newPool(t, standby.URL())
	follower := newStore(t, there, pgstore.Config{Table: st.Table()})
	for _, key := range []string{"done", "new"} {
		err := follower.Claim(t.Context(), []store.ClaimRequest{request(key, 2)})[0].Err
		if err == nil || !strings.Contains(err.Error(), "the server is a standby") {
			t.Errorf("claim of %q on a standby: %v", key, err)
		}
	}
	if err := follower.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "it is a standby") {
		t.Errorf("check of a standby: %v", err)
	}
	if err := primary.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]store.ClaimState{"done": store.ClaimCompleted, "new": store.Claimed} {
		if res := follower.Claim(t.Context(), []store.ClaimRequest{request(key, 3)})[0]; res.State != want {
			t.Errorf("claim of %q after the promotion: state %d, error %v; want state %d", key, res.State,
				res.Err, want)
		}
	}
}

func TestCancellationIsNotUnavailability(t *testing.T) {
	pool := newPool(t, server.URL())
	st := newStore(t, pool, pgstore.Config{})
	lock, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Rollback(context.Background())
	if _, err := lock.Exec(t.Context(), `LOCK TABLE `+st.Table()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = st.Claim(ctx, []store.ClaimRequest{request("k", 1)})[0].Err
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "can't be reached") {
		t.Errorf("%v; want DeadlineExceeded", err)
	}
}
