package idem_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
)

// The attempts of a key are spread over time, however often its message is delivered. A delivery that comes
// too early is no attempt.
func TestAttemptsAreSpreadOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, letters := newSpy(), &deadLetters{}
		var began []time.Time
		h := idem.HandlerFunc(func(context.Context) ([]byte, error) {
			began = append(began, time.Now())
			return nil, errBoom
		})
		deliveries := 0
		for out := (idem.Outcome{}); out.Kind != idem.DeadLettered; deliveries++ {
			e, err := idem.New(st, idem.Config{Wait: -1}) // another process for each delivery
			wantErr(t, err, nil)
			out = e.Do(t.Context(), taskWithDeadLetters(letters, h))
			pass(100 * time.Millisecond)
		}
		equal(t, "attempts", len(began), 5)
		for i, delay := range []time.Duration{time.Second, 4 * time.Second, 16 * time.Second,
			64 * time.Second} {
			if d := began[i+1].Sub(began[i]); d < delay*3/4 || d > delay+100*time.Millisecond {
				t.Errorf("attempt %d began %v after the one before; want %v, less a quarter at most", i+2, d,
					delay)
			}
		}
		if took := began[4].Sub(began[0]); took < time.Minute {
			t.Errorf("the last attempt began %v after the first; want a minute or more", took)
		}
		if deliveries < 600 {
			t.Errorf("%d deliveries; want many that were too early", deliveries)
		}
	})
}

// The outcome says when the key can be claimed again: after the delay of the attempt, the handler's own, or
// none.
func TestRetryInIsTheDelayOfTheKey(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg         idem.Config
		err         error
		least, most time.Duration
	}{
		"the default":       {idem.Config{}, errBoom, 750 * time.Millisecond, time.Second},
		"the handler's own": {idem.Config{}, idem.RetryAfter(errBoom, time.Hour), time.Hour, time.Hour},
		"none":              {idem.Config{RetryDelay: -1}, errBoom, 0, 0},
		"the longest": {idem.Config{RetryDelay: idem.MaxRetryDelay}, errBoom,
			idem.MaxRetryDelay * 3 / 4, idem.MaxRetryDelay},
		"a dependency is down": {idem.Config{}, idem.Unavailable(errBoom), 0, 0},
		"permanent, and no queue": {idem.Config{}, idem.Permanent(errBoom), 750 * time.Millisecond,
			time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newSpy()
				e, err := idem.New(st, tc.cfg)
				wantErr(t, err, nil)
				out := e.Do(t.Context(), taskOf(returning("", tc.err)))
				if out.RetryIn < tc.least || out.RetryIn > tc.most {
					t.Errorf("%v; want %v to %v", out.RetryIn, tc.least, tc.most)
				}
				equal(t, "the delay in the store", time.Until(get(t, st, testKey).RetryAt),
					out.RetryIn.Truncate(time.Millisecond))
			})
		})
	}
}

// A dead letter that can't be sent is a failure of the sink. It is tried again soon, and not after the delay
// of the last attempt.
func TestDeadLetterThatIsNotSentIsTriedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		letters := &deadLetters{onSend: func(context.Context, idem.DeadLetter) error { return errBoom }}
		e, err := idem.New(st, idem.Config{MaxAttempts: 3})
		wantErr(t, err, nil)
		for range 6 {
			out := e.Do(t.Context(), taskWithDeadLetters(letters, returning("", errBoom)))
			wantKind(t, out, idem.Retry)
			if out.Attempt >= 3 && out.RetryIn > time.Second {
				t.Errorf("after attempt %d the key can't be claimed for %v", out.Attempt, out.RetryIn)
			}
		}
	})
}
