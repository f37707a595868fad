//go:build servers

package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

func TestPrune(t *testing.T) {
	server := testkit.Run(t, pgserver.Start, pgserver.Config{})
	f := newFixture(t)
	delete(f.vars, "IDEMSK_EXPORT")
	f.vars["IDEMSK_STORE"], f.vars["IDEMSK_STORE_URL"] = "postgres", server.URL()
	pool, err := pgstore.NewPool(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := f.invoke(t.Context(), `{"task":"prune"}`); err == nil ||
		!strings.Contains(err.Error(), "idemsk migrate") {
		t.Errorf("without a table: %v; want what to run", err)
	}
	if _, err := pgstore.Migrate(t.Context(), pool, pgstore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	st, err := pgstore.New(pool, pgstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	const keys = 2*pruned + 1
	requests := make([]store.ClaimRequest, keys+1)
	for i := range requests {
		requests[i] = store.ClaimRequest{Key: fmt.Sprint("key-", i), Owner: "o", Lease: time.Minute,
			Retention: time.Hour}
	}
	for _, r := range st.Claim(t.Context(), requests) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if _, err := pool.Exec(t.Context(), `UPDATE idemsk SET prune_after = '2020-01-01' WHERE idempotency_key <> 'key-0'`); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithTimeout(t.Context(), margin) // nothing is left
	defer cancel()
	if err := f.invoke(over, `{"task":"prune"}`); err == nil ||
		!strings.Contains(err.Error(), errUnfinished.Error()) {
		t.Errorf("%v; want %v", err, errUnfinished)
	}
	if err := f.invoke(t.Context(), `{"task":"prune"}`); err != nil {
		t.Fatal(err)
	}
	f.metric("KeysPruned", keys)
	if err := f.invoke(t.Context(), reconciles); err != nil {
		t.Fatal(err)
	}
	f.metric("KeysRead", 1)
}
