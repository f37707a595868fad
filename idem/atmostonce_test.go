package idem_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

var atMostOnce = idem.Config{AtMostOnce: true, Lease: lease}

// An error that may hide an effect ends in a dead letter after one attempt. Any other error, and one of which
// the handler says so by a mark, is retried.
func TestErrorsThatMayHideAnEffect(t *testing.T) {
	expired, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	request, err := http.NewRequestWithContext(expired, http.MethodPost, "http://127.0.0.1:1", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	_, timeout := http.DefaultClient.Do(request)                               //nolint:bodyclose // there is no answer
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED} // it has a method Timeout
	for name, tc := range map[string]struct {
		err  error
		want idem.Kind
	}{
		"marked":                      {idem.OutcomeUnknown(errBoom), idem.DeadLettered},
		"wrapped":                     {fmt.Errorf("%w", idem.OutcomeUnknown(errBoom)), idem.DeadLettered},
		"the error itself":            {idem.ErrOutcomeUnknown, idem.DeadLettered},
		"the error itself, wrapped":   {fmt.Errorf("charging: %w: %w", idem.ErrOutcomeUnknown, errBoom), idem.DeadLettered},
		"one of several":              {errors.Join(idem.Unavailable(errBoom), idem.OutcomeUnknown(errBoom)), idem.DeadLettered},
		"marked as another":           {idem.RetryAfter(idem.ErrOutcomeUnknown, time.Second), idem.Retry},
		"unavailable, perhaps after":  {idem.OutcomeUnknown(idem.Unavailable(errBoom)), idem.DeadLettered},
		"in a call, perhaps after":    {idem.CallFailed(idem.OutcomeUnknown(idem.Unavailable(errBoom))), idem.DeadLettered},
		"out of turn, perhaps after":  {idem.OutOfTurn(idem.OutcomeUnknown(errBoom)), idem.DeadLettered},
		"out of turn":                 {idem.OutOfTurn(errBoom), idem.Behind},
		"a request without an answer": {timeout, idem.DeadLettered},
		"a deadline of its own":       {fmt.Errorf("charging: %w", context.DeadlineExceeded), idem.DeadLettered},
		"a connection's deadline":     {os.ErrDeadlineExceeded, idem.DeadLettered},
		"a cancellation":              {context.Canceled, idem.DeadLettered},
		"refused":                     {refused, idem.Retry},
		"an error that is a timeout":  {fmt.Errorf("charging: %w", isError{context.DeadlineExceeded, nil}), idem.DeadLettered},
		"one that is a cancellation":  {isError{context.Canceled, refused}, idem.DeadLettered},
		"one that is something else":  {isError{errBoom, refused}, idem.Retry},
		"a timeout before another":    {errors.Join(timeout, refused), idem.DeadLettered},
		"a timeout after another":     {errors.Join(refused, timeout), idem.DeadLettered},
		"a timeout of two wrapped":    {fmt.Errorf("A: %w, B: %w", refused, timeout), idem.DeadLettered},
		"a timeout in another":        {&url.Error{Err: errors.Join(refused, context.DeadlineExceeded)}, idem.DeadLettered},
		"a deadline in another":       {&net.OpError{Err: errors.Join(syscall.EPIPE, os.ErrDeadlineExceeded)}, idem.DeadLettered},
		"a timeout beside a mark":     {errors.Join(idem.Unavailable(refused), timeout), idem.DeadLettered},
		"a cancellation beside one":   {errors.Join(idem.RetryAfter(errBoom, 1), context.Canceled), idem.DeadLettered},
		"a panic beside a mark":       {errors.Join(idem.RetryAfter(errBoom, 1), &idem.PanicError{Value: 1}), idem.DeadLettered},
		"all of it marked":            {idem.Unavailable(errors.Join(refused, timeout)), idem.DependencyDown},
		"unmarked":                    {errBoom, idem.Retry},
		"a timeout before the effect": {idem.RetryAfter(timeout, time.Second), idem.Retry},
		"unavailable":                 {idem.Unavailable(context.DeadlineExceeded), idem.DependencyDown},
	} {
		t.Run(name, func(t *testing.T) {
			st, letters := newSpy(), &deadLetters{}
			e := newEngine(t, st, atMostOnce)
			h := returning("", tc.err)
			out := e.Do(t.Context(), taskWithDeadLetters(letters, h))
			wantKind(t, out, tc.want)
			if tc.want != idem.DeadLettered {
				equal(t, "released", released(t, st), true)
				return
			}
			wantErr(t, out.Err, idem.ErrOutcomeUnknown)
			entry := get(t, st, testKey)
			equal(t, "status", entry.Status, store.StatusFailed)
			equal(t, "code", letters.sent[0].Failure.Code, store.CodeOutcomeUnknown)
			for _, part := range []string{"attempt 1", entry.Owner, fmt.Sprint(entry.Token), tc.err.Error()} {
				if !strings.Contains(letters.sent[0].Failure.Message, part) {
					t.Errorf("the letter says %q; want %q in it", letters.sent[0].Failure.Message, part)
				}
			}
			wantKind(t, e.Do(t.Context(), taskWithDeadLetters(letters, h)), idem.ReplayedFailed)
			equal(t, "calls", h.calls, 1)
		})
	}
}

