//go:build servers

package site_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/site"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/pgledger"
	"github.com/idemsk/idemsk/internal/pgserver"
	"github.com/idemsk/idemsk/internal/redisledger"
	"github.com/idemsk/idemsk/internal/redisserver"
	"github.com/idemsk/idemsk/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	table  = "keys-1"
	ledger = "ledger-1"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// check leaves a function's traces by use, and then reads and removes them.
func check(t *testing.T, url string, use func(ctx context.Context) store.Store) {
	t.Helper()
	s := must(site.Open(url, table, ledger))
	defer s.Close()
	for range 2 {
		if err := s.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	st := use(t.Context())
	res := st.Claim(t.Context(), []store.ClaimRequest{{Key: "p#1", Owner: "o", Lease: time.Minute, Retention: time.Hour}})
	if res[0].Err != nil {
		t.Fatal(res[0].Err)
	}
	balances, err := s.Balances(t.Context())
	if err != nil || len(balances) != 1 || balances["a/EUR"] != 7 {
		t.Errorf("balances %v (%v)", balances, err)
	}
	statuses, err := s.Statuses(t.Context())
	if err != nil || len(statuses) != 1 || statuses["p#1"] != store.StatusStarted {
		t.Errorf("statuses %v (%v)", statuses, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if err := s.Remove(gone); err != nil {
			t.Error(err)
		}
	}
	if err := s.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	balances, err1 := s.Balances(t.Context())
	statuses, err2 := s.Statuses(t.Context())
	if err1 != nil || err2 != nil || len(balances)+len(statuses) != 0 {
		t.Errorf("after Remove: %v (%v), %v (%v)", balances, err1, statuses, err2)
	}
}

func TestPostgreSQL(t *testing.T) {
	server := testkit.Run(t, pgserver.Start, pgserver.Config{})
	check(t, server.URL(), func(ctx context.Context) store.Store {
		pool := must(pgstore.NewPool(server.URL()))
		t.Cleanup(pool.Close)
		must(pgledger.Ledger(ledger).Add(ctx, pool, "a/EUR", 7))
		return must(pgstore.New(pool, pgstore.Config{Table: table}))
	})
}

func TestRedis(t *testing.T) {
	server := testkit.Run(t, redisserver.Start, redisserver.Config{})
	check(t, server.URL(), func(ctx context.Context) store.Store {
		client := must(redisstore.NewClient(server.URL()))
		testkit.CloseAtEnd(t, client)
		must(redisledger.Ledger(ledger).Add(ctx, client, "a/EUR", 7))
		return must(redisstore.New(client, redisstore.Config{Prefix: table}))
	})
}

func TestURLsThatAreWrong(t *testing.T) {
	for url, name := range map[string]string{
		"postgres://u:hush@h:port/d": table, "redis://u:hush@h:port": table, "postgres://u:hush@h/d": "a.b.c", "redis://u:hush@h": "a{b}", "mysql://u:hush@h": table,
	} {
		if _, err := site.Open(url, name, ledger); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: error %v; want one without the password", name, err)
		}
	}
	s := must(site.Open("postgres://u:hush@127.0.0.1:1/d", table, ledger))
	defer s.Close()
	if err := s.Create(t.Context()); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("error %v; want one without the password", err)
	}
}
