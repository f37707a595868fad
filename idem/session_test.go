package idem_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// session returns a session that is closed at the end of the test.
func session(t testing.TB, e *idem.Engine, ctx context.Context) *idem.Session { //nolint:revive // as t.Context would read
	t.Helper()
	s := e.Session(ctx)
	t.Cleanup(s.Close)
	return s
}

// until returns a context with a deadline.
func until(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestManyTasksAreClaimedInOneCall(t *testing.T) {
	st := newSpy()
	e := newEngine(t, st, idem.Config{})
	done := taskOf(returning("done before", nil))
	done.Key = "done"
	e.Do(t.Context(), done)
	s := session(t, e, t.Context())
	h := returning("receipt", nil)
	claims := []*idem.Claim{{}, {}, {}, {}}
	for i, key := range []string{"a", "", "done", "b"} {
		claims[i].Task = taskOf(h)
		claims[i].Task.Key = key
	}
	s.Claim(claims)
	equal(t, "calls of the store", len(st.claims), 2)
	equal(t, "claims in the second", len(st.claims[1]), 3)
	for i, want := range []store.ClaimState{store.Claimed, store.ClaimUnknown, store.ClaimCompleted,
		store.Claimed} {
		equal(t, "state of claim "+strconv.Itoa(i), claims[i].State(), want)
	}
	wantErr(t, claims[1].Err(), store.ErrInvalidKey)
	for i, want := range []idem.Kind{idem.Executed, idem.InvalidKey, idem.Replayed, idem.Executed} {
		wantKind(t, s.Run(claims[i]), want)
	}
	equal(t, "calls of the handler", h.calls, 2)
	owners := st.owners()
	slices.Sort(owners)
	equal(t, "different owners", len(slices.Compact(owners)), 4)
}

func TestInvalidKeysSendNoRequest(t *testing.T) {
	st := newSpy()
	s := session(t, newEngine(t, st, idem.Config{}), t.Context())
	s.Claim([]*idem.Claim{{}, {}, {}})
	s.Claim(nil)
	equal(t, "calls of the store", len(st.claims), 0)
}

func TestUnclaimedTaskIsNotRun(t *testing.T) {
	s := session(t, newEngine(t, newSpy(), idem.Config{}), t.Context())
	h := returning("", nil)
	out := s.Run(&idem.Claim{Task: taskOf(h)})
	wantKind(t, out, idem.KindUnknown)
	equal(t, "calls of the handler", h.calls, 0)
}

// loseReply returns a hook for onClaim: the first claim succeeds, but its answer is lost.
func loseReply() func(context.Context, []store.ClaimRequest, func() []store.ClaimResult) []store.ClaimResult {
	lost := false
	return func(_ context.Context, _ []store.ClaimRequest,
		land func() []store.ClaimResult) []store.ClaimResult {
		results := land()
		if !lost {
			lost = true
			return []store.ClaimResult{{Err: errNetwork}}
		}
		return results
	}
}

func TestClaimWithALostReplyIsRecognised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		st.onClaim = loseReply()
		s := session(t, newEngine(t, st, idem.Config{}), t.Context())
		h := returning("receipt", nil)
		claims := []*idem.Claim{{Task: taskOf(h)}}
		s.Claim(claims)
		equal(t, "state", claims[0].State(), store.ClaimUnknown)
		wantErr(t, claims[0].Err(), errNetwork, idem.ErrStoreUnavailable)
		wantKind(t, s.Run(claims[0]), idem.StoreDown)
		equal(t, "calls of the handler", h.calls, 0)

		pass(time.Second)
		s.Claim(claims)
		owners := st.owners()
		equal(t, "the owner of the claim sent again", owners[1], owners[0])
		out := s.Run(claims[0])
		wantKind(t, out, idem.Executed)
		equal(t, "attempt", out.Attempt, 1)
		equal(t, "token", out.Token, get(t, st, testKey).Token)
	})
}

// The lease of a retried claim begins with its first request. A heartbeat that counted from the second
// request would be too late.
func TestLeaseOfARetriedClaimStartsWithTheFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		st.onClaim = loseReply()
		s := session(t, newEngine(t, st, idem.Config{Lease: lease}), t.Context())
		claims := []*idem.Claim{{Task: taskOf(taking(8*time.Second, "receipt", nil))}}
		s.Claim(claims)
		pass(25 * time.Second)
		s.Claim(claims)
		equal(t, "state", claims[0].State(), store.Claimed)
		wantKind(t, s.Run(claims[0]), idem.Executed)
		if st.count(store.OpExtend) == 0 {
			t.Error("the lease ended in mid-handler, and was not extended")
		}
		entry := get(t, st, testKey)
		if entry.LeaseUntil.Before(entry.UpdatedAt) {
			t.Errorf("the lease ended at %v, before the completion at %v", entry.LeaseUntil, entry.UpdatedAt)
		}
	})
}

func TestClaimRetriedAfterALeaseHasANewOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		st.onClaim = loseReply()
		s := session(t, newEngine(t, st, idem.Config{Lease: lease}), t.Context())
		claims := []*idem.Claim{{Task: taskOf(returning("receipt", nil)), TakeOver: true}}
		s.Claim(claims)
		pass(lease)
		s.Claim(claims)
		owners := st.owners()
		equal(t, "the same owner", owners[1] == owners[0], false)
		out := s.Run(claims[0])
		wantKind(t, out, idem.Executed)
		equal(t, "attempt", out.Attempt, 2)
		equal(t, "stolen", out.Stolen, true)
	})
}

