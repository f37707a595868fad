package idem_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

func TestHandlerErrors(t *testing.T) {
	for _, tc := range []struct {
		name     string
		err      error
		kind     idem.Kind
		attempts int
		delay    time.Duration
		code     string
	}{
		{"an error that may pass", errBoom, idem.Retry, 1, 0, store.CodeError},
		{"one that says when", idem.RetryAfter(errBoom, time.Minute), idem.Retry, 1, time.Minute,
			store.CodeError},
		{"a dependency that is down", idem.Unavailable(errBoom), idem.DependencyDown, 0, 0,
			store.CodeUnavailable},
		{
			"a dependency that says when", idem.Unavailable(idem.RetryAfter(errBoom, time.Minute)),
			idem.DependencyDown, 0, time.Minute,
			store.CodeUnavailable,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newSpy()
				letters := &deadLetters{}
				out := newEngine(t, st, idem.Config{}).Do(t.Context(),
					taskWithDeadLetters(letters, returning("", tc.err)))
				wantKind(t, out, tc.kind)
				wantErr(t, out.Err, errBoom)
				entry := get(t, st, testKey)
				equal(t, "released", entry.Released(), true)
				equal(t, "the delay", time.Until(entry.RetryAt), tc.delay)
				equal(t, "attempts", entry.Attempts, tc.attempts)
				equal(t, "the stored code", entry.Failure.Code, tc.code)
				equal(t, "the stored message", entry.Failure.Message, "boom")
				equal(t, "dead letters", len(letters.sent), 0)
			})
		})
	}
}

func TestLastAttemptIsDeadLettered(t *testing.T) {
	st := newSpy()
	letters := &deadLetters{}
	e := newEngine(t, st, idem.Config{MaxAttempts: 3})
	h := returning("", errBoom)
	for range 2 {
		wantKind(t, e.Do(t.Context(), taskWithDeadLetters(letters, h)), idem.Retry)
	}
	out := e.Do(t.Context(), taskWithDeadLetters(letters, h))
	wantKind(t, out, idem.DeadLettered)
	wantErr(t, out.Err, idem.ErrAttemptsExhausted, errBoom)
	if !strings.Contains(out.Err.Error(), "attempt 3 of 3") {
		t.Errorf("%q does not count the attempts", out.Err)
	}
	equal(t, "calls of the handler", h.calls, 3)
	equal(t, "dead letters", len(letters.sent), 1)
	entry := get(t, st, testKey)
	equal(t, "status", entry.Status, store.StatusFailed)
	equal(t, "code", entry.Failure.Code, store.CodeExhausted)
	wantKind(t, e.Do(t.Context(), taskWithDeadLetters(letters, h)), idem.ReplayedFailed)
	equal(t, "calls of the handler", h.calls, 3)
}

// A task that kills its process has been charged with its claim, so it is not begun more often than the limit
// allows.
func TestTaskThatKillsItsProcessIsDeadLettered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		letters := &deadLetters{}
		e := newEngine(t, st, idem.Config{MaxAttempts: 3, Lease: lease})
		h := &handler{handle: func(context.Context, int) ([]byte, error) { return nil, errBoom }}
		wantKind(t, e.Do(t.Context(), taskWithDeadLetters(letters, h)), idem.Retry)
		for range 2 {
			dying := []*idem.Claim{{Task: taskWithDeadLetters(letters, h), TakeOver: true}}
			session(t, e, t.Context()).Claim(dying)
			equal(t, "state", dying[0].State(), store.Claimed)
			pass(lease)
		}
		out := e.Do(t.Context(), taskWithDeadLetters(letters, h))
		wantKind(t, out, idem.DeadLettered)
		equal(t, "stolen", out.Stolen, true)
		equal(t, "calls of the handler", h.calls, 1)
		wantErr(t, out.Err, idem.ErrAttemptsExhausted)
		for _, want := range []string{"3 attempts were begun", "error: boom"} {
			if !strings.Contains(out.Err.Error(), want) {
				t.Errorf("%q does not contain %q", out.Err, want)
			}
		}
		entry := get(t, st, testKey)
		equal(t, "status", entry.Status, store.StatusFailed)
		equal(t, "code", entry.Failure.Code, store.CodeExhausted)
		equal(t, "dead letters", len(letters.sent), 1)
	})
}

func TestExhaustedTaskIsNotExecutedAgainIfItsDeadLetterFails(t *testing.T) {
	st := newSpy()
	letters := &deadLetters{}
	letters.onSend = func(context.Context, idem.DeadLetter) error {
		if len(letters.sent) < 3 {
			return errNetwork
		}
		return nil
	}
	e := newEngine(t, st, idem.Config{MaxAttempts: 1})
	h := returning("", errBoom)
	for range 2 {
		out := e.Do(t.Context(), taskWithDeadLetters(letters, h))
		wantKind(t, out, idem.Retry)
		wantErr(t, out.Err, errNetwork, idem.ErrAttemptsExhausted)
	}
	wantKind(t, e.Do(t.Context(), taskWithDeadLetters(letters, h)), idem.DeadLettered)
	equal(t, "calls of the handler", h.calls, 1)
}

