//go:build servers

package target_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/redisserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

// postgresStore starts a PostgreSQL server with a table of keys.
func postgresStore(t *testing.T) (storeURL string, s store.Store) {
	t.Helper()
	server := testkit.Run(t, pgserver.Start, pgserver.Config{})
	pool, err := pgstore.NewPool(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pgstore.Migrate(t.Context(), pool, "keys"); err != nil {
		t.Fatal(err)
	}
	st, err := pgstore.New(pool, pgstore.Config{Table: "keys"})
	if err != nil {
		t.Fatal(err)
	}
	return server.URL(), st
}

// redisStore starts a Redis server.
func redisStore(t *testing.T) (storeURL string, s store.Store) {
	t.Helper()
	server := testkit.Run(t, redisserver.Start, redisserver.Config{})
	client, err := redisstore.NewClient(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	testkit.CloseAtEnd(t, client)
	st, err := redisstore.New(client, redisstore.Config{Prefix: "keys"})
	if err != nil {
		t.Fatal(err)
	}
	return server.URL(), st
}

// fillStore adds four keys: COMPLETED, FAILED, overdue and in flight.
func fillStore(t *testing.T, s store.Store) {
	t.Helper()
	claim := func(key string, lease time.Duration) store.Entry {
		res := s.Claim(t.Context(), []store.ClaimRequest{{Key: key, Owner: "owner-" + key,
			Source: "payments-0@7", Lease: lease, Retention: time.Hour}})
		if res[0].Err != nil {
			t.Fatal(res[0].Err)
		}
		return res[0].Entry
	}
	settle := func(entry store.Entry, set store.Settlement) {
		set.Key, set.Token, set.Owner, set.Retention = entry.Key, entry.Token, entry.Owner, time.Hour
		if errs := s.Settle(t.Context(), []store.Settlement{set}); errs != nil {
			t.Fatal(errs)
		}
	}
	claim("ledger#payments#dead", time.Millisecond)
	claim("ledger#payments#flying", time.Hour)
	settle(claim("ledger#payments#done", time.Hour),
		store.Settlement{Op: store.OpComplete, Result: []byte(`{"balance":1250}`)})
	settle(claim("ledger#payments#failed", time.Hour),
		store.Settlement{Op: store.OpFail,
			Failure: &store.Failure{Code: store.CodePermanent, Message: "no such account"}})
}

func TestOtherStores(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (string, store.Store){"PostgreSQL": postgresStore,
		"Redis": redisStore} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			where, st := open(t)
			fillStore(t, st)
			flags := []string{"--store-url", where, "--table", "keys"}
			t.Run("get", func(t *testing.T) { getFromStore(t, name, flags) })
			t.Run("list", func(t *testing.T) { listStore(t, name, flags) })
			t.Run("reconcile", func(t *testing.T) { reconcileStore(t, flags) })
			t.Run("console", func(t *testing.T) { consoleOfStore(t, name, flags) })
			t.Run("no answer", func(t *testing.T) { wrongPassword(t, where) })
		})
	}
}

func getFromStore(t *testing.T, name string, flags []string) {
	r := clitest.Run(t, append([]string{"get", "done", "--namespace", "ledger", "--topic", "payments"},
		flags...)...)
	for _, says := range []string{"status    COMPLETED\n", "attempts  1\n", "source    payments-0@7\n",
		`{"balance":1250}`} {
		if r.Code != 0 || r.Err != "" || !strings.Contains(r.Out, says) {
			t.Errorf("%+v; want exit 0, and %q", r, says)
		}
	}
	r = clitest.Run(t, append([]string{"get", "--json", "ledger#payments#failed"}, flags...)...)
	var entry struct {
		Status  string
		Failure struct{ Message string }
	}
	if err := json.Unmarshal([]byte(r.Out), &entry); err != nil || entry.Status != "FAILED" ||
		entry.Failure.Message != "no such account" {
		t.Errorf("%+v: %v", r, err)
	}
	if r = clitest.Run(t, append([]string{"get", "missing"}, flags...)...); r.Code != 1 ||
		!strings.Contains(r.Err, name) || !strings.Contains(r.Err, "<namespace>#<topic>#<key>") {
		t.Errorf("%+v; want exit 1, where it looked, and how keys are stored", r)
	}
}

func listStore(t *testing.T, name string, flags []string) {
	r := clitest.Run(t, append([]string{"list"}, flags...)...)
	if r.Code != 0 || strings.Count(r.Out, "\n") != 5 || !strings.Contains(r.Err, name) ||
		!strings.Contains(r.Err, "4 entries\n") {
		t.Errorf("%+v; want four entries, and where they are", r)
	}
	for args, want := range map[string]string{
		"--status FAILED": "ledger#payments#failed", "--overdue": "ledger#payments#dead",
		"--key-has fly": "ledger#payments#flying", "--status COMPLETED": "ledger#payments#done",
	} {
		r := clitest.Run(t, append(append([]string{"list", "--json"}, flags...), strings.Fields(args)...)...)
		var entry struct{ IdempotencyKey string }
		if err := json.Unmarshal([]byte(r.Out), &entry); err != nil || entry.IdempotencyKey != want ||
			r.Code != 0 {
			t.Errorf("list %s: %+v (%v); want %s alone", args, r, err, want)
		}
	}
}

