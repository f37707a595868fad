package idem_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// booked returns a handler whose effect adds one to a count; refusal is the result of the effect's condition.
func booked(count *int, refusal error) *handler {
	return &handler{handle: func(ctx context.Context, call int) ([]byte, error) {
		tx, err := memstore.TxFrom(ctx)
		if err != nil {
			return nil, err
		}
		tx.Check(func() error { return refusal })
		tx.Do(func() { *count++ })
		return fmt.Appendf(nil, "call %d", call), nil
	}}
}

// onSpy runs a test in a bubble of its own, on a memory store that records requests.
func onSpy(t *testing.T, test func(t *testing.T, s *spy)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newSpy()) })
}

func TestEffectCommitsWithTheCompletion(t *testing.T) {
	onSpy(t, func(t *testing.T, s *spy) {
		count := 0
		e, h := newEngine(t, s, idem.Config{}), booked(&count, nil)
		wantKind(t, e.Do(t.Context(), taskOf(h)), idem.Executed)
		equal(t, "effects", count, 1)
		out := e.Do(t.Context(), taskOf(h))
		wantKind(t, out, idem.Replayed)
		equal(t, "the result", string(out.Result), "call 1")
		equal(t, "effects", count, 1)
	})
}

func TestEffectOfAFailedHandlerIsDropped(t *testing.T) {
	onSpy(t, func(t *testing.T, s *spy) {
		count := 0
		e := newEngine(t, s, idem.Config{})
		failing := &handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
			tx, err := memstore.TxFrom(ctx)
			if err != nil {
				return nil, err
			}
			tx.Do(func() { count++ })
			return nil, errBoom
		}}
		out := e.Do(t.Context(), taskOf(failing))
		wantKind(t, out, idem.Retry)
		wantErr(t, out.Err, errBoom)
		entry := get(t, s, testKey)
		equal(t, "released", entry.Released(), true)
		equal(t, "attempts", entry.Attempts, 1)
		equal(t, "effects", count, 0)
		wantKind(t, e.Do(t.Context(), taskOf(booked(&count, nil))), idem.Executed)
		equal(t, "effects", count, 1)
	})
}

// The error of a failed condition is treated as the handler's error.
func TestRejectedEffectIsTheHandlersError(t *testing.T) {
	for _, tc := range []struct {
		name     string
		refusal  error
		kind     idem.Kind
		attempts int
	}{
		{"plain", errBoom, idem.Retry, 1},
		{"permanent", idem.Permanent(errBoom), idem.DeadLettered, 1},
		{"unavailable", idem.Unavailable(errBoom), idem.DependencyDown, 0},
		{"without a result", idem.ResultUnavailable(errBoom), idem.Retry, 1}, // nothing took place
	} {
		t.Run(tc.name, func(t *testing.T) {
			onSpy(t, func(t *testing.T, s *spy) {
				count, g := 0, &deadLetters{}
				out := newEngine(t, s, idem.Config{}).Do(t.Context(),
					taskWithDeadLetters(g, booked(&count, tc.refusal)))
				wantKind(t, out, tc.kind)
				wantErr(t, out.Err, errBoom)
				equal(t, "effects", count, 0)
				equal(t, "attempts", get(t, s, testKey).Attempts, tc.attempts)
				equal(t, "the result", string(out.Result), "")
				equal(t, "completions sent", len(s.all(store.OpComplete)), 1)
			})
		})
	}
}

func TestUnansweredCompletionIsRetried(t *testing.T) {
	onSpy(t, func(t *testing.T, s *spy) {
		count, sent := 0, 0
		s.onSettle = func(_ context.Context, _ store.Settlement, land func() error) error {
			if sent++; sent == 1 {
				return errNetwork
			}
			err := land()
			if sent == 2 {
				return errNetwork // landed, and the answer is lost
			}
			return err
		}
		wantKind(t, newEngine(t, s, idem.Config{}).Do(t.Context(), taskOf(booked(&count, nil))),
			idem.Executed)
		equal(t, "effects", count, 1)
		equal(t, "sent", sent, 3)
	})
}

