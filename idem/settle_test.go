package idem_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

func TestSettlementIsRetriedUntilItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		tries := 0
		st.onSettle = func(_ context.Context, _ store.Settlement, land func() error) error {
			if tries++; tries <= 4 {
				return errNetwork
			}
			return land()
		}
		out := newEngine(t, st, idem.Config{}).Do(until(t, time.Minute), taskOf(returning("receipt", nil)))
		wantKind(t, out, idem.Executed)
		equal(t, "completions sent", st.count(store.OpComplete), 5)
		if out.SettleTook < 4*25*time.Millisecond || out.SettleTook > 4*400*time.Millisecond {
			t.Errorf("the settlement took %v; want the pauses in it", out.SettleTook)
		}
	})
}

// The completion succeeded and its reply was lost: the retry recognises it.
func TestCompletionWithALostReplyTakesEffectOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		st.onSettle = func(_ context.Context, _ store.Settlement, land func() error) error {
			err := land()
			if len(st.settled) == 1 {
				return errNetwork
			}
			return err
		}
		out := newEngine(t, st, idem.Config{}).Do(t.Context(), taskOf(returning("receipt", nil)))
		wantKind(t, out, idem.Executed)
		equal(t, "completions sent", len(st.settled), 2)
	})
}

func TestUnansweredCompletionFails(t *testing.T) {
	for _, tc := range []struct {
		name    string
		err     error
		op      store.SettleOp
		letters int
	}{
		{"complete", nil, store.OpComplete, 0},
		{"fail", idem.Permanent(errBoom), store.OpFail, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newSpy()
				st.onSettle = failing(tc.op)
				letters := &deadLetters{}
				e := newEngine(t, st, idem.Config{})
				begun := time.Now()
				out := e.Do(until(t, 10*time.Second),
					taskWithDeadLetters(letters, returning("receipt", tc.err)))
				wantKind(t, out, idem.CompletionFailed)
				wantErr(t, out.Err, errNetwork)
				// the rest is for the answer
				equal(t, "it took", time.Since(begun), 10*time.Second-idem.Defaults().DeadlineMargin/4)
				entry := get(t, st, testKey)
				equal(t, "status", entry.Status, store.StatusStarted)
				equal(t, "released", entry.Released(), false)
				equal(t, "dead letters", len(letters.sent), tc.letters)
				for _, want := range []string{testKey, testSource, tc.name, "lease of 30s",
					"token " + strconv.FormatInt(entry.Token, 10)} {
					if !strings.Contains(out.Err.Error(), want) {
						t.Errorf("%q does not contain %q", out.Err, want)
					}
				}
				if n := st.count(tc.op); n < 8 {
					t.Errorf("sent %d times within 10s", n)
				}
				equal(t, "releases", st.count(store.OpRelease), 0)
			})
		})
	}
}

func TestSettlementWithoutADeadlineEndsAfterALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		st.onSettle = failing(store.OpComplete)
		begun := time.Now()
		out := newEngine(t, st, idem.Config{Lease: lease}).Do(t.Context(), taskOf(returning("receipt", nil)))
		wantKind(t, out, idem.CompletionFailed)
		equal(t, "it took", time.Since(begun), lease)
	})
}

func TestUnreleasedKeyIsFreeWhenItsLeaseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		st.onSettle = failing(store.OpRelease)
		e := newEngine(t, st, idem.Config{})
		h := returning("", errBoom)
		out := e.Do(until(t, time.Hour), taskOf(h))
		wantKind(t, out, idem.Retry)
		wantErr(t, out.Err, errBoom, errNetwork)
		if !strings.Contains(out.Err.Error(), "stays taken for up to 30s") {
			t.Errorf("%q does not contain for how long", out.Err)
		}
		equal(t, "releases sent", st.count(store.OpRelease), 3)
		begun := time.Now()
		wantKind(t, e.Do(until(t, time.Hour), taskOf(h)), idem.Retry)
		equal(t, "calls of the handler", h.calls, 2)
		if waited := time.Since(begun); waited < 29*time.Second || waited > 33*time.Second {
			t.Errorf("waited %v for a lease of 30s", waited)
		}
	})
}

