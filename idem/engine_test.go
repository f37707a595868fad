package idem_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

func TestFreshTaskIsExecutedOnce(t *testing.T) {
	st := newSpy()
	e := newEngine(t, st, idem.Config{})
	var seen idem.Attempt
	h := &handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
		seen, _ = idem.AttemptFrom(ctx)
		return []byte("receipt"), nil
	}}
	out := e.Do(t.Context(), taskOf(h))
	wantKind(t, out, idem.Executed)
	entry := get(t, st, testKey)
	equal(t, "status", entry.Status, store.StatusCompleted)
	equal(t, "stored result", string(entry.Result), "receipt")
	equal(t, "source", entry.Source, testSource)
	equal(t, "what the handler saw", seen,
		idem.Attempt{Key: testKey, Token: entry.Token, Number: 1, Source: testSource})
	equal(t, "outcome's result", string(out.Result), "receipt")
	equal(t, "outcome's key", out.Key, testKey)
	equal(t, "outcome's token", out.Token, entry.Token)
	equal(t, "outcome's attempt", out.Attempt, 1)
	equal(t, "outcome's error", out.Err, nil)
	equal(t, "claims", st.claimed(), 1)
	equal(t, "settlements", len(st.settled), 1)
}

func TestDuplicateGetsTheStoredResult(t *testing.T) {
	st := newSpy()
	e := newEngine(t, st, idem.Config{})
	h := returning("receipt", nil)
	first := e.Do(t.Context(), taskOf(h))
	out := e.Do(t.Context(), taskOf(h))
	wantKind(t, out, idem.Replayed)
	equal(t, "calls of the handler", h.calls, 1)
	equal(t, "result", string(out.Result), "receipt")
	equal(t, "token", out.Token, first.Token)
	equal(t, "error", out.Err, nil)
	equal(t, "attempt", out.Attempt, 0)
	equal(t, "claims", st.claimed(), 2)
	equal(t, "settlements", len(st.settled), 1)
}

func TestDuplicateOfAFailureIsNotExecuted(t *testing.T) {
	st := newSpy()
	e := newEngine(t, st, idem.Config{})
	h := returning("", idem.Permanent(errBoom))
	letters := &deadLetters{}
	first := e.Do(t.Context(), taskWithDeadLetters(letters, h))
	out := e.Do(t.Context(), taskWithDeadLetters(letters, h))
	wantKind(t, out, idem.ReplayedFailed)
	equal(t, "calls of the handler", h.calls, 1)
	equal(t, "dead letters", len(letters.sent), 1)
	var failed *idem.AlreadyFailedError
	if !errors.As(out.Err, &failed) {
		t.Fatalf("error %v; want an AlreadyFailedError", out.Err)
	}
	equal(t, "token", failed.Token, first.Token)
	equal(t, "code", failed.Failure.Code, store.CodePermanent)
	equal(t, "message", failed.Failure.Message, "boom")
	equal(t, "time is known", failed.Failure.At.IsZero(), false)
}

func TestAnotherFingerprintIsMismatched(t *testing.T) {
	st := newSpy()
	e := newEngine(t, st, idem.Config{})
	e.Do(t.Context(), taskOf(returning("receipt", nil)))
	before := get(t, st, testKey)
	h := returning("other", nil)
	task := taskOf(h)
	task.Fingerprint = store.FingerprintOf([]byte("another value"))
	out := e.Do(t.Context(), task)
	wantKind(t, out, idem.Mismatched)
	wantErr(t, out.Err, store.ErrFingerprintMismatch)
	equal(t, "calls of the handler", h.calls, 0)
	equal(t, "token", get(t, st, testKey).Token, before.Token)
	equal(t, "settlements", len(st.settled), 1)
}

func TestEmptyKeyIsInvalid(t *testing.T) {
	st := newSpy()
	h := returning("", nil)
	out := newEngine(t, st, idem.Config{}).Do(t.Context(), idem.Task{Source: testSource, Handler: h})
	wantKind(t, out, idem.InvalidKey)
	wantErr(t, out.Err, store.ErrInvalidKey)
	if !strings.Contains(out.Err.Error(), testSource) {
		t.Errorf("%q does not contain where the message comes from", out.Err)
	}
	equal(t, "calls of the handler", h.calls, 0)
	equal(t, "claims", st.claimed(), 0)
}

func TestHashedKeysAreSeenByTheHandlerOnly(t *testing.T) {
	st := newSpy()
	e := newEngine(t, st, idem.Config{HashKeys: true})
	var seen idem.Attempt
	h := &handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
		seen, _ = idem.AttemptFrom(ctx)
		return nil, idem.Permanent(errBoom)
	}}
	letters := &deadLetters{}
	out := e.Do(t.Context(), taskWithDeadLetters(letters, h))
	wantKind(t, out, idem.DeadLettered)
	equal(t, "the handler's key", seen.Key, testKey)
	equal(t, "the outcome's key", out.Key, hashed(testKey))
	equal(t, "the dead letter's stored key", letters.sent[0].StoredKey, hashed(testKey))
	equal(t, "the stored key", get(t, st, hashed(testKey)).Key, hashed(testKey))
	if again := e.Do(t.Context(), taskWithDeadLetters(letters, h)); strings.Contains(again.Err.Error(),
		testKey) {
		t.Errorf("%q tells the key", again.Err)
	}
}

func TestKeyIsNewAfterItsRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, newSpy(), idem.Config{Retention: time.Hour})
		h := returning("receipt", nil)
		first := e.Do(t.Context(), taskOf(h))
		pass(time.Hour - time.Second)
		wantKind(t, e.Do(t.Context(), taskOf(h)), idem.Replayed)
		pass(2 * time.Second)
		out := e.Do(t.Context(), taskOf(h))
		wantKind(t, out, idem.Executed)
		equal(t, "attempt", out.Attempt, 1)
		equal(t, "calls of the handler", h.calls, 2)
		if out.Token <= first.Token {
			t.Errorf("token %d after %d", out.Token, first.Token)
		}
	})
}

func TestRedriveExecutesAFailedTaskOnce(t *testing.T) {
	st := newSpy()
	e := newEngine(t, st, idem.Config{})
	letters := &deadLetters{}
	h := &handler{handle: func(_ context.Context, call int) ([]byte, error) {
		if call == 1 {
			return nil, idem.Permanent(errBoom)
		}
		return []byte("receipt"), nil
	}}
	task := taskWithDeadLetters(letters, h)
	wantKind(t, e.Do(t.Context(), task), idem.DeadLettered)
	task.RedriveToken = letters.sent[0].Attempt.Token
	out := e.Do(t.Context(), task)
	wantKind(t, out, idem.Executed)
	equal(t, "attempt", out.Attempt, 1)
	equal(t, "token", out.Token, task.RedriveToken+1)
	wantKind(t, e.Do(t.Context(), task), idem.Replayed)
}

func TestConcurrentDeliveriesExecuteOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const deliveries = 64
		e := newEngine(t, memstore.New(memstore.Config{}), idem.Config{})
		var calls atomic.Int32
		task := taskOf(idem.HandlerFunc(func(context.Context) ([]byte, error) {
			calls.Add(1)
			pass(time.Second)
			return []byte("receipt"), nil
		}))
		outs := make([]idem.Outcome, deliveries)
		var wg sync.WaitGroup
		for i := range outs {
			wg.Go(func() { outs[i] = e.Do(t.Context(), task) })
		}
		wg.Wait()
		kinds := map[idem.Kind]int{}
		for _, out := range outs {
			kinds[out.Kind]++
			equal(t, "result", string(out.Result), "receipt")
		}
		equal(t, "calls of the handler", calls.Load(), 1)
		equal(t, "executed", kinds[idem.Executed], 1)
		equal(t, "replayed", kinds[idem.Replayed], deliveries-1)
	})
}

func TestDefaults(t *testing.T) {
	e, err := idem.New(newSpy(), idem.Config{})
	wantErr(t, err, nil)
	got := e.Config()
	want := idem.Config{
		Lease: 30 * time.Second, Retention: 168 * time.Hour, MaxAttempts: 5, RetryDelay: time.Second,
		MaxResult: 4096, DeadlineMargin: 500 * time.Millisecond,
		CommitWindow: 256, OutageFailures: 5,
	}
	equal(t, "the configuration", got, want)
}

func TestNewNamesEveryInvalidField(t *testing.T) {
	_, err := idem.New(newSpy(), idem.Config{
		Lease: time.Millisecond, Retention: time.Microsecond, MaxAttempts: -2,
		RetryDelay: idem.MaxRetryDelay + 1, MaxResult: store.MaxResult + 1, DeadlineMargin: -1,
		Wait:           -2,
		CommitWindow:   -1,
		OutageFailures: -2, OutageLimit: -1,
	})
	wantErr(t, err, idem.ErrInvalidConfig)
	for _, field := range []string{
		"Lease is 1ms", "Retention is 1µs", "MaxAttempts is -2", "RetryDelay is 5m0.000000001s",
		"MaxResult is 358401 bytes", "DeadlineMargin is -1ns", "Wait is -2ns", "CommitWindow is -1",
		"OutageFailures is -2", "OutageLimit is -1ns",
	} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%q does not name %q", err, field)
		}
	}
}

func TestConfigBounds(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  idem.Config
		ok   bool
	}{
		{"the shortest lease", idem.Config{Lease: store.MinLease}, true},
		{"a shorter one", idem.Config{Lease: store.MinLease - 1}, false},
		{"the longest lease", idem.Config{Lease: store.MaxLease}, true},
		{"a longer one", idem.Config{Lease: store.MaxLease + 1}, false},
		{"the shortest retention", idem.Config{Retention: idem.Defaults().Lease}, true},
		{"a shorter one", idem.Config{Retention: idem.Defaults().Lease - 1}, false},
		{"no attempts limit, delay, stored results, waiting",
			idem.Config{MaxAttempts: -1, RetryDelay: -1, MaxResult: -1, Wait: -1}, true},
		{"RetryDelay below its -1", idem.Config{RetryDelay: -2}, false},
		{"the largest result", idem.Config{MaxResult: store.MaxResult}, true},
		{"MaxResult below its -1", idem.Config{MaxResult: -2}, false},
		{"fail open", idem.Config{FailOpen: true}, true},
	} {
		if _, err := idem.New(newSpy(), tc.cfg); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestNewRefusesANilStore(t *testing.T) {
	_, err := idem.New(nil, idem.Config{})
	wantErr(t, err, idem.ErrInvalidConfig)
}