// Without the setting the mark has no meaning, also if the dead letter can't be sent.
func TestOutcomeUnknownIsAnOrdinaryErrorByDefault(t *testing.T) {
	for name, err := range map[string]error{
		"marked": idem.OutcomeUnknown(errBoom), "the error itself": idem.ErrOutcomeUnknown,
	} {
		t.Run(name, func(t *testing.T) {
			st, letters := newSpy(), &deadLetters{onSend: func(context.Context, idem.DeadLetter) error { return errNetwork }}
			out := newEngine(t, st, idem.Config{MaxAttempts: 1}).Do(t.Context(),
				taskWithDeadLetters(letters, returning("", err)))
			wantKind(t, out, idem.Retry)
			wantErr(t, out.Err, err)
			equal(t, "released", released(t, st), true)
			equal(t, "code", letters.sent[0].Failure.Code, store.CodeExhausted)
		})
	}
}

// Without the setting the mark has no meaning: the marks below it count.
func TestOutcomeUnknownHasNoMeaningByDefault(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want idem.Kind
	}{
		{errBoom, idem.Retry},
		{idem.Unavailable(errBoom), idem.DependencyDown},
		{idem.Permanent(errBoom), idem.DeadLettered},
	} {
		out := newEngine(t, newSpy(), idem.Config{}).Do(t.Context(),
			taskWithDeadLetters(&deadLetters{}, returning("", idem.OutcomeUnknown(tc.err))))
		wantKind(t, out, tc.want)
		wantErr(t, out.Err, errBoom)
	}
}

func TestPanicMayHideAnEffect(t *testing.T) {
	letters := &deadLetters{}
	h := &handler{handle: func(context.Context, int) ([]byte, error) { panic(idem.Permanent(errBoom)) }}
	out := newEngine(t, newSpy(), atMostOnce).Do(t.Context(), taskWithDeadLetters(letters, h))
	wantKind(t, out, idem.DeadLettered)
	wantErr(t, out.Err, idem.ErrOutcomeUnknown)
}

// die leaves an attempt that has begun and has not ended, as a process that dies does.
func die(t *testing.T, st *spy, e *idem.Engine) {
	t.Helper()
	before := st.onSettle
	st.onSettle = failing(store.OpComplete, store.OpFail, store.OpRelease, store.OpExtend)
	h := returning("receipt", nil)
	out := e.Do(until(t, time.Second), taskWithDeadLetters(&deadLetters{}, h))
	wantKind(t, out, idem.CompletionFailed)
	equal(t, "it says that it runs again", strings.Contains(out.Err.Error(), "runs again"), false)
	equal(t, "calls", h.calls, 1)
	st.onSettle = before
}

func released(t *testing.T, st *spy) bool {
	t.Helper()
	entry := get(t, st, testKey)
	return entry.Released()
}

// neverCalled is a handler that must not be called.
func neverCalled(t *testing.T) *handler {
	return &handler{handle: func(context.Context, int) ([]byte, error) {
		t.Error("the handler was called a second time")
		return nil, nil
	}}
}

