//go:build servers

package migrate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

func TestMigrateAndPrune(t *testing.T) {
	t.Parallel()
	server := testkit.Run(t, pgserver.Start, pgserver.Config{})
	if r := clitest.Run(t, "prune", "--store-url", server.URL(), "--table", "keys"); r.Code != 1 ||
		!strings.Contains(r.Err, "idemsk migrate") {
		t.Errorf("without the table: %+v; want exit 1 and what to do", r)
	}
	for _, want := range []string{"1 migration applied", "0 migrations applied"} {
		if r := clitest.Run(t, "migrate", "--store-url", server.URL(), "--table", "keys"); r.Code != 0 ||
			!strings.Contains(r.Err, want) {
			t.Errorf("%+v; want %q", r, want)
		}
	}
	if r := clitest.Run(t, "migrate", "--store-url", server.URL(),
		"--table", "idempotency.keys"); r.Code != 1 ||
		!strings.Contains(r.Err, "CREATE SCHEMA first") || strings.Contains(r.Err, "run idemsk migrate") {
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
		{Key: "a", Owner: "o1", Lease: time.Hour, Retention: time.Hour},
		{Key: "b", Owner: "o2", Lease: time.Hour, Retention: time.Hour},
		{Key: "c", Owner: "o3", Lease: time.Hour, Retention: time.Hour},
	}
	for _, r := range st.Claim(t.Context(), reqs) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if _, err := pool.Exec(t.Context(),
		`UPDATE keys SET prune_after = '2020-01-01' WHERE idempotency_key <> 'b'`); err != nil {
		t.Fatal(err)
	}
	if r := clitest.Run(t, "prune", "--store-url", server.URL(), "--table", "keys",
		"--batch", "1"); r.Code != 0 || !strings.Contains(r.Err, "2 keys deleted") {
		t.Errorf("%+v; want 2 deleted", r)
	}
}
