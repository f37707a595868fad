package idem_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

var errForeign = fmt.Errorf("claim %q: %w", testKey, store.ErrForeignEntry)

// A foreign entry of one key does not mean that the store is unavailable. Other keys are not affected.
func TestForeignEntryDoesNotOpenTheBreaker(t *testing.T) {
	for name, open := range map[string]bool{"fails closed": false,
		"fails open": true} {
		t.Run(name, func(t *testing.T) {
			st := newSpy()
			st.onClaim = func(_ context.Context, reqs []store.ClaimRequest,
				land func() []store.ClaimResult) []store.ClaimResult {
				if reqs[0].Key == testKey {
					return []store.ClaimResult{{Err: errForeign}}
				}
				return land()
			}
			letters := &deadLetters{}
			h := returning("receipt", nil)
			e := newEngine(t, st, idem.Config{FailOpen: open})
			for range idem.BreakerFailures {
				out := e.Do(t.Context(), taskWithDeadLetters(letters, h))
				wantKind(t, out, idem.Retry)
				wantErr(t, out.Err, store.ErrForeignEntry)
				equal(t, "the store is said to be unavailable", errors.Is(out.Err, idem.ErrStoreUnavailable),
					false)
				equal(t, "key", out.Key, testKey)
				equal(t, "attempt", out.Attempt, 0)
			}
			equal(t, "claims", st.claimed(), idem.BreakerFailures)
			equal(t, "settlements", len(st.settled), 0)
			equal(t, "calls of the handler", h.calls, 0)
			equal(t, "dead letters", len(letters.sent), 0)
			other := taskWithDeadLetters(letters, h)
			other.Key = "another"
			wantKind(t, e.Do(t.Context(), other), idem.Executed)
		})
	}
}

func TestReleaseOfAForeignEntryIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		s := session(t, newEngine(t, st, idem.Config{}), until(t, lease))
		claims := []*idem.Claim{{Task: taskOf(returning("receipt", nil))}}
		s.Claim(claims)
		st.onSettle = func(context.Context, store.Settlement, func() error) error { return errForeign }
		s.Release(claims)
		equal(t, "settlements", st.count(store.OpRelease), 1)
	})
}

func TestSettlementOfAForeignEntryIsNotRetried(t *testing.T) {
	for name, tc := range map[string]struct {
		op   store.SettleOp
		err  error
		kind idem.Kind
	}{
		"completion": {store.OpComplete, nil, idem.CompletionFailed},
		"release":    {store.OpRelease, errBoom, idem.Retry},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newSpy()
				st.onSettle = func(context.Context, store.Settlement,
					func() error) error {
					return errForeign
				}
				out := newEngine(t, st, idem.Config{}).Do(until(t, lease),
					taskOf(returning("receipt", tc.err)))
				wantKind(t, out, tc.kind)
				wantErr(t, out.Err, store.ErrForeignEntry)
				equal(t, "settlements", st.count(tc.op), 1)
			})
		})
	}
}
