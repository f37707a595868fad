package idem_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// api is what the handlers of a test need. They return err while it is not nil.
type api struct {
	*testing.T
	store   *spy
	engine  *idem.Engine
	letters *deadLetters
	err     error
	called  []string // the keys for which the handler was called
}

func withAPI(t *testing.T, cfg idem.Config, test func(a *api)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &api{T: t, store: newSpy(), letters: &deadLetters{}, err: errBoom}
		a.engine = newEngine(t, a.store, cfg)
		test(a)
	})
}

// do delivers the message of a key.
func (a *api) do(key string) idem.Outcome {
	a.Helper()
	return a.deliver(key, func(context.Context) ([]byte, error) {
		a.called = append(a.called, key)
		return nil, a.err
	})
}

func (a *api) deliver(key string, h idem.HandlerFunc) idem.Outcome {
	a.Helper()
	task := taskWithDeadLetters(a.letters, h)
	task.Key = key
	return a.engine.Do(a.Context(), task)
}

// begin begins an outage with the first attempts at five new keys.
func (a *api) begin() {
	a.Helper()
	for i := range 4 {
		wantKind(a, a.do(fmt.Sprint("first", i)), idem.Retry)
	}
	a.wantGivenBack("first4")
}

func (a *api) wantNotTried(key string) {
	a.Helper()
	before := len(a.called)
	out := a.do(key)
	wantKind(a, out, idem.NotStarted)
	wantErr(a, out.Err, idem.ErrHandlerDown)
	equal(a, "mentions of the failure", strings.Count(out.Err.Error(), a.err.Error()), 1)
	equal(a, "calls of the handler", len(a.called)-before, 0)
}

func (a *api) wantGivenBack(key string) {
	a.Helper()
	out := a.do(key)
	wantKind(a, out, idem.DependencyDown)
	wantErr(a, out.Err, idem.ErrHandlerDown, a.err)
	equal(a, "mentions of the failure", strings.Count(out.Err.Error(), a.err.Error()), 1)
	entry := get(a, a.store, key)
	equal(a, "attempts", entry.Attempts, 0)
	equal(a, "the code of the failure", entry.Failure.Code, store.CodeUnavailable)
}

// untilTried delivers a message four times a second until its handler is called, and returns how long that
// took.
func (a *api) untilTried(key string) (took time.Duration) {
	a.Helper()
	began, before := time.Now(), len(a.called)
	for a.do(key); len(a.called) == before; a.do(key) {
		pass(time.Second / 4)
	}
	return time.Since(began)
}

func TestOutageIsRecognised(t *testing.T) {
	withAPI(t, idem.Config{}, func(a *api) {
		a.begin()
		claims := a.store.claimed()
		out := a.do("next")
		for _, says := range []string{"since 2000-01-01T00:00:00Z", "not tried", "boom"} {
			if !strings.Contains(out.Err.Error(), says) {
				t.Errorf("%q does not contain %q", out.Err, says)
			}
		}
		equal(t, "claims for tasks that can't be tried", a.store.claimed(), claims)
		if out.Kind != idem.NotStarted {
			t.Errorf("%v: %v", out.Kind, out.Err)
		}
	})
}

// One task at a time tries the handler, after a pause that grows up to a minute. All are tried as soon as one
// has succeeded.
func TestOneTaskTriesTheHandlerDuringAnOutage(t *testing.T) {
	withAPI(t, idem.Config{}, func(a *api) {
		a.begin()
		for i, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
			pause := time.Duration(seconds) * time.Second
			if took := a.untilTried(fmt.Sprint("next", i)); took < pause*3/4 || took > pause+time.Second/4 {
				t.Errorf("try %d took place after %v; want %v, less a quarter at most", i, took, pause)
			}
			a.wantNotTried("another")
			equal(t, "attempts", get(t, a.store, fmt.Sprint("next", i)).Attempts, 0)
		}
		a.err = nil
		a.untilTried("another")
		for i := range 8 {
			wantKind(t, a.do(fmt.Sprint("next", i)), idem.Executed)
		}
		equal(t, "dead letters", len(a.letters.sent), 0)
	})
}

