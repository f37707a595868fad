//go:build servers

package ledger

import (
	"testing"

	"github.com/idemsk/idemsk/internal/test/redisserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

func TestProcessOnRedis(t *testing.T) {
	server := testkit.Run(t, redisserver.Start, redisserver.Config{})
	program := buildFor(t, "redis")
	balance := func(of string) any {
		t.Helper()
		balance, err := server.Do(t.Context(), "HGET", of, "balance")
		if err != nil {
			t.Fatal(err)
		}
		return balance
	}
	processOnStore(t, program, "redis", map[string]string{"IDEMSK_STORE_URL": server.URL()})
	equal(t, "balance", balance("a-ledger:acc-1/EUR"), any("5600")) // as on DynamoDB

	poisonOnePartition(t, program, map[string]string{"IDEMSK_STORE": "redis",
		"IDEMSK_STORE_URL": server.URL(), "IDEMSK_LEDGER_TABLE": "poisoned"})
	equal(t, "balance beside poison", balance("poisoned:acc-1/EUR"), any(poisonedBalance))
	equal(t, "balance that can't grow", balance("poisoned:acc-full/EUR"), any(fullBalance))
}
