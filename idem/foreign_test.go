package idem_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/idemsk/idemsk/idem"
)

var errForeign = fmt.Errorf("claim %q: %w", testKey, idem.ErrForeignRecord)

// What one key holds says nothing of the store: the others get on.
func TestAForeignRecordIsNoFaultOfTheStore(t *testing.T) {
	for name, policy := range map[string]idem.StoreDownPolicy{"fails closed": idem.FailClosed, "fails open": idem.FailOpen} {
		t.Run(name, func(t *testing.T) {
			store := newSpy()
			store.onClaim = func(_ context.Context, reqs []idem.ClaimRequest, land func() []idem.ClaimResult) []idem.ClaimResult {
				if reqs[0].Key == testKey {
					return []idem.ClaimResult{{Err: errForeign}}
				}
				return land()
			}
			graves := &graveyard{}
			h := returning("receipt", nil)
			e := newEngine(t, store, idem.Config{StoreDown: policy, BreakerFailures: 2})
			for range 5 {
				out := e.Do(t.Context(), buriedBy(graves, h))
				wantKind(t, out, idem.Retry)
				wantErr(t, out.Err, idem.ErrForeignRecord)
				equal(t, "the store is said to be unavailable", errors.Is(out.Err, idem.ErrStoreUnavailable), false)
				equal(t, "key", out.Key, testKey)
				equal(t, "attempt", out.Attempt, 0)
			}
			equal(t, "claims", store.claimed(), 5)
			equal(t, "settlements", len(store.settled), 0)
			equal(t, "calls of the handler", h.calls, 0)
			equal(t, "dead letters", len(graves.burials), 0)
			other := buriedBy(graves, h)
			other.Key = "another"
			wantKind(t, e.Do(t.Context(), other), idem.Executed)
		})
	}
}

func TestAGivenBackClaimOnAForeignRecordIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy()
		s := session(t, newEngine(t, store, idem.Config{}), until(t, lease))
		tickets := []*idem.Ticket{{Task: taskOf(returning("receipt", nil))}}
		s.Claim(tickets)
		store.onSettle = func(context.Context, idem.Settlement, func() error) error { return errForeign }
		s.Release(tickets)
		equal(t, "settlements", store.count(idem.OpRelease), 1)
	})
}

func TestASettlementOnAForeignRecordIsNotSentAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		op   idem.SettleOp
		err  error
		kind idem.Kind
	}{
		"completion": {idem.OpComplete, nil, idem.CompletionFailed},
		"release":    {idem.OpRelease, errBoom, idem.Retry},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newSpy()
				store.onSettle = func(context.Context, idem.Settlement, func() error) error { return errForeign }
				out := newEngine(t, store, idem.Config{}).Do(until(t, lease), taskOf(returning("receipt", tc.err)))
				wantKind(t, out, tc.kind)
				wantErr(t, out.Err, idem.ErrForeignRecord)
				equal(t, "settlements", store.count(tc.op), 1)
			})
		})
	}
}