// An effect that took place is recorded, even if the caller has cancelled.
func TestCompletionIsSentAfterCancellation(t *testing.T) {
	for _, tc := range []struct {
		name   string
		caller context.Context
		err    error
	}{
		{"success", t.Context(), nil},
		{"success, with a deadline", until(t, time.Hour), nil},
		{"permanent failure", t.Context(), idem.Permanent(errBoom)},
		{"permanent failure, with a deadline", until(t, time.Hour), idem.Permanent(errBoom)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			st := newSpy()
			ctx, cancel := context.WithCancel(tc.caller)
			letters := &deadLetters{onSend: func(ctx context.Context,
				_ idem.DeadLetter) error {
				return ctx.Err()
			}}
			h := &handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
				cancel()
				<-ctx.Done()
				return []byte("receipt"), tc.err
			}}
			out := newEngine(t, st, idem.Config{}).Do(ctx, taskWithDeadLetters(letters, h))
			equal(t, "settled", out.Kind.Settled(), true)
			equal(t, "final", get(t, st, testKey).Status != store.StatusStarted, true)
		})
	}
}

func TestOutcomeHasTheStoreLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		st.onClaim = func(_ context.Context, _ []store.ClaimRequest,
			land func() []store.ClaimResult) []store.ClaimResult {
			pass(7 * time.Millisecond)
			return land()
		}
		st.onSettle = func(_ context.Context, _ store.Settlement, land func() error) error {
			pass(11 * time.Millisecond)
			return land()
		}
		out := newEngine(t, st, idem.Config{}).Do(t.Context(), taskOf(taking(time.Second, "", nil)))
		equal(t, "the claim took", out.ClaimTook, 7*time.Millisecond)
		equal(t, "the settlement took", out.SettleTook, 11*time.Millisecond)
	})
}

// failedOpen runs a task whose claim the store does not answer.
func failedOpen(t *testing.T, ctx context.Context, task idem.Task) idem.Outcome { //nolint:revive // as in package testing
	st := newSpy()
	st.onClaim = down(errNetwork)
	return newEngine(t, st, idem.Config{FailOpen: true}).Do(ctx, task)
}

// A handler that its caller cancelled sends no dead letter, whatever it calls its error.
func TestUnprotectedIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	letters := &deadLetters{}
	task := taskWithDeadLetters(letters, &handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
		cancel()
		<-ctx.Done()
		return nil, idem.Permanent(ctx.Err())
	}})
	wantKind(t, failedOpen(t, ctx, task), idem.Retry)
	equal(t, "dead letters", len(letters.sent), 0)
}

func TestUnprotectedPanics(t *testing.T) {
	task := taskOf(&handler{handle: func(context.Context, int) ([]byte, error) { panic(errBoom) }})
	out := failedOpen(t, t.Context(), task)
	wantKind(t, out, idem.Retry)
	wantErr(t, out.Err, errBoom)
}

func TestUnprotectedDeadLetterThatCannotBeSent(t *testing.T) {
	task := taskWithDeadLetters(&deadLetters{onSend: func(context.Context,
		idem.DeadLetter) error {
		return errNetwork
	}}, returning("", idem.Permanent(errBoom)))
	out := failedOpen(t, t.Context(), task)
	wantKind(t, out, idem.Retry)
	wantErr(t, out.Err, errNetwork, errBoom)
}

func TestUnprotectedWithoutDeadLettersIsRetried(t *testing.T) {
	task := taskOf(returning("", idem.Permanent(errBoom)))
	out := failedOpen(t, t.Context(), task)
	wantKind(t, out, idem.Retry)
	equal(t, "message", out.Err.Error(), "boom")
}

// The error of a completion that the store does not confirm in time is the last one that says why.
func TestErrorOfACompletionSaysWhyItIsNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		var tries atomic.Int32
		st.onSettle = func(ctx context.Context, _ store.Settlement, _ func() error) error {
			if tries.Add(1) <= 4 {
				return errNetwork
			}
			<-ctx.Done()
			return ctx.Err()
		}
		out := newEngine(t, st, idem.Config{}).Do(until(t, 20*time.Second), taskOf(returning("ok", nil)))
		wantKind(t, out, idem.CompletionFailed)
		wantErr(t, out.Err, errNetwork)
	})
}
