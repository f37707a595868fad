package idem_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

func TestNoHandlerIsCalledWhileTheStoreIsDown(t *testing.T) {
	st := newSpy()
	st.onClaim = down(errNetwork)
	h := returning("receipt", nil)
	out := newEngine(t, st, idem.Config{}).Do(t.Context(), taskOf(h))
	wantKind(t, out, idem.StoreDown)
	wantErr(t, out.Err, idem.ErrStoreUnavailable, errNetwork)
	equal(t, "calls of the handler", h.calls, 0)
	equal(t, "claims", st.claimed(), 1)
}

func TestFailOpenCallsHandlersWithoutProtection(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		kind idem.Kind
	}{
		{"success", nil, idem.FailedOpen},
		{"success without a result", idem.ResultUnavailable(errBoom), idem.FailedOpen},
		{"an error", errBoom, idem.Retry},
		{"a dependency that is down", idem.Unavailable(errBoom), idem.DependencyDown},
		{"a permanent error", idem.Permanent(errBoom), idem.DeadLettered},
	} {
		t.Run(tc.name, func(t *testing.T) {
			st := newSpy()
			st.onClaim = down(errNetwork)
			letters := &deadLetters{}
			protected := true
			h := &handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
				_, protected = idem.AttemptFrom(ctx)
				return []byte("receipt"), tc.err
			}}
			out := newEngine(t, st, idem.Config{FailOpen: true}).Do(t.Context(),
				taskWithDeadLetters(letters, h))
			wantKind(t, out, tc.kind)
			if tc.kind == idem.FailedOpen {
				wantErr(t, out.Err, idem.ErrStoreUnavailable, errNetwork) // why it was not protected
			} else {
				wantErr(t, out.Err, errBoom)
			}
			equal(t, "calls of the handler", h.calls, 1)
			equal(t, "an attempt is known", protected, false)
			equal(t, "settlements", len(st.settled), 0)
			if tc.kind == idem.DeadLettered {
				b := letters.sent[0]
				equal(t, "the dead letter's key", b.StoredKey, testKey)
				equal(t, "the dead letter's attempt", b.Attempt,
					idem.Attempt{Key: testKey, Source: testSource})
			}
		})
	}
}

func TestFailOpenAppliesOnlyToAnUnavailableStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		holder(t, st, time.Hour)
		e := newEngine(t, st, idem.Config{FailOpen: true, Wait: -1})
		h := returning("receipt", nil)
		wantKind(t, e.Do(t.Context(), taskOf(h)), idem.InFlight)
		other := taskOf(h)
		other.Fingerprint = store.FingerprintOf([]byte("another value"))
		wantKind(t, e.Do(t.Context(), other), idem.Mismatched)
		wantKind(t, e.Do(t.Context(), idem.Task{Handler: h}), idem.InvalidKey)
		equal(t, "calls of the handler", h.calls, 0)
	})
}

func TestFailOpenStartsNothingNearTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		st.onClaim = func(_ context.Context, reqs []store.ClaimRequest,
			_ func() []store.ClaimResult) []store.ClaimResult {
			pass(700 * time.Millisecond)
			return down(errNetwork)(t.Context(), reqs, nil)
		}
		h := returning("receipt", nil)
		out := newEngine(t, st, idem.Config{FailOpen: true}).Do(until(t, time.Second), taskOf(h))
		wantKind(t, out, idem.NotStarted)
		wantErr(t, out.Err, idem.ErrDeadlineNear)
		equal(t, "calls of the handler", h.calls, 0)
	})
}

// fault is a store whose claims fail while a test requires it.
type fault struct {
	err error
}

func (f *fault) onClaim(ctx context.Context, reqs []store.ClaimRequest,
	land func() []store.ClaimResult) []store.ClaimResult {
	if f.err != nil {
		return down(f.err)(ctx, reqs, land)
	}
	return land()
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, f := newSpy(), &fault{err: errNetwork}
		st.onClaim = f.onClaim
		e := newEngine(t, st, idem.Config{})
		try := func(want idem.Kind, asked bool) {
			t.Helper()
			before := st.claimed()
			out := e.Do(t.Context(), taskOf(returning("receipt", nil)))
			wantKind(t, out, want)
			if want == idem.StoreDown {
				wantErr(t, out.Err, idem.ErrStoreUnavailable)
			}
			equal(t, "the store was asked", st.claimed() > before, asked)
		}
		for range idem.BreakerFailures {
			try(idem.StoreDown, true)
		}
		try(idem.StoreDown, false) // open
		pass(idem.BreakerCooldown - 1)
		try(idem.StoreDown, false)
		pass(1)
		try(idem.StoreDown, true) // half open, and open again
		try(idem.StoreDown, false)
		pass(idem.BreakerCooldown)
		f.err = nil
		try(idem.Executed, true) // half open, and closed
		try(idem.Replayed, true)
		f.err = errNetwork
		for range idem.BreakerFailures - 1 {
			try(idem.StoreDown, true)
		}
		f.err = nil
		try(idem.Replayed, true)
		f.err = errNetwork
		for range idem.BreakerFailures { // and the count began anew
			try(idem.StoreDown, true)
		}
		try(idem.StoreDown, false)
	})
}

func TestHalfOpenBreakerAllowsOneClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, f := newSpy(), &fault{err: errNetwork}
		st.onClaim = f.onClaim
		e := newEngine(t, st, idem.Config{})
		for range idem.BreakerFailures {
			wantKind(t, e.Do(t.Context(), taskOf(nil)), idem.StoreDown)
		}
		pass(idem.BreakerCooldown)
		f.err = nil
		st.onClaim = func(_ context.Context, _ []store.ClaimRequest,
			land func() []store.ClaimResult) []store.ClaimResult {
			pass(time.Second)
			return land()
		}
		outs := make(chan idem.Outcome, 1)
		go func() { outs <- e.Do(t.Context(), taskOf(returning("receipt", nil))) }()
		synctest.Wait()
		other := taskOf(returning("receipt", nil))
		other.Key = "b"
		wantKind(t, e.Do(t.Context(), other), idem.StoreDown)
		wantKind(t, <-outs, idem.Executed)
		wantKind(t, e.Do(t.Context(), other), idem.Executed)
	})
}

// A claim that its caller cancelled shows nothing of the store: it neither opens nor closes the breaker.
func TestCancelledClaimDoesNotAffectTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, f := newSpy(), &fault{err: errNetwork}
		st.onClaim = f.onClaim
		e := newEngine(t, st, idem.Config{})
		try := func(err error, want idem.Kind, asked bool) {
			t.Helper()
			f.err = err
			before := st.claimed()
			wantKind(t, e.Do(t.Context(), taskOf(returning("receipt", nil))), want)
			equal(t, "the store was asked", st.claimed() > before, asked)
		}
		for range idem.BreakerFailures {
			try(context.Canceled, idem.NotStarted, true)
		}
		for range idem.BreakerFailures { // in a row, although others are cancelled between them
			try(context.Canceled, idem.NotStarted, true)
			try(errNetwork, idem.StoreDown, true)
		}
		try(errNetwork, idem.StoreDown, false)
		pass(idem.BreakerCooldown)
		try(context.Canceled, idem.NotStarted, true)
		try(errNetwork, idem.StoreDown, true) // still half open
		try(nil, idem.StoreDown, false)
	})
}

// A claim with little time left shows nothing of the store, so later callers must not be affected.
func TestDeadlinesOfCallersDoNotOpenTheBreaker(t *testing.T) {
	for name, tc := range map[string]struct {
		time time.Duration
		kind idem.Kind // of the callers that have so long
		next idem.Kind
	}{
		"it is over":             {-time.Second, idem.NotStarted, idem.Executed},
		"it ends meanwhile":      {400 * time.Millisecond, idem.StoreDown, idem.Executed},
		"the store had a second": {2 * time.Second, idem.StoreDown, idem.StoreDown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newSpy()
				st.onClaim = func(ctx context.Context, reqs []store.ClaimRequest,
					land func() []store.ClaimResult) []store.ClaimResult {
					if _, bounded := ctx.Deadline(); !bounded {
						return land()
					}
					<-ctx.Done()
					return down(ctx.Err())(ctx, reqs, land)
				}
				e := newEngine(t, st, idem.Config{})
				for range idem.BreakerFailures {
					wantKind(t, e.Do(until(t, tc.time), taskOf(returning("receipt", nil))), tc.kind)
				}
				wantKind(t, e.Do(t.Context(), taskOf(returning("receipt", nil))), tc.next)
			})
		})
	}
}

func TestDefiniteAnswersDoNotOpenTheBreaker(t *testing.T) {
	st := newSpy()
	e := newEngine(t, st, idem.Config{})
	e.Do(t.Context(), taskOf(returning("receipt", nil)))
	other := taskOf(nil)
	other.Fingerprint = store.FingerprintOf([]byte("another value"))
	for range idem.BreakerFailures {
		out := e.Do(t.Context(), other)
		wantKind(t, out, idem.Mismatched)
		equal(t, "the store is called unavailable", errors.Is(out.Err, idem.ErrStoreUnavailable), false)
	}
	wantKind(t, e.Do(t.Context(), taskOf(nil)), idem.Replayed)
}

// One definite answer of several shows that the store is available.
func TestPartlyAnsweredBatchDoesNotOpenTheBreaker(t *testing.T) {
	st := newSpy()
	st.onClaim = func(_ context.Context, _ []store.ClaimRequest,
		land func() []store.ClaimResult) []store.ClaimResult {
		results := land()
		results[0] = store.ClaimResult{Err: errNetwork}
		return results
	}
	s := session(t, newEngine(t, st, idem.Config{}), t.Context())
	for n := range idem.BreakerFailures + 1 {
		second := fmt.Sprint("b", n)
		claims := []*idem.Claim{{}, {}}
		claims[0].Task, claims[1].Task = taskOf(nil), taskOf(nil)
		claims[1].Task.Key = second
		s.Claim(claims)
		wantErr(t, claims[0].Err(), errNetwork)
		equal(t, "state of the second", claims[1].State(), store.Claimed)
	}
}

// The breaker does not stop settlements, because effects that took place must be recorded.
func TestOpenBreakerAllowsSettlements(t *testing.T) {
	st, f := newSpy(), &fault{}
	st.onClaim = f.onClaim
	e := newEngine(t, st, idem.Config{})
	out := e.Do(t.Context(), taskOf(&handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
		f.err = errNetwork
		other := taskOf(nil)
		other.Key = "b"
		for range idem.BreakerFailures + 1 {
			wantKind(t, e.Do(ctx, other), idem.StoreDown)
		}
		equal(t, "claims", st.claimed(), 1+idem.BreakerFailures)
		return []byte("receipt"), nil
	}}))
	wantKind(t, out, idem.Executed)
}
