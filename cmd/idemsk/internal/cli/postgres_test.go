//go:build servers

package cli_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

func TestMigrateAndPrune(t *testing.T) {
	t.Parallel()
	server := testkit.Run(t, pgserver.Start, pgserver.Config{})
	if r := idemsk(t, "prune", "--store-url", server.URL(), "--table", "keys"); r.code != 1 || !strings.Contains(r.err, "idemsk migrate") {
		t.Errorf("without the table: %+v; want exit 1 and what to do", r)
	}
	for _, want := range []string{"1 migration applied", "0 migrations applied"} {
		if r := idemsk(t, "migrate", "--store-url", server.URL(), "--table", "keys"); r.code != 0 || !strings.Contains(r.err, want) {
			t.Errorf("%+v; want %q", r, want)
		}
	}
	if r := idemsk(t, "migrate", "--store-url", server.URL(), "--table", "idempotency.keys"); r.code != 1 ||
		!strings.Contains(r.err, "CREATE SCHEMA first") || strings.Contains(r.err, "run idemsk migrate") {
		t.Errorf("without the schema: %+v; want exit 1 and what to do, which is not migrate", r)
	}
	pool, err := pgstore.NewPool(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	st, err := pgstore.New(pool, pgstore.Config{Table: "keys"})
	if err != nil {
		t.Fatal(err)
	}
	reqs := []store.ClaimRequest{
		{Key: "a", Owner: "o1", Lease: time.Hour, Retention: time.Hour}, {Key: "b", Owner: "o2", Lease: time.Hour, Retention: time.Hour},
		{Key: "c", Owner: "o3", Lease: time.Hour, Retention: time.Hour},
	}
	for _, r := range st.Claim(t.Context(), reqs) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if _, err := pool.Exec(t.Context(), `UPDATE keys SET expiry_timestamp = '2020-01-01' WHERE idempotency_key <> 'b'`); err != nil {
		t.Fatal(err)
	}
	if r := idemsk(t, "prune", "--store-url", server.URL(), "--table", "keys", "--batch", "1"); r.code != 0 || !strings.Contains(r.err, "2 keys deleted") {
		t.Errorf("%+v; want 2 deleted", r)
	}
}

// endless is an output that ends the run after a number of occurrences of a text.
type endless struct {
	bytes.Buffer
	text string
	left int
	end  func()
}

func (e *endless) Write(p []byte) (int, error) {
	if strings.Contains(string(p), e.text) {
		if e.left--; e.left == 0 {
			e.end()
		}
	}
	return e.Buffer.Write(p)
}

func TestPruneAtAnInterval(t *testing.T) {
	t.Parallel()
	server := testkit.Run(t, pgserver.Start, pgserver.Config{})
	if r := idemsk(t, "migrate", "--store-url", server.URL(), "--table", "keys"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	for table, text := range map[string]string{"keys": "0 keys deleted", "missing": "idemsk migrate"} { // a failure does not end it
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out := &endless{text: text, left: 3, end: cancel}
		args := []string{"prune", "--every", "10ms", "--store-url", server.URL(), "--table", table}
		if code := cli.Main(ctx, args, cli.Streams{Out: out, Err: out}, "v1"); code != 0 || out.left > 0 {
			t.Errorf("exit %d, %d more wanted: %s", code, out.left, out.String())
		}
		cancel()
	}
}

// IDEMSK_TABLE, which errors of the stores name, is the default of --table.
func TestTableFromTheEnvironment(t *testing.T) {
	endpoint, client := newDynamoDB(t)
	if err := dynamostore.CreateTable(t.Context(), client, "other"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("IDEMSK_TABLE", "other")
	if r := idemsk(t, "list", "--endpoint-url", endpoint); r.code != 0 || !strings.Contains(r.err, "scanning the table other") {
		t.Errorf("%+v", r)
	}
	if r := idemsk(t, "list", "--endpoint-url", endpoint, "--table", "nowhere"); r.code != 1 || !strings.Contains(r.err, "check the name of the table") {
		t.Errorf("%+v", r)
	}
}

func TestNoDatabase(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"migrate"}, {"prune"}, {"migrate", "x"}, {"prune", "--batch", "0"}, {"prune", "--every", "-1s"}, {"migrate", "--store-url", "postgres://u:secret@h:port/x"},
	} {
		if r := idemsk(t, args...); r.code != 2 || strings.Contains(r.err, "secret") {
			t.Errorf("%v: %+v; want exit 2 and no password", args, r)
		}
	}
}