// The dead letter of an attempt that did not end has what is known of it, and is sent by the next delivery,
// also if the reply to its take-over is lost, or the letter can't be sent the first time.
func TestAttemptThatDidNotEnd(t *testing.T) {
	loseReply := func(st *spy, n int) {
		st.onClaim = func(_ context.Context, reqs []store.ClaimRequest,
			land func() []store.ClaimResult) []store.ClaimResult {
			results := land()
			if reqs[0].TakeOver && n > 0 {
				n--
				return []store.ClaimResult{{Err: errNetwork}}
			}
			return results
		}
	}
	for name, tc := range map[string]struct {
		meanwhile  func(st *spy, letters *deadLetters)
		deliveries int
	}{
		"at once":                     {func(*spy, *deadLetters) {}, 1},
		"the reply is lost":           {func(st *spy, _ *deadLetters) { loseReply(st, 1) }, 2},
		"the reply is lost two times": {func(st *spy, _ *deadLetters) { loseReply(st, 2) }, 3},
		"the letter is not sent": {func(_ *spy, letters *deadLetters) {
			letters.onSend = func(context.Context, idem.DeadLetter) error {
				if len(letters.sent) == 1 {
					return errNetwork
				}
				return nil
			}
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, letters := newSpy(), &deadLetters{}
				e := newEngine(t, st, atMostOnce)
				die(t, st, e)
				seen := get(t, st, testKey)
				tc.meanwhile(st, letters)
				var out idem.Outcome
				for range tc.deliveries {
					out = e.Do(t.Context(), taskWithDeadLetters(letters, neverCalled(t)))
				}
				wantKind(t, out, idem.DeadLettered)
				wantErr(t, out.Err, idem.ErrOutcomeUnknown)
				entry := get(t, st, testKey)
				equal(t, "status", entry.Status, store.StatusFailed)
				equal(t, "code", entry.Failure.Code, store.CodeOutcomeUnknown)
				for _, part := range []string{"attempt 1 ", seen.Owner, fmt.Sprint(seen.Token), testSource} {
					if text := letters.sent[0].Failure.Message; tc.deliveries == 1 && !strings.Contains(text, part) {
						t.Errorf("the letter says %q; want %q in it", text, part)
					}
				}
			})
		})
	}
}

// The store may recognise a take-over that its client sent twice, and then does not say that it took the key
// from another owner.
func TestTakeOverThatTheStoreRecognises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, letters := newSpy(), &deadLetters{}
		e := newEngine(t, st, atMostOnce)
		die(t, st, e)
		st.onClaim = func(_ context.Context, _ []store.ClaimRequest,
			land func() []store.ClaimResult) []store.ClaimResult {
			land()
			return land()
		}
		out := e.Do(t.Context(), taskWithDeadLetters(letters, neverCalled(t)))
		equal(t, "stolen", out.Stolen, false)
		wantKind(t, out, idem.DeadLettered)
	})
}

// An attempt that ended with an error is followed by another one, also if the handler's process then dies.
func TestAttemptsAfterOrdinaryErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, letters := newSpy(), &deadLetters{}
		e := newEngine(t, st, atMostOnce)
		h := &handler{handle: func(_ context.Context, call int) ([]byte, error) {
			if call < 3 {
				return nil, errBoom
			}
			return []byte("receipt"), nil
		}}
		for _, want := range []idem.Kind{idem.Retry, idem.Retry, idem.Executed} {
			wantKind(t, e.Do(t.Context(), taskWithDeadLetters(letters, h)), want)
		}
		equal(t, "dead letters", len(letters.sent), 0)
	})
}

// A handler that a deadline, a shutdown or a lost lease ends may have had its effect.
func TestHandlerThatIsEndedMayHaveHadItsEffect(t *testing.T) {
	waits := &handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
		<-ctx.Done()
		return nil, errors.New("no answer")
	}}
	t.Run("deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			out := newEngine(t, newSpy(), atMostOnce).Do(until(t, 10*time.Second),
				taskWithDeadLetters(&deadLetters{}, waits))
			wantKind(t, out, idem.DeadLettered)
			wantErr(t, out.Err, idem.ErrOutcomeUnknown)
		})
	})
	t.Run("shutdown", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			out := newEngine(t, newSpy(), atMostOnce).Do(ctx, taskWithDeadLetters(&deadLetters{}, waits))
			wantKind(t, out, idem.DeadLettered)
		})
	})
	t.Run("lost lease", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st, letters := newSpy(), &deadLetters{}
			st.onSettle = failing(store.OpExtend)
			e := newEngine(t, st, atMostOnce)
			wantKind(t, e.Do(t.Context(), taskWithDeadLetters(letters, waits)), idem.Retry)
			equal(t, "released", released(t, st), false)
			out := e.Do(t.Context(), taskWithDeadLetters(letters, neverCalled(t)))
			wantKind(t, out, idem.DeadLettered)
			wantErr(t, out.Err, idem.ErrOutcomeUnknown)
		})
	})
}

