//go:build servers

package pgstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
)

// A row that another program wrote affects only its own key, and no operation changes it.
func TestForeignRowAffectsOnlyItsOwnKey(t *testing.T) {
	for name, fingerprint := range map[string]string{"an empty fingerprint": "", "a short one": "\xff",
		"a long one": strings.Repeat("f", 33)} {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t, server.URL())
			st := newStore(t, pool, pgstore.Config{})
			held := claimOne(t, st, request("k", 1), store.Claimed).Entry
			execute(t, pool, `UPDATE `+st.Table()+
				` SET request_fingerprint = $1, lease_until = now() - interval '1 hour'`, []byte(fingerprint))
			planted := raw(t, pool, st.Table(), "k")
			results := st.Claim(t.Context(),
				[]store.ClaimRequest{request("j", 2), request("k", 2), request("l", 2)})
			if results[0].State != store.Claimed || results[1].State != store.ClaimUnknown ||
				results[2].State != store.Claimed {
				t.Errorf("the claims are answered %+v; want all but the second", results)
			}
			stale, held2 := settlement(held, store.OpComplete), settlement(results[0].Entry, store.OpRelease)
			stale.Token--
			settled := st.Settle(t.Context(), []store.Settlement{held2, stale})
			if settled[0] != nil {
				t.Errorf("the release of another key: %v", settled[0])
			}
			_, got := st.Get(t.Context(), "k")
			errs := map[string]error{"claim": results[1].Err, "complete": settled[1], "get": got,
				"delete": st.Delete(t.Context(), "k", held.Token+1)}
			for _, err := range st.List(t.Context(), store.ListQuery{}) {
				errs["list"] = err
			}
			wantEach(t, errs, `"k"`, "request_fingerprint", "want 32")
			for op, err := range errs {
				if !errors.Is(err, store.ErrForeignEntry) {
					t.Errorf("%s: %v; want ErrForeignEntry", op, err)
				}
			}
			if now := raw(t, pool, st.Table(), "k"); string(now) != string(planted) {
				t.Errorf("the row is %s; want it as it was, %s", now, planted)
			}
		})
	}
}