// While a task tries the handler, others are not tried. If the handler does not return, another task tries
// after a lease.
func TestTaskThatTriesTheHandlerIsAlone(t *testing.T) {
	withAPI(t, idem.Config{}, func(a *api) {
		a.begin()
		pass(time.Second)
		silent := make(chan struct{})
		ended := make(chan idem.Outcome)
		go func() {
			ended <- a.deliver("silent", func(context.Context) ([]byte, error) { <-silent; return nil, nil })
		}()
		synctest.Wait()
		a.wantNotTried("next")
		if took := a.untilTried("next"); took < lease || took > lease+time.Second {
			t.Errorf("another task tried the handler after %v; want %v", took, lease)
		}
		close(silent)
		wantKind(t, <-ended, idem.Executed)
		a.err = nil
		wantKind(t, a.do("next"), idem.Executed)
	})
}

// A key that has failed does not take each try: another one that is delivered at the same time does.
func TestKeysThatFailedWaitLongerDuringAnOutage(t *testing.T) {
	withAPI(t, idem.Config{}, func(a *api) {
		a.begin()
		pass(time.Second)
		a.wantNotTried("first4")
		a.err = nil
		wantKind(t, a.do("new"), idem.Executed)
		a.err = errBoom
		wantKind(t, a.do("first0"), idem.Retry)

		a.called = nil
		a.begin2()
		pass(2 * time.Second)
		a.wantGivenBack("again4") // nothing else is there
	})
}

// begin2 begins another outage.
func (a *api) begin2() {
	a.Helper()
	for i := range 5 {
		a.do(fmt.Sprint("again", i))
	}
	_, down := a.engine.HandlerDown()
	equal(a, "an outage", down, true)
}

// The last attempt at a key is given back too.
func TestLastAttemptIsGivenBackDuringAnOutage(t *testing.T) {
	withAPI(t, idem.Config{MaxAttempts: 2}, func(a *api) {
		wantKind(t, a.do("last"), idem.Retry)
		a.err = nil
		wantKind(t, a.do("good"), idem.Executed)
		a.err = errBoom
		a.begin()
		a.untilTried("last")
		equal(t, "attempts", get(t, a.store, "last").Attempts, 1)
		equal(t, "dead letters", len(a.letters.sent), 0)
	})
}

// These are no outages: the handler is called for each delivery, and attempts count.
func TestFailuresThatAreNoOutage(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg    idem.Config
		err    error
		before func(a *api)
		keys   []string
		ends   idem.Kind
	}{
		"four keys, again and again": {idem.Config{MaxAttempts: 5}, errBoom, nil,
			[]string{"a", "b", "c", "d"}, idem.DeadLettered},
		"keys that have failed before": {idem.Config{}, errBoom, func(a *api) {
			for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
				a.err = errBoom
				a.do(key)
				a.err = nil
				a.do("good after " + key)
			}
		}, []string{"a", "b", "c", "d", "e", "f"}, idem.DeadLettered},
		"permanent errors": {idem.Config{}, idem.Permanent(errBoom), nil,
			[]string{"a", "b", "c", "d", "e", "f"}, idem.ReplayedFailed},
		"off": {idem.Config{OutageFailures: -1}, errBoom, nil,
			[]string{"a", "b", "c", "d", "e", "f"}, idem.DeadLettered},
	} {
		t.Run(name, func(t *testing.T) {
			withAPI(t, tc.cfg, func(a *api) {
				if tc.before != nil {
					tc.before(a)
				}
				a.err = tc.err
				for attempt := 1; attempt <= 5; attempt++ {
					for _, key := range tc.keys {
						out := a.do(key)
						if out.Kind == idem.NotStarted || out.Kind == idem.DependencyDown {
							t.Fatalf("attempt %d at %s: %v: %v", attempt, key, out.Kind, out.Err)
						}
						if attempt == 5 && tc.before == nil {
							wantKind(t, out, tc.ends)
						}
					}
				}
				equal(t, "dead letters", len(a.letters.sent), len(tc.keys))
			})
		})
	}
}