func TestErrorOfAnUnansweredCommit(t *testing.T) {
	onSpy(t, func(t *testing.T, s *spy) {
		s.onSettle = failing(store.OpComplete)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out := newEngine(t, s, idem.Config{}).Do(ctx, taskOf(booked(new(int), nil)))
		wantKind(t, out, idem.CompletionFailed)
		want := "the store did not confirm the commit of the task's effect and completion"
		if out.Err == nil || out.Err.Error()[:len(want)] != want {
			t.Errorf("error %v", out.Err)
		}
	})
}

// An effect can be enlisted only during the handler; after an overrun it is refused.
func TestEnlistAfterTheHandlerIsRefused(t *testing.T) {
	onSpy(t, func(t *testing.T, s *spy) {
		count := 0
		var kept *memstore.Tx
		h := &handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
			var err error
			kept, err = memstore.TxFrom(ctx)
			again, _ := memstore.TxFrom(ctx)
			equal(t, "the same effect", again, kept)
			return nil, err
		}}
		wantKind(t, newEngine(t, s, idem.Config{}).Do(t.Context(), taskOf(h)), idem.Executed)
		kept.Do(func() { count++ })
		equal(t, "effects", count, 0)
		if _, err := memstore.TxFrom(t.Context()); !idem.IsUnavailable(err) {
			t.Errorf("outside of a handler: %v", err)
		}
	})
}

// The next handler may depend on the effect of the one before it.
func TestEffectIsCommittedBeforeTheNextHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, count := newSlowStore(), 0
		h := &handler{handle: func(ctx context.Context, call int) ([]byte, error) {
			equal(t, "effects before", count, call-1)
			return booked(&count, nil).Handle(ctx)
		}}
		a := newAsync(session(t, newEngine(t, st, idem.Config{}), t.Context()), 3, h)
		a.runAll()
		a.wantAll(t, idem.Executed)
		equal(t, "effects", count, 3)
	})
}

// The effects of several goroutines share a request.
func TestEffectsAreGrouped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, counts := newSlowStore(), [9]int{}
		s := session(t, newEngine(t, st, idem.Config{}), t.Context())
		a := newAsync(s, len(counts), nil)
		var all sync.WaitGroup
		for i := range counts {
			a.claims[i].Task.Handler = booked(&counts[i], nil)
			all.Go(func() { a.start(i) })
		}
		all.Wait()
		a.wantAll(t, idem.Executed)
		equal(t, "requests", st.sizes(), "[1 4 4]")
	})
}

// separate is an effect that is committed in a request of its own, as is a transaction on a connection.
type separate struct{}

func (separate) Seal() (enlisted bool, err error) { return true, nil }
func (separate) Discard()                         {}
func (separate) Separate() bool                   { return true }

type separating struct{ *slowStore }

func (separating) NewEffect() store.Effect { return separate{} }

// Effects that are committed in requests of their own do not wait for each other.
func TestSeparateEffectsAreNotGrouped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := separating{newSlowStore()}
		st.on = func(_ int, ss []store.Settlement) []error { return make([]error, len(ss)) }
		a := newAsync(session(t, newEngine(t, st, idem.Config{}), t.Context()), 9,
			idem.HandlerFunc(func(ctx context.Context) ([]byte, error) { // called by many goroutines
				_, ok := store.EffectFrom(ctx)
				equal(t, "it has an effect", ok, true)
				return nil, nil
			}))
		begun := time.Now()
		var all sync.WaitGroup
		for i := range a.claims {
			all.Go(func() { a.start(i) })
		}
		all.Wait()
		a.wantAll(t, idem.Executed)
		equal(t, "requests", st.sizes(), "[1 1 1 1 1 1 1 1 1]")
		equal(t, "time", time.Since(begun), time.Second)
	})
}
