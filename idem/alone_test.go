package idem_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// A task that is handled alone after a failed call of several, and whose attempt is no evidence against it, is
// handled alone by its next owner too.
func TestTaskToBeHandledAloneStaysOne(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, cancel func()) error{
		"cancelled": func(ctx context.Context, cancel func()) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		},
		"claim lost": func(ctx context.Context, _ func()) error {
			<-ctx.Done()
			return idem.Unavailable(ctx.Err())
		},
		"unavailable": func(context.Context, func()) error { return idem.Unavailable(errors.New("down")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newSpy()
				st.onSettle = failing(store.OpExtend)
				e := newEngine(t, st, idem.Config{Lease: lease, RetryDelay: -1})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				claim := &idem.Claim{Again: true, TakeOver: true,
					Task: taskOf(&handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
						return nil, end(ctx, cancel)
					}})}
				s := e.Session(ctx)
				s.Claim([]*idem.Claim{claim})
				s.Run(claim)
				s.Close()
				<-time.After(lease)

				next := &idem.Claim{Task: claim.Task, TakeOver: true}
				s = e.Session(t.Context())
				defer s.Close()
				s.Claim([]*idem.Claim{next})
				equal(t, "state", next.State(), store.Claimed)
				equal(t, "it failed before", next.FailedBefore(), true)
			})
		})
	}
}
