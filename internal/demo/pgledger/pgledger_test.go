//go:build servers

package pgledger_test

import (
	"crypto/rand"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/internal/demo/pgledger"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	server := testkit.Run(t, pgserver.Start, pgserver.Config{})
	pool, err := pgxpool.New(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Errors caused by the booking are distinguished from those of the ledger or the server.
func TestRefusedBookings(t *testing.T) {
	pool := open(t)
	const ledger = pgledger.Ledger("idemsk-ledger")
	if err := ledger.Create(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `ALTER TABLE "idemsk-ledger" ADD CHECK (account <> 'closed/EUR')`); err != nil {
		t.Fatal(err)
	}
	for account, balance := range map[string]int64{"full/EUR": math.MaxInt64, "empty/EUR": math.MinInt64} {
		if _, err := ledger.Add(t.Context(), pool, account, balance); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Builder{}
	for long.Len() < 4096 { // a text that PostgreSQL can't compress
		long.WriteString(rand.Text())
	}
	for name, b := range map[string]struct {
		account string
		amount  int64
		code    string
	}{
		"a balance that overflows":         {"full/EUR", 1, "22003"},
		"a balance that underflows":        {"empty/EUR", -1, "22003"},
		"an account with a NUL":            {"a\x00/EUR", 1, "22021"},
		"an account that is no UTF-8":      {"a\xff/EUR", 1, "22021"},
		"an account that no index holds":   {long.String(), 1, "54000"},
		"an account that a check excludes": {"closed/EUR", 1, "23514"},
	} {
		_, err := ledger.Add(t.Context(), pool, b.account, b.amount)
		if !errors.Is(err, pgledger.ErrRefused) || !strings.Contains(err.Error(), b.code) ||
			!strings.Contains(err.Error(), string(ledger)) {
			t.Errorf("%s: %v; want ErrRefused, with the code %s and the ledger's name", name, err, b.code)
		}
	}
	if _, err := pgledger.Ledger("elsewhere").Add(t.Context(), pool, "a/EUR", 1); err == nil ||
		errors.Is(err, pgledger.ErrRefused) {
		t.Errorf("without the table: %v; want an error that is not the booking's", err)
	}
	balances, err := ledger.Balances(t.Context(), pool)
	if err != nil || len(balances) != 2 || balances["full/EUR"] != math.MaxInt64 ||
		balances["empty/EUR"] != math.MinInt64 {
		t.Errorf("balances %v (%v); want those of before", balances, err)
	}
}

func TestLedgerAddsUp(t *testing.T) {
	pool := open(t)
	const ledger = pgledger.Ledger("idemsk-ledger")
	if _, err := ledger.Add(t.Context(), pool, "a/EUR", 1); err == nil ||
		!strings.Contains(err.Error(), "go run ./lambda/handler/postgres/migrate") {
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
	balances, err := ledger.Balances(t.Context(), pool)
	if err != nil || len(balances) != 2 || balances["a/EUR"] != 99 || balances["b/USD"] != math.MaxInt64 {
		t.Errorf("balances %v (%v)", balances, err)
	}
	for range 2 {
		if err := ledger.Drop(t.Context(), pool); err != nil {
			t.Error(err)
		}
	}
	if _, err := ledger.Balances(t.Context(), pool); err == nil ||
		!strings.Contains(err.Error(), "idemsk-ledger") {
		t.Errorf("after Drop: %v; want an error that names it", err)
	}
}
