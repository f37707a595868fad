package idem_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// settle ends the unknown outcome of the test's key, as idemsk resolve does.
func settle(t *testing.T, st *spy, op store.SettleOp) {
	t.Helper()
	failed := get(t, st, testKey)
	got := st.Store.Claim(t.Context(), []store.ClaimRequest{{Key: failed.Key, Owner: "operator", Lease: lease,
		Retention: time.Hour, Fingerprint: failed.Fingerprint, RedriveToken: failed.Token}})[0]
	equal(t, "state", got.State, store.Claimed)
	set := store.Settlement{Op: op, Key: failed.Key, Owner: "operator", Token: got.Entry.Token, Retention: time.Hour}
	if op == store.OpRelease {
		set.Refund, set.Failure = true, &store.Failure{Code: store.CodeResolved}
	}
	if errs := st.Store.Settle(t.Context(), []store.Settlement{set}); len(errs) > 0 && errs[0] != nil {
		t.Fatal(errs[0])
	}
}

// The redriven letter of an unknown outcome decides by itself: whatever the entry of its key is, the handler is
// called only after an operator has settled the outcome.
func TestRedrivenLetterOfAnUnknownOutcome(t *testing.T) {
	const retention = time.Hour
	none := func(*testing.T, *spy, *idem.Engine) {}
	expired := func(*testing.T, *spy, *idem.Engine) { pass(2 * retention) }
	gone := func(t *testing.T, st *spy, _ *idem.Engine) {
		if err := st.Delete(t.Context(), testKey, get(t, st, testKey).Token); err != nil {
			t.Fatal(err)
		}
	}
	known := func(task *idem.Task) { task.OutcomeUnknown = false }
	for name, tc := range map[string]struct {
		meanwhile func(t *testing.T, st *spy, e *idem.Engine)
		change    func(task *idem.Task)
		want      idem.Kind
	}{
		"at once":        {none, nil, idem.ReplayedFailed},
		"expired":        {expired, nil, idem.DeadLettered},
		"gone":           {gone, nil, idem.DeadLettered},
		"of another key": {none, func(task *idem.Task) { task.Key = "another" }, idem.DeadLettered},
		"a forged token": {gone, func(task *idem.Task) { task.RedriveToken = 1 }, idem.DeadLettered},
		"given back once": {func(t *testing.T, st *spy, e *idem.Engine) {
			gone(t, st, e)
			s := e.Session(t.Context())
			defer s.Close()
			claims := []*idem.Claim{{Task: taskWithDeadLetters(&deadLetters{}, neverCalled(t))}}
			s.Claim(claims)
			s.Release(claims)
		}, nil, idem.DeadLettered},
		"completed by an operator": {func(t *testing.T, st *spy, _ *idem.Engine) { settle(t, st, store.OpComplete) },
			nil, idem.Replayed},
		"opened by an operator": {func(t *testing.T, st *spy, _ *idem.Engine) { settle(t, st, store.OpRelease) },
			nil, idem.Executed},
		"tried after that": {func(t *testing.T, st *spy, e *idem.Engine) {
			settle(t, st, store.OpRelease)
			wantKind(t, e.Do(t.Context(), taskWithDeadLetters(&deadLetters{}, returning("", errBoom))), idem.Retry)
		}, nil, idem.Executed},
		"opened, expired": {func(t *testing.T, st *spy, e *idem.Engine) {
			settle(t, st, store.OpRelease)
			gone(t, st, e)
		}, nil, idem.DeadLettered},
		"of a known outcome, gone": {gone, known, idem.Executed},
		"of a known outcome":       {none, known, idem.ReplayedFailed}, // the entry decides
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := atMostOnce
				cfg.Retention = retention
				st, letters := newSpy(), &deadLetters{}
				e := newEngine(t, st, cfg)
				wantKind(t, e.Do(t.Context(), taskWithDeadLetters(letters, returning("", idem.OutcomeUnknown(errBoom)))),
					idem.DeadLettered)
				tc.meanwhile(t, st, e)
				h := returning("receipt", nil)
				redriven := taskWithDeadLetters(letters, h)
				redriven.RedriveToken, redriven.OutcomeUnknown = letters.sent[0].Attempt.Token, true
				if tc.change != nil {
					tc.change(&redriven)
				}
				out := e.Do(t.Context(), redriven)
				wantKind(t, out, tc.want)
				calls := 0
				if tc.want == idem.Executed {
					calls = 1
				}
				equal(t, "calls", h.calls, calls)
				if tc.want != idem.DeadLettered {
					return
				}
				// It is settled as any other.
				equal(t, "code", letters.sent[len(letters.sent)-1].Failure.Code, store.CodeOutcomeUnknown)
				if redriven.Key == testKey {
					settle(t, st, store.OpRelease)
					redriven.RedriveToken = letters.sent[len(letters.sent)-1].Attempt.Token
					wantKind(t, e.Do(t.Context(), redriven), idem.Executed)
				}
			})
		})
	}
}

// By default the code of a letter has no meaning.
func TestRedrivenLetterWithoutAtMostOnce(t *testing.T) {
	task := taskWithDeadLetters(&deadLetters{}, returning("receipt", nil))
	task.RedriveToken, task.OutcomeUnknown = 7, true
	wantKind(t, newEngine(t, newSpy(), idem.Config{}).Do(t.Context(), task), idem.Executed)
}
