//go:build redis

package main

import (
	"testing"

	"github.com/idemsk/idemsk/internal/redisserver"
)

func TestTheProcessOnRedis(t *testing.T) {
	server, err := redisserver.Start(t.Context(), redisserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	processOnStore(t, "redis", map[string]string{"IDEMSK_STORE_URL": server.URL()})
	balance, err := server.Do(t.Context(), "HGET", "a-ledger:acc-1/EUR", "balance")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "balance", balance, any("5600")) // as on DynamoDB
}
