package idem_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

type callersKey struct{}

func TestHandlersContextInheritsFromTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, newSpy(), idem.Config{DeadlineMargin: 2 * time.Second})
		caller := context.WithValue(until(t, 10*time.Second), callersKey{}, "the caller's")
		begun := time.Now()
		wantKind(t, e.Do(caller, taskOf(&handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
			equal(t, "value", ctx.Value(callersKey{}), any("the caller's"))
			equal(t, "error", ctx.Err(), nil)
			deadline, ok := ctx.Deadline()
			equal(t, "there is a deadline", ok, true)
			equal(t, "the deadline", deadline.Sub(begun), 8*time.Second)
			return nil, nil
		}})), idem.Executed)
	})
}

// A handler's context has ended when the handler has returned, so that goroutines that it started end.
func TestHandlersContextEndsWithTheHandler(t *testing.T) {
	for name, look := range map[string]func(ctx context.Context){
		"never looked at": func(context.Context) {},
		"looked at":       func(ctx context.Context) { equal(t, "error", ctx.Err(), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kept := make(chan context.Context, 1)
				claims := []*idem.Claim{{Task: taskOf(
					&handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
						look(ctx)
						kept <- ctx
						return nil, nil
					}})}}
				s := session(t, newEngine(t, newSpy(), idem.Config{}), t.Context())
				s.Claim(claims)
				wantKind(t, s.Run(claims[0]), idem.Executed)
				ctx := <-kept
				stopped := false
				context.AfterFunc(ctx, func() { stopped = true })
				synctest.Wait()
				equal(t, "stopped", stopped, true)
				equal(t, "the session's error", s.Handlers().Err(), nil)
				equal(t, "error", ctx.Err(), context.Canceled)
				equal(t, "cause", context.Cause(ctx), context.Canceled)
				a, ok := idem.AttemptFrom(ctx)
				equal(t, "an attempt is known", ok, true)
				equal(t, "its key", a.Key, testKey)
			})
		})
	}
}

func TestChildOfAHandlersContextIsCancelledWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		st.onSettle = failing(store.OpExtend)
		newEngine(t, st, idem.Config{Lease: lease}).Do(t.Context(),
			taskOf(&handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
				child, cancel := context.WithTimeout(ctx, time.Hour)
				defer cancel()
				begun := time.Now()
				<-child.Done()
				equal(t, "it lasted", time.Since(begun), lease)
				wantErr(t, context.Cause(child), idem.ErrLeaseLost)
				return nil, child.Err()
			}}))
	})
}

func TestHandlersContextIsSafeForConcurrentUse(t *testing.T) {
	e := newEngine(t, newSpy(), idem.Config{})
	wantKind(t, e.Do(t.Context(), taskOf(&handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				_, ok := idem.AttemptFrom(ctx)
				equal(t, "an attempt is known", ok, true)
				equal(t, "error", ctx.Err(), nil)
				_, cancel := context.WithCancel(ctx)
				cancel()
			})
		}
		wg.Wait()
		return nil, nil
	}})), idem.Executed)
}
