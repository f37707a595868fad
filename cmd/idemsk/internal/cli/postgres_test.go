package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/pgserver"
)

func TestMigrateAndPrune(t *testing.T) {
	t.Parallel()
	server, err := pgserver.Start(t.Context(), pgserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	if r := idemsk(t, "prune", "--store-url", server.URL(), "--table", "keys"); r.code != 1 || !strings.Contains(r.err, "idemsk migrate") {
		t.Errorf("without the table: %+v; want exit 1 and what to do", r)
	}
	for _, want := range []string{"1 migration applied", "0 migrations applied"} {
		if r := idemsk(t, "migrate", "--store-url", server.URL(), "--table", "keys"); r.code != 0 || !strings.Contains(r.err, want) {
			t.Errorf("%+v; want %q", r, want)
		}
	}
	pool, err := pgstore.NewPool(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store, err := pgstore.New(pool, pgstore.Config{Table: "keys"})
	if err != nil {
		t.Fatal(err)
	}
	reqs := []idem.ClaimRequest{
		{Key: "a", Owner: "o1", Lease: time.Hour, Retention: time.Hour}, {Key: "b", Owner: "o2", Lease: time.Hour, Retention: time.Hour},
		{Key: "c", Owner: "o3", Lease: time.Hour, Retention: time.Hour},
	}
	for _, r := range store.Claim(t.Context(), reqs) {
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

func TestNoDatabase(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"migrate"}, {"prune"}, {"migrate", "x"}, {"prune", "--batch", "0"}, {"migrate", "--store-url", "postgres://u:secret@h:port/x"},
	} {
		if r := idemsk(t, args...); r.code != 2 || strings.Contains(r.err, "secret") {
			t.Errorf("%v: %+v; want exit 2 and no password", args, r)
		}
	}
}
