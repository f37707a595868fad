package dynamostore_test

import (
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
)

// The item of the smallest result, the smallest size of an omitted one, and an extension that does not move
// the lease.
func TestItemAfterASettlement(t *testing.T) {
	for name, set := range map[string]store.Settlement{
		"a result of one byte":     {Op: store.OpComplete, Result: []byte("x")},
		"an omitted size of 1":     {Op: store.OpComplete, ResultOmitted: 1},
		"an extension to the same": {Op: store.OpExtend, Lease: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			onBothPaths(t, func(t *testing.T, batched bool) {
				clock := storetest.NewClock()
				s := newStore(t, client(newWire(t), fake(t).URL()), dynamostore.Config{Clock: clock.Now})
				if !batched {
					s.NoBatches()
				}
				var sets []store.Settlement
				var want []store.Entry
				for _, key := range []string{"a", "b"} {
					res := s.Claim(t.Context(),
						[]store.ClaimRequest{{Key: key, Owner: "o", Lease: time.Minute,
							Retention: time.Hour}})[0]
					if res.State != store.Claimed {
						t.Fatalf("%+v", res)
					}
					mine := set
					mine.Key, mine.Owner, mine.Token, mine.Retention = key, "o", res.Entry.Token, 2*time.Hour
					sets, want = append(sets, mine), append(want,
						store.Settled(&mine, &res.Entry, clock.Now()))
				}
				if errs := s.Settle(t.Context(), sets); errs != nil {
					t.Fatal(errs)
				}
				for i := range want {
					got, err := s.Get(t.Context(), want[i].Key)
					if d := storetest.Diff(got, want[i]); err != nil || d != "" {
						t.Errorf("%v, %s", err, d)
					}
				}
			})
		})
	}
}
