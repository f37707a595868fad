//go:build servers

package testenv_test

import (
	"context"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/demo/pgledger"
	"github.com/idemsk/idemsk/internal/demo/redisledger"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/redisserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

func TestPostgreSQL(t *testing.T) {
	server := testkit.Run(t, pgserver.Start, pgserver.Config{})
	e := must(testenv.Open(server.URL(), names(), queues(t)))
	check(t, e, func(ctx context.Context) store.Store {
		create(t, e) // what exists is kept
		pool := must(pgstore.NewPool(server.URL()))
		t.Cleanup(pool.Close)
		must(pgledger.Ledger(names().Ledger).Add(ctx, pool, "a/EUR", 7))
		return must(pgstore.New(pool, pgstore.Config{Table: names().Keys}))
	})
}

func TestRedis(t *testing.T) {
	server := testkit.Run(t, redisserver.Start, redisserver.Config{})
	e := must(testenv.Open(server.URL(), names(), queues(t)))
	check(t, e, func(ctx context.Context) store.Store {
		create(t, e) // what exists is kept
		client := must(redisstore.NewClient(server.URL()))
		testkit.CloseAtEnd(t, client)
		must(redisledger.Ledger(names().Ledger).Add(ctx, client, "a/EUR", 7))
		return must(redisstore.New(client, redisstore.Config{Prefix: names().Keys}))
	})
}