// What counts as always: errors that are permanent, and attempts that ended with their process.
func TestPermanentErrorsCountDuringAnOutage(t *testing.T) {
	withAPI(t, idem.Config{}, func(a *api) {
		a.begin()
		pass(time.Second)
		a.err = idem.Permanent(errBoom)
		wantKind(t, a.do("bad"), idem.DeadLettered)
		a.err = errBoom
		a.wantGivenBack("next") // the try was not used
	})
}

// A rejected message does not need the handler.
func TestRejectedTaskIsNotHeldBack(t *testing.T) {
	withAPI(t, idem.Config{}, func(a *api) {
		for i := range 6 {
			task := taskWithDeadLetters(a.letters, returning("", idem.Unavailable(errBoom)))
			task.Key, task.Rejected = fmt.Sprint("rejected", i), true
			a.engine.Do(a.Context(), task)
		}
		_, down := a.engine.HandlerDown()
		equal(t, "an outage", down, false)
		a.begin()
		task := taskWithDeadLetters(a.letters, returning("", idem.Permanent(errBoom)))
		task.Rejected = true
		wantKind(t, a.engine.Do(a.Context(), task), idem.DeadLettered)
	})
}

// After the limit attempts count again, so that messages that all fail become dead letters.
func TestOutageLimit(t *testing.T) {
	withAPI(t, idem.Config{OutageLimit: time.Hour}, func(a *api) {
		a.begin()
		pass(time.Hour - time.Second)
		a.wantGivenBack("next")
		a.wantNotTried("another")
		pass(time.Second)
		for range 5 {
			a.do("another")
		}
		equal(t, "dead letters", len(a.letters.sent), 1)
		a.err = nil
		wantKind(t, a.do("next"), idem.Executed)
		a.err = errBoom
		a.begin2()
	})
}

// A handler that its caller cancels says nothing of what it needs.
func TestCancelledHandlerIsNoSignOfAnOutage(t *testing.T) {
	withAPI(t, idem.Config{}, func(a *api) {
		for i := range 6 {
			ctx, cancel := context.WithCancel(a.Context())
			task := taskWithDeadLetters(a.letters,
				idem.HandlerFunc(func(context.Context) ([]byte, error) { cancel(); return nil, errBoom }))
			task.Key = fmt.Sprint("cancelled", i)
			wantKind(t, a.engine.Do(ctx, task), idem.Retry)
		}
		_, down := a.engine.HandlerDown()
		equal(t, "an outage", down, false)
	})
}

// Each key is a sign of an outage once: keys whose attempts an outage has given back are none when they fail
// again.
func TestKeyIsASignOfAnOutageOnce(t *testing.T) {
	withAPI(t, idem.Config{}, func(a *api) {
		a.begin()
		for i := range 6 {
			a.untilTried(fmt.Sprint("tried", i))
			equal(t, "attempts", get(t, a.store, fmt.Sprint("tried", i)).Attempts, 0)
		}
		a.err = nil
		a.untilTried("good")
		a.err = errBoom
		for i := range 6 {
			wantKind(t, a.do(fmt.Sprint("tried", i)), idem.Retry)
		}
		_, down := a.engine.HandlerDown()
		equal(t, "an outage", down, false)
	})
}

// A key that fails after each redrive is a sign of an outage once.
func TestRedrivenKeyIsASignOfAnOutageOnce(t *testing.T) {
	withAPI(t, idem.Config{MaxAttempts: 1}, func(a *api) {
		task := taskWithDeadLetters(a.letters,
			idem.HandlerFunc(func(context.Context) ([]byte, error) { return nil, a.err }))
		for range 10 { // twice as often as Config.OutageFailures
			out := a.engine.Do(a.Context(), task)
			wantKind(t, out, idem.DeadLettered)
			task.RedriveToken = out.Token
		}
	})
}
