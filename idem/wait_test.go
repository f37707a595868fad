package idem_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// holder claims the test's key and holds it.
func holder(t *testing.T, st store.Store, held time.Duration) {
	t.Helper()
	s := session(t, newEngine(t, st, idem.Config{Lease: held}), t.Context())
	claims := []*idem.Claim{{Task: taskOf(nil)}}
	s.Claim(claims)
	equal(t, "the holder's claim", claims[0].State(), store.Claimed)
}

func TestWaitDuration(t *testing.T) {
	const deadline, margin = 20 * time.Second, 500 * time.Millisecond
	for _, tc := range []struct {
		name     string
		wait     time.Duration
		deadline time.Duration
		lease    time.Duration // of the holder
		kind     idem.Kind
		took     time.Duration
	}{
		{"by default until the deadline less the margin", 0, deadline, time.Minute, idem.InFlight,
			deadline - margin},
		{"as long as configured", 7 * time.Second, deadline, time.Minute, idem.InFlight, 7 * time.Second},
		{"not beyond the deadline, whatever is configured", time.Hour, deadline, time.Minute, idem.InFlight,
			deadline - margin},
		{"not at all", -1, deadline, time.Minute, idem.InFlight, 0},
		{"until the lease is over", 0, deadline, 5 * time.Second, idem.Executed, 5 * time.Second},
		{"without a deadline, until the lease is over", 0, 0, 10 * time.Minute, idem.Executed,
			10 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newSpy()
				holder(t, st, tc.lease)
				ctx := t.Context()
				if tc.deadline > 0 {
					ctx = until(t, tc.deadline)
				}
				begun := time.Now()
				h := returning("receipt", nil)
				out := newEngine(t, st, idem.Config{Wait: tc.wait, DeadlineMargin: margin}).Do(ctx, taskOf(h))
				wantKind(t, out, tc.kind)
				if took := time.Since(begun); took < tc.took || took > tc.took+time.Millisecond {
					t.Errorf("it took %v; want %v", took, tc.took)
				}
				if tc.kind == idem.InFlight {
					wantErr(t, out.Err, idem.ErrInFlight)
					for _, want := range []string{testKey, testSource, "attempt 1",
						"lease until 2000-01-01T00:01:00Z"} {
						if !strings.Contains(out.Err.Error(), want) {
							t.Errorf("%q does not contain %q", out.Err, want)
						}
					}
					equal(t, "calls of the handler", h.calls, 0)
				}
			})
		})
	}
}

func TestPausesGrowUpToTheirMaximum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		holder(t, st, 30*time.Minute)
		s := session(t, newEngine(t, st, idem.Config{}), until(t, 10*time.Minute))
		claims := []*idem.Claim{{Task: taskOf(nil)}}
		for n, upper := 0, 50*time.Millisecond; n < 20; n++ {
			s.Claim(claims)
			begun := time.Now()
			equal(t, "worth waiting", s.Wait(claims[0]), true)
			if took := time.Since(begun); took < upper/2 || took > upper {
				t.Errorf("pause %d took %v; want %v to %v", n, took, upper/2, upper)
			}
			upper = min(2*upper, 2*time.Second)
		}
	})
}

func TestWaitEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		holder(t, st, 30*time.Second)
		pass(30*time.Second - 7*time.Millisecond)
		s := session(t, newEngine(t, st, idem.Config{}), t.Context())
		claims := []*idem.Claim{{Task: taskOf(nil), TakeOver: true}}
		s.Claim(claims)
		begun := time.Now()
		equal(t, "worth waiting", s.Wait(claims[0]), true)
		equal(t, "the pause", time.Since(begun), 8*time.Millisecond)
		s.Claim(claims)
		equal(t, "state", claims[0].State(), store.Claimed)
	})
}

// release claims the test's key and releases it with a delay.
func release(t *testing.T, st store.Store, delay time.Duration) {
	t.Helper()
	out := newEngine(t, st, idem.Config{}).Do(t.Context(),
		taskOf(returning("", idem.RetryAfter(errBoom, delay))))
	wantKind(t, out, idem.Retry)
}

func TestWaitForAReleasedKeyTakesOnePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		release(t, st, 10*time.Second)
		begun := time.Now()
		out := newEngine(t, st, idem.Config{}).Do(until(t, time.Minute), taskOf(returning("receipt", nil)))
		wantKind(t, out, idem.Executed)
		equal(t, "it took", time.Since(begun), 10*time.Second+time.Millisecond)
		equal(t, "claims", st.claimed(), 3)
		equal(t, "attempt", out.Attempt, 2)
		equal(t, "stolen", out.Stolen, false)
	})
}

func TestWaitReturnsAtOnceForATooLongDelay(t *testing.T) {
	for name, cfg := range map[string]idem.Config{
		"the deadline": {}, "the configured wait": {Wait: 10 * time.Second},
		"the deadline before the configured wait": {Wait: 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newSpy()
				release(t, st, time.Hour)
				begun := time.Now()
				out := newEngine(t, st, cfg).Do(until(t, time.Minute), taskOf(returning("receipt", nil)))
				wantKind(t, out, idem.InFlight)
				equal(t, "it took", time.Since(begun), 0)
				equal(t, "claims", st.claimed(), 2)
				if want := "released until 2000-01-01T01:00:00Z"; !strings.Contains(out.Err.Error(), want) {
					t.Errorf("%q does not contain %q", out.Err, want)
				}
			})
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		holder(t, st, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(42*time.Second, cancel)
		begun := time.Now()
		out := newEngine(t, st, idem.Config{}).Do(ctx, taskOf(returning("receipt", nil)))
		wantKind(t, out, idem.InFlight)
		equal(t, "it took", time.Since(begun), 42*time.Second)
	})
}

func TestWaitOnlyWaitsForKeysInFlight(t *testing.T) {
	st := newSpy()
	e := newEngine(t, st, idem.Config{})
	s := session(t, e, t.Context())
	claims := []*idem.Claim{{Task: taskOf(returning("", nil))}}
	equal(t, "a claim that was never claimed", s.Wait(claims[0]), false)
	s.Claim(claims)
	equal(t, "a claimed one", s.Wait(claims[0]), false)
	s.Run(claims[0])
	s.Claim(claims)
	equal(t, "a completed one", s.Wait(claims[0]), false)
}