func TestTasksWithoutDeadLettersNeverFail(t *testing.T) {
	for name, err := range map[string]error{"an error that may pass": errBoom,
		"a permanent one": idem.Permanent(errBoom)} {
		t.Run(name, func(t *testing.T) {
			st := newSpy()
			e := newEngine(t, st, idem.Config{MaxAttempts: 2})
			h := returning("", err)
			for n := range 5 {
				out := e.Do(t.Context(), taskOf(h))
				wantKind(t, out, idem.Retry)
				wantErr(t, out.Err, errBoom)
				equal(t, "it says why it is not given up", errors.Is(out.Err, idem.ErrNoDeadLetters),
					idem.IsPermanent(err))
				equal(t, "attempt", out.Attempt, n+1)
			}
			equal(t, "calls of the handler", h.calls, 5)
			equal(t, "released", ptr(get(t, st, testKey)).Released(), true)
		})
	}
}

func ptr[T any](v T) *T { return &v }

func TestAttemptsWithoutALimit(t *testing.T) {
	letters := &deadLetters{}
	e := newEngine(t, newSpy(), idem.Config{MaxAttempts: -1})
	h := returning("", errBoom)
	for range 2 * idem.Defaults().MaxAttempts {
		wantKind(t, e.Do(t.Context(), taskWithDeadLetters(letters, h)), idem.Retry)
	}
	equal(t, "calls of the handler", h.calls, 2*idem.Defaults().MaxAttempts)
	equal(t, "dead letters", len(letters.sent), 0)
}

func TestUnavailableDependencyCostsNoAttempts(t *testing.T) {
	letters := &deadLetters{}
	e := newEngine(t, newSpy(), idem.Config{MaxAttempts: 1})
	h := &handler{handle: func(_ context.Context, call int) ([]byte, error) {
		if call < 10 {
			return nil, idem.Unavailable(errBoom)
		}
		return []byte("receipt"), nil
	}}
	for range 9 {
		out := e.Do(t.Context(), taskWithDeadLetters(letters, h))
		wantKind(t, out, idem.DependencyDown)
		equal(t, "attempt", out.Attempt, 1)
	}
	wantKind(t, e.Do(t.Context(), taskWithDeadLetters(letters, h)), idem.Executed)
	equal(t, "dead letters", len(letters.sent), 0)
}

// An error that a handler returns after its caller cancelled it may be the result of the cancellation: it
// costs no attempt, and no dead letter is sent. The failure that was recorded before stays.
func TestCancelledHandlerCostsNoAttempt(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		kind idem.Kind
	}{
		"the error of the context":    {context.Canceled, idem.Retry},
		"an error of a client":        {errBoom, idem.Retry},
		"an error with a delay":       {idem.RetryAfter(errBoom, time.Hour), idem.Retry},
		"cancelled, called permanent": {idem.Permanent(context.Canceled), idem.Retry},
		"a permanent error":           {idem.Permanent(errBoom), idem.DeadLettered},
		"an error of a dependency":    {idem.Unavailable(errBoom), idem.DependencyDown},
		"success":                     {nil, idem.Executed},
		"success without a result":    {idem.ResultUnavailable(errBoom), idem.Executed},
	} {
		t.Run(name, func(t *testing.T) {
			st, letters := newSpy(), &deadLetters{}
			e := newEngine(t, st, idem.Config{MaxAttempts: 2})
			wantKind(t, e.Do(t.Context(), taskWithDeadLetters(letters, returning("", errBoom))), idem.Retry)
			before := get(t, st, testKey)
			ctx, cancel := context.WithCancel(t.Context())
			out := e.Do(ctx, taskWithDeadLetters(letters,
				&handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
					cancel()
					<-ctx.Done()
					return []byte("receipt"), tc.err
				}}))
			wantKind(t, out, tc.kind)
			equal(t, "attempt", out.Attempt, 2)
			if out.Kind.Settled() {
				return
			}
			wantErr(t, out.Err, tc.err)
			equal(t, "dead letters", len(letters.sent), 0)
			entry, last := get(t, st, testKey), st.all(store.OpRelease)[1]
			equal(t, "released", entry.Released(), true)
			equal(t, "attempts", entry.Attempts, before.Attempts)
			equal(t, "the delay is kept", last.Delay > 0, name == "an error with a delay")
			if tc.kind == idem.Retry {
				equal(t, "recorded failure", *entry.Failure, *before.Failure)
			}
		})
	}
}