func reconcileStore(t *testing.T, flags []string) {
	r := clitest.Run(t, append([]string{"reconcile"}, flags...)...)
	if r.Code != 0 || r.Err != "" || !strings.Contains(r.Out, "4 records in the store: 1 hang, 1 failed.\n") {
		t.Errorf("%+v; want one that hangs and one that failed", r)
	}
	path := clitest.File(t, "bookings.csv", "id\ndone\nghost\nflying\n")
	r = clitest.Run(t, append([]string{"reconcile", "--against", path, "--field", "id",
		"--namespace", "ledger", "--topic", "payments", "--json"}, flags...)...)
	var report struct {
		Overdue, Failed, OnlyInStore, OnlyInExport, Unsettled []any
		Matched                                               int
	}
	if err := json.Unmarshal([]byte(r.Out), &report); err != nil || r.Code != 1 || report.Matched != 1 ||
		len(report.OnlyInExport) != 1 ||
		len(report.Unsettled) != 1 || report.OnlyInStore != nil || len(report.Overdue) != 1 ||
		len(report.Failed) != 1 {
		t.Errorf("%+v: %v", r, err)
	}
}

// consoleOfStore deletes an entry.
func consoleOfStore(t *testing.T, name string, flags []string) {
	p := clitest.OpenConsole(t, append(flags, "--allow-changes")...)
	if s := clitest.Answer[console.Store](p, "GET", "api/store", nil); !strings.Contains(s.Place, name) {
		t.Errorf("%+v; want %s", s, name)
	}
	l := clitest.Answer[console.Listing](p, "GET", "api/entries?overdue=true&status=STARTED", nil)
	if len(l.Entries) != 1 || l.Read != 4 || l.Cursor != "" || l.Entries[0].Key != "ledger#payments#dead" {
		t.Fatalf("%+v; want the one whose owner died", l)
	}
	dead := clitest.Answer[console.Entry](p, "GET", "api/entry?key=dead&namespace=ledger&topic=payments", nil)
	if dead.State != console.LeaseOver || dead.Token != l.Entries[0].Token {
		t.Errorf("%+v", dead)
	}
	p.Refused("POST", "api/actions", console.Change{Action: "delete", Key: dead.Key, Token: dead.Token + 1},
		http.StatusConflict, "nothing was deleted")
	clitest.Answer[map[string]string](p, "POST", "api/actions",
		console.Change{Action: "delete", Key: dead.Key, Token: dead.Token})
	p.Refused("POST", "api/actions", console.Change{Action: "delete", Key: dead.Key, Token: dead.Token},
		http.StatusNotFound, "the entry is gone")
}

func wrongPassword(t *testing.T, where string) {
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), "wrong-secret")
	for _, verb := range [][]string{{"get", "k"}, {"list"}, {"reconcile"}} {
		r := clitest.Run(t, append(verb, "--store-url", u.String())...)
		if r.Code != 1 || r.Out != "" || strings.Contains(r.Err, "wrong-secret") ||
			!strings.Contains(r.Err, "wrong") {
			t.Errorf("%v: %+v; want exit 1, that the credentials are wrong, and no password", verb, r)
		}
	}
}

func TestStoreURLs(t *testing.T) {
	for args, says := range map[string]string{
		"get k --store-url mysql://u:hush@h/d":                     "postgres://, redis:// and rediss://",
		"get k --store-url postgres://u:hush@h:port/d":             "want postgres://",
		"get k --store-url redis://u:hush@h:port":                  "want redis://",
		"get k --store-url postgres://u:hush@h/d --table a.b.c":    "Table",
		"list --store-url redis://u:hush@h --table a{b}":           "Prefix",
		"list --store-url redis://u:hush@h --region eu-central-1":  "--region",
		"reconcile --store-url redis://u:hush@h --endpoint-url x":  "--endpoint-url",
		"reconcile --store-url u:hush@h":                           "postgres://, redis:// and rediss://",
		"get k --store-url redis://u:hush@h/7?cluster=true":        "a cluster has only database 0",
		"get k --store-url postgres://u:hush@h/d?sslmode=whatever": "sslmode",
		"get k --store-url rediss://u:hush@h?iam=x":                "a user without a password with iam",
	} {
		r := clitest.Run(t, strings.Fields(args)...)
		if r.Code != 2 || r.Out != "" || strings.Contains(r.Err, "hush") || !strings.Contains(r.Err, says) {
			t.Errorf("idemsk %s: %+v; want exit 2, %q, and no password", args, r, says)
		}
	}
	t.Setenv("IDEMSK_STORE_URL", "redis://127.0.0.1:1")
	if r := clitest.Run(t, "get", "k"); r.Code != 1 || !strings.Contains(r.Err, "redisstore") {
		t.Errorf("with IDEMSK_STORE_URL: %+v; want the server that it names to be asked", r)
	}
	if r := clitest.Run(t, "get", "k", "--endpoint-url", "http://127.0.0.1:1"); r.Code != 1 ||
		!strings.Contains(r.Err, "nothing listens at 127.0.0.1:1:") {
		t.Errorf("with an endpoint of DynamoDB: %+v; want it to be asked", r)
	}
}