func TestClaimAfterADefiniteAnswerHasANewOwner(t *testing.T) {
	st := newSpy()
	e := newEngine(t, st, idem.Config{})
	holder := session(t, e, t.Context())
	held := []*idem.Claim{{Task: taskOf(returning("", nil))}}
	holder.Claim(held)
	s := session(t, e, t.Context())
	claims := []*idem.Claim{{Task: taskOf(returning("", nil))}}
	s.Claim(claims)
	s.Claim(claims)
	equal(t, "state", claims[0].State(), store.ClaimInFlight)
	owners := st.owners()
	slices.Sort(owners)
	equal(t, "different owners", len(slices.Compact(owners)), 3)
}

func TestReleaseRefundsAttempts(t *testing.T) {
	st := newSpy()
	s := session(t, newEngine(t, st, idem.Config{}), t.Context())
	h := returning("receipt", nil)
	claims := []*idem.Claim{{Task: taskOf(h)}, {Task: taskOf(h)}, {}}
	claims[1].Task.Key = "b"
	s.Claim(claims)
	s.Release(claims)
	for _, key := range []string{testKey, "b"} {
		entry := get(t, st, key)
		equal(t, "released", entry.Released(), true)
		equal(t, "attempts", entry.Attempts, 0)
	}
	equal(t, "state", claims[0].State(), store.ClaimUnknown)
	equal(t, "calls of the handler", h.calls, 0)

	s.Release(claims)
	equal(t, "releases", st.count(store.OpRelease), 2)
	s.Claim(claims[:1])
	out := s.Run(claims[0])
	wantKind(t, out, idem.Executed)
	equal(t, "attempt", out.Attempt, 1)
}

// A release without an answer may be applied at any later time. It would release a claim by the same owner
// with the same token.
func TestClaimAfterAReleaseHasANewOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		st.onSettle = failing(store.OpRelease)
		s := session(t, newEngine(t, st, idem.Config{}), t.Context())
		claims := []*idem.Claim{{Task: taskOf(returning("receipt", nil))}}
		s.Claim(claims)
		s.Release(claims)
		s.Claim(claims)
		equal(t, "state", claims[0].State(), store.ClaimInFlight)
		owners := st.owners()
		equal(t, "the same owner", owners[1] == owners[0], false)
	})
}

func TestLeaseOverIsReportedWithoutTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		e := newEngine(t, st, idem.Config{Lease: lease})
		dead := session(t, e, t.Context())
		dead.Claim([]*idem.Claim{{Task: taskOf(nil)}})
		pass(lease)
		s := session(t, e, t.Context())
		h := returning("receipt", nil)
		claims := []*idem.Claim{{Task: taskOf(h)}}
		s.Claim(claims)
		equal(t, "state", claims[0].State(), store.ClaimLeaseOver)
		equal(t, "worth waiting", s.Wait(claims[0]), false)
		out := s.Run(claims[0])
		wantKind(t, out, idem.InFlight)
		wantErr(t, out.Err, idem.ErrInFlight)
		equal(t, "calls of the handler", h.calls, 0)
		claims[0].TakeOver = true
		s.Claim(claims)
		out = s.Run(claims[0])
		wantKind(t, out, idem.Executed)
		equal(t, "stolen", out.Stolen, true)
		equal(t, "attempt", out.Attempt, 2)
	})
}

// A store that does not answer must leave the caller a quarter of the margin for its own answer.
func TestUnresponsiveStoreLeavesTimeForTheAnswer(t *testing.T) {
	for _, tc := range []struct {
		name string
		hang func(st *spy)
		kind idem.Kind
	}{
		{"claim", func(st *spy) {
			st.onClaim = func(ctx context.Context, reqs []store.ClaimRequest,
				_ func() []store.ClaimResult) []store.ClaimResult {
				<-ctx.Done()
				return down(ctx.Err())(ctx, reqs, nil)
			}
		}, idem.StoreDown},
		{"completion", func(st *spy) {
			st.onSettle = func(ctx context.Context, _ store.Settlement, _ func() error) error {
				<-ctx.Done()
				return ctx.Err()
			}
		}, idem.CompletionFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newSpy()
				tc.hang(st)
				begun := time.Now()
				e := newEngine(t, st, idem.Config{DeadlineMargin: 2 * time.Second})
				wantKind(t, e.Do(until(t, 10*time.Second), taskOf(returning("receipt", nil))), tc.kind)
				equal(t, "it took", time.Since(begun), 9500*time.Millisecond)
			})
		})
	}
}

// foreign is a context of a type that package context does not know: a child of it needs a goroutine until it
// is cancelled.
type foreign struct{ context.Context }

func (foreign) Done() <-chan struct{} { return make(chan struct{}) }

func TestDoLeavesNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the bubble ends by a panic if a goroutine is left in it
		e := newEngine(t, newSpy(), idem.Config{})
		wantKind(t, e.Do(foreign{t.Context()}, taskOf(returning("receipt", nil))), idem.Executed)
	})
}

func TestCloseEndsTheHandlersContexts(t *testing.T) {
	s := newEngine(t, newSpy(), idem.Config{}).Session(t.Context())
	equal(t, "error", s.Handlers().Err(), nil)
	s.Close()
	equal(t, "error", s.Handlers().Err(), context.Canceled)
}
