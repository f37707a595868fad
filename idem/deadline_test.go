package idem_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
)

func TestNothingIsStartedNearTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		s := session(t, newEngine(t, st, idem.Config{}), until(t, time.Second))
		h := returning("receipt", nil)
		claims := []*idem.Claim{{Task: taskOf(h)}}
		s.Claim(claims)
		<-s.Handlers().Done()
		out := s.Run(claims[0])
		wantKind(t, out, idem.NotStarted)
		wantErr(t, out.Err, idem.ErrDeadlineNear)
		equal(t, "calls of the handler", h.calls, 0)
		entry := get(t, st, testKey)
		equal(t, "released", entry.Released(), true)
		equal(t, "attempts", entry.Attempts, 0)
		if entry.Failure != nil {
			t.Errorf("failure %v", entry.Failure)
		}
	})
}

func TestCancelledTaskIsNotStarted(t *testing.T) {
	st := newSpy()
	ctx, cancel := context.WithCancelCause(t.Context())
	s := session(t, newEngine(t, st, idem.Config{}), ctx)
	h := returning("receipt", nil)
	claims := []*idem.Claim{{Task: taskOf(h)}}
	s.Claim(claims)
	cancel(errBoom)
	out := s.Run(claims[0])
	wantKind(t, out, idem.NotStarted)
	wantErr(t, out.Err, errBoom)
	equal(t, "calls of the handler", h.calls, 0)
	equal(t, "attempts", get(t, st, testKey).Attempts, 0)
}

func TestCancelledClaimIsNotAStoreFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := returning("receipt", nil)
	out := newEngine(t, newSpy(), idem.Config{FailOpen: true}).Do(ctx, taskOf(h))
	wantKind(t, out, idem.NotStarted)
	wantErr(t, out.Err, context.Canceled)
	equal(t, "calls of the handler", h.calls, 0)
}

func TestHandlersContextEndsAMarginBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		begun := time.Now()
		var ended time.Duration
		h := &handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
			<-ctx.Done()
			ended = time.Since(begun)
			return nil, ctx.Err()
		}}
		out := newEngine(t, st, idem.Config{}).Do(until(t, 5*time.Second),
			taskWithDeadLetters(&deadLetters{}, h))
		wantKind(t, out, idem.Retry)
		wantErr(t, out.Err, context.DeadlineExceeded)
		equal(t, "the handler's time", ended, 4500*time.Millisecond)
		equal(t, "released", ptr(get(t, st, testKey)).Released(), true)
	})
}