func TestPanicIsAFailureOfItsTask(t *testing.T) {
	st := newSpy()
	letters := &deadLetters{}
	e := newEngine(t, st, idem.Config{MaxAttempts: 2})
	h := &handler{handle: func(context.Context, int) ([]byte, error) { panic("nil map") }}
	out := e.Do(t.Context(), taskWithDeadLetters(letters, h))
	wantKind(t, out, idem.Retry)
	var p *idem.PanicError
	if !errors.As(out.Err, &p) || p.Value != "nil map" || !bytes.Contains(p.Stack, []byte("run_test.go")) {
		t.Fatalf("error %v; want a PanicError with the stack", out.Err)
	}
	equal(t, "code", get(t, st, testKey).Failure.Code, store.CodePanic)
	wantKind(t, e.Do(t.Context(), taskWithDeadLetters(letters, h)), idem.DeadLettered)
	equal(t, "the dead letter's code", letters.sent[0].Failure.Code, store.CodePanic)
	if !errors.As(letters.sent[0].Err, &p) {
		t.Errorf("the dead letter's error is %v; want the PanicError", letters.sent[0].Err)
	}
}

// nilError is an error whose methods need a receiver. Returning a nil pointer to it as an error is a common
// mistake.
type nilError struct{ cause error }

func (e *nilError) Error() string { return e.cause.Error() }

func (e *nilError) Unwrap() error { return e.cause }

func TestErrorWhoseMethodsPanicIsAFailureOfItsTask(t *testing.T) {
	st := newSpy()
	h := &handler{handle: func(context.Context, int) ([]byte, error) {
		var err *nilError
		return nil, err
	}}
	out := newEngine(t, st, idem.Config{}).Do(t.Context(), taskWithDeadLetters(&deadLetters{}, h))
	wantKind(t, out, idem.Retry)
	var p *idem.PanicError
	if !errors.As(out.Err, &p) || !bytes.Contains(p.Stack, []byte("nilError")) {
		t.Errorf("error %v; want a PanicError with the stack", out.Err)
	}
	equal(t, "code", get(t, st, testKey).Failure.Code, store.CodePanic)
}

func TestLongMessageIsTruncated(t *testing.T) {
	for name, tc := range map[string]struct{ message, want string }{
		"in the middle of a character": {"x" + strings.Repeat("ж", store.MaxFailureMessage),
			"x" + strings.Repeat("ж", store.MaxFailureMessage/2-1)},
		"not UTF-8": {"a\xFFb", "a\uFFFDb"},
		"just short enough": {strings.Repeat("m", store.MaxFailureMessage),
			strings.Repeat("m", store.MaxFailureMessage)},
	} {
		st := newSpy()
		newEngine(t, st, idem.Config{}).Do(t.Context(), taskOf(returning("", errors.New(tc.message))))
		equal(t, name, get(t, st, testKey).Failure.Message, tc.want)
	}
}

func TestResultsThatAreNotStored(t *testing.T) {
	large := strings.Repeat("r", idem.Defaults().MaxResult+1)
	for _, tc := range []struct {
		name      string
		maxResult int
		result    string
		err       error
		omitted   int
		outErr    error
	}{
		{"the largest that is", 0, large[1:], nil, 0, nil},
		{"too large", 0, large, nil, len(large), nil},
		{"none is to be stored", -1, "r", nil, 1, nil},
		{"can't be encoded", 0, "", idem.ResultUnavailable(errBoom), store.ResultUnencodable,
			store.ErrResultNotStored},
	} {
		t.Run(tc.name, func(t *testing.T) {
			st := newSpy()
			e := newEngine(t, st, idem.Config{MaxResult: tc.maxResult})
			task := taskOf(returning(tc.result, tc.err))
			out := e.Do(t.Context(), task)
			wantKind(t, out, idem.Executed)
			equal(t, "result", string(out.Result), tc.result)
			equal(t, "it says so", errors.Is(out.Err, store.ErrResultNotStored), tc.outErr != nil)
			entry := get(t, st, testKey)
			equal(t, "status", entry.Status, store.StatusCompleted)
			equal(t, "omitted", entry.ResultOmitted, tc.omitted)
			equal(t, "stored", entry.Result != nil, tc.omitted == 0)
			out = e.Do(t.Context(), task)
			wantKind(t, out, idem.Replayed)
			equal(t, "the replay has no result", errors.Is(out.Err, store.ErrResultNotStored),
				tc.omitted != 0)
			if tc.omitted == 0 {
				equal(t, "replayed result", string(out.Result), tc.result)
			} else if out.Result != nil {
				t.Errorf("replayed result %q", out.Result)
			}
		})
	}
}
