package dynamostore_test

import (
	"maps"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
)

// TestRequests counts the requests of each step. Each request is billed as a write.
func TestRequests(t *testing.T) {
	srv := fake(t)
	const lease, retention = 30 * time.Second, time.Hour
	n := 0
	claim := func(h storetest.Harness) store.ClaimResult {
		n++
		return h.Store.Claim(t.Context(), []store.ClaimRequest{{
			Key: "k", Owner: ownerName(n), Lease: lease, Retention: retention, TakeOver: true,
		}})[0]
	}
	settle := func(h storetest.Harness, entry store.Entry, op store.SettleOp) {
		h.Store.Settle(t.Context(), []store.Settlement{{
			Op: op, Key: entry.Key, Token: entry.Token, Owner: entry.Owner, Retention: retention,
			Lease: lease,
		}})
	}
	for _, tc := range []struct {
		name    string
		prepare func(h storetest.Harness)
		do      func(h storetest.Harness)
		want    map[string]int
	}{
		{
			"a new key", func(storetest.Harness) {},
			func(h storetest.Harness) { settle(h, claim(h).Entry, store.OpComplete) },
			map[string]int{"PutItem": 1, "UpdateItem": 1},
		},
		{
			"a duplicate", func(h storetest.Harness) { settle(h, claim(h).Entry, store.OpComplete) },
			func(h storetest.Harness) { claim(h) },
			map[string]int{"PutItem": 1},
		},
		{
			"a key in flight elsewhere", func(h storetest.Harness) { claim(h) },
			func(h storetest.Harness) { claim(h) },
			map[string]int{"PutItem": 1},
		},
		{
			"a steal", func(h storetest.Harness) { claim(h); h.Advance(lease + h.Skew + time.Second) },
			func(h storetest.Harness) { claim(h) },
			map[string]int{"PutItem": 1, "UpdateItem": 1},
		},
		{
			"a re-claim after a release",
			func(h storetest.Harness) { settle(h, claim(h).Entry, store.OpRelease) },
			func(h storetest.Harness) { claim(h) },
			map[string]int{"PutItem": 1, "UpdateItem": 1},
		},
		{
			"a new key whose two replies are lost", func(storetest.Harness) {},
			func(h storetest.Harness) {
				h.LoseReply()
				entry := claim(h).Entry
				h.LoseReply()
				settle(h, entry, store.OpComplete)
			},
			map[string]int{"PutItem": 2, "UpdateItem": 2},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, w := harness(t, srv.URL(), false)
			tc.prepare(h)
			w.count()
			tc.do(h)
			if got := w.count(); !maps.Equal(got, tc.want) {
				t.Errorf("requests %v; want %v", got, tc.want)
			}
		})
	}
}
