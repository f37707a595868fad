//go:build servers

package dynamostore_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

func TestOnDynamoDBLocal(t *testing.T) {
	url := testkit.Run(t, serverproc.StartScript, serverproc.DynamoDBLocal).Addr()
	t.Run("rules", func(t *testing.T) { keepsTheRules(t, url) })
	t.Run("agrees with memory", func(t *testing.T) { agreeOnOneTable(t, url) })
	t.Run("another key", func(t *testing.T) {
		wrongTableIsAConfigurationError(t, url, "another-key",
			attributeOf("id", "S"))
	})
	t.Run("a key of another type", func(t *testing.T) {
		wrongTableIsAConfigurationError(t, url, "number-key", attributeOf(dynamostore.AttrKey, "N"))
	})
	t.Run("a sort key", func(t *testing.T) {
		wrongTableIsAConfigurationError(t, url, "sort-key", attributeOf(dynamostore.AttrKey, "S"),
			attributeOf("sort", "S"))
	})
	t.Run("TTL", func(t *testing.T) { checkReadsTheTTL(t, url) })
}

// agreeOnOneTable is TestAgreesWithMemory with fewer histories, all on one table, because DynamoDB Local
// takes long to create and delete tables.
func agreeOnOneTable(t *testing.T, url string) {
	t.Helper()
	testkit.Histories(t, testkit.Size(t, 5, 15))
	onBothPaths(t, func(t *testing.T, batched bool) {
		h, _ := harness(t, url, batched)
		storetest.AgreesWith(t, func(*rapid.T) (under, oracle storetest.Harness) {
			empty(t, h.Store)
			clock := storetest.NewClock() // the store's clock continues from the previous history
			clock.Advance(h.Now().Sub(clock.Now()))
			mem := memstore.New(memstore.Config{Clock: clock.Now, MaxClockSkew: h.Skew})
			return h, storetest.Harness{
				Store: mem, Now: clock.Now, Advance: clock.Advance, Skew: h.Skew,
				Sweep: func(testing.TB) { mem.Sweep() },
			}
		})
	})
}

func empty(t *testing.T, st store.Store) {
	t.Helper()
	admin, ok := st.(store.Admin)
	if !ok {
		t.Fatalf("%T is no idem.Admin", st)
	}
	for entry, err := range admin.List(t.Context(), store.ListQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if err := admin.Delete(t.Context(), entry.Key, entry.Token); err != nil {
			t.Fatal(err)
		}
	}
}