// A redrive opens a key that FAILED with a known outcome, and no other.
func TestRedriveDoesNotOpenAnUnknownOutcome(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want idem.Kind
	}{
		"known":   {idem.Permanent(errBoom), idem.Executed},
		"unknown": {idem.OutcomeUnknown(errBoom), idem.ReplayedFailed},
	} {
		t.Run(name, func(t *testing.T) {
			st, letters := newSpy(), &deadLetters{}
			e := newEngine(t, st, atMostOnce)
			wantKind(t, e.Do(t.Context(), taskWithDeadLetters(letters, returning("", tc.err))), idem.DeadLettered)
			again := taskWithDeadLetters(letters, returning("receipt", nil))
			again.RedriveToken = letters.sent[0].Attempt.Token
			out := e.Do(t.Context(), again)
			wantKind(t, out, tc.want)
			var failed *idem.AlreadyFailedError
			if tc.want == idem.ReplayedFailed &&
				(!errors.As(out.Err, &failed) || failed.Failure.Code != store.CodeOutcomeUnknown) {
				t.Errorf("%v", out.Err)
			}
		})
	}
}

// Claims that are given back have not begun.
func TestReleasedClaimHasNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, letters := newSpy(), &deadLetters{}
		e := newEngine(t, st, atMostOnce)
		s := e.Session(t.Context())
		defer s.Close()
		claims := []*idem.Claim{{Task: taskWithDeadLetters(letters, neverCalled(t))}}
		s.Claim(claims)
		s.Release(claims)
		wantKind(t, e.Do(t.Context(), taskWithDeadLetters(letters, returning("receipt", nil))), idem.Executed)

		// but a key that was taken over is not given back
		st = newSpy()
		e = newEngine(t, st, atMostOnce)
		die(t, st, e)
		pass(2 * lease)
		claims[0] = &idem.Claim{Task: taskWithDeadLetters(letters, neverCalled(t)), TakeOver: true}
		s = e.Session(t.Context())
		defer s.Close()
		s.Claim(claims)
		equal(t, "state", claims[0].State(), store.Claimed)
		s.Release(claims)
		equal(t, "released", released(t, st), false)
	})
}

// A rejected task has no effect: its dead letter has its own reason, also if its process died before.
func TestRejectedTaskKeepsItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, letters := newSpy(), &deadLetters{}
		e := newEngine(t, st, atMostOnce)
		die(t, st, e)
		task := taskWithDeadLetters(letters, returning("", idem.Permanent(errBoom)))
		task.Rejected = true
		wantKind(t, e.Do(t.Context(), task), idem.DeadLettered)
		equal(t, "code", letters.sent[0].Failure.Code, store.CodePermanent)
	})
}

// A rejected task that is to be tried again leaves the key claimed. The task that follows it, of a record that is
// identified now, finds the attempt that did not end.
func TestRejectedTaskLeavesAnAttemptThatDidNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, letters := newSpy(), &deadLetters{}
		e := newEngine(t, st, atMostOnce)
		die(t, st, e)
		rejected := taskWithDeadLetters(letters, returning("", idem.Unavailable(errBoom)))
		rejected.Rejected = true
		for range 2 * idem.Defaults().MaxAttempts { // it has no limit
			wantKind(t, e.Do(t.Context(), rejected), idem.DependencyDown)
		}
		out := e.Do(t.Context(), taskWithDeadLetters(letters, neverCalled(t)))
		wantKind(t, out, idem.DeadLettered)
		wantErr(t, out.Err, idem.ErrOutcomeUnknown)
	})
}

func TestAtMostOnceNeedsDeadLetters(t *testing.T) {
	out := newEngine(t, newSpy(), atMostOnce).Do(t.Context(), taskOf(neverCalled(t)))
	wantKind(t, out, idem.NotStarted)
	wantErr(t, out.Err, idem.ErrNoDeadLetters)
	_, err := idem.New(newSpy(), idem.Config{AtMostOnce: true, FailOpen: true})
	wantErr(t, err, idem.ErrInvalidConfig)
	if err == nil || !strings.Contains(err.Error(), "AtMostOnce with") {
		t.Error(err)
	}
}

// Timeouts of different keys are an outage, in which the others are held back.
func TestTimeoutsAreASignOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := atMostOnce
		cfg.OutageFailures = 2
		e, letters := newEngine(t, newSpy(), cfg), &deadLetters{}
		for i, want := range []idem.Kind{idem.DeadLettered, idem.DeadLettered, idem.NotStarted} {
			task := taskWithDeadLetters(letters, returning("", context.DeadlineExceeded))
			task.Key = fmt.Sprint(i)
			wantKind(t, e.Do(t.Context(), task), want)
		}
	})
}

// isError is an error that says by a method Is what it is.
type isError struct{ is, cause error }

func (isError) Error() string          { return "no answer in time" }
func (e isError) Is(target error) bool { return target == e.is }
func (e isError) Unwrap() error        { return e.cause }
