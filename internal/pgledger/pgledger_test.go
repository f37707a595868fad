package pgledger_test

import (
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/internal/pgledger"
	"github.com/idemsk/idemsk/internal/pgserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	server, err := pgserver.Start(t.Context(), pgserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pool.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return pool
}

func TestTheLedgerAddsUp(t *testing.T) {
	pool := open(t)
	const ledger = pgledger.Ledger("idemsk-ledger")
	if _, err := ledger.Add(t.Context(), pool, "a/EUR", 1); err == nil || !strings.Contains(err.Error(), "idemsk migrate --ledger") {
		t.Errorf("without the table: error %v; want what to do", err)
	}
	for range 2 {
		if err := ledger.Create(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := ledger.Add(t.Context(), pool, "a/EUR", 5); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if balance, err := ledger.Add(t.Context(), pool, "a/EUR", -1); err != nil || balance != 99 {
		t.Errorf("the balance is %d (%v); want 99", balance, err)
	}
	if _, err := ledger.Add(t.Context(), pool, "b/USD", math.MaxInt64); err != nil {
		t.Error(err)
	}
	if _, err := ledger.Add(t.Context(), pool, "b/USD", 1); err == nil {
		t.Error("a balance may overflow")
	}
	balances, err := ledger.Balances(t.Context(), pool)
	if err != nil || len(balances) != 2 || balances["a/EUR"] != 99 || balances["b/USD"] != math.MaxInt64 {
		t.Errorf("balances %v (%v)", balances, err)
	}
	for range 2 {
		if err := ledger.Drop(t.Context(), pool); err != nil {
			t.Error(err)
		}
	}
	if _, err := ledger.Balances(t.Context(), pool); err == nil || !strings.Contains(err.Error(), "idemsk-ledger") {
		t.Errorf("after Drop: %v; want an error that names it", err)
	}
}
