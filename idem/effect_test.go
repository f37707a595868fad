package idem_test

import (
	"context"
	"errors"
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

// onBoth runs a test on an engine that claims first, and on one that claims on commit.
func onBoth(t *testing.T, test func(t *testing.T, s *spy, cfg idem.Config)) {
	t.Helper()
	for name, onCommit := range map[string]bool{"claim first": false, "claim on commit": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, newSpy(), idem.Config{ClaimOnCommit: onCommit}) })
		})
	}
}

func TestEffectCommitsWithTheCompletion(t *testing.T) {
	onBoth(t, func(t *testing.T, s *spy, cfg idem.Config) {
		count := 0
		e, h := newEngine(t, s, cfg), booked(&count, nil)
		wantKind(t, e.Do(t.Context(), taskOf(h)), idem.Executed)
		equal(t, "effects", count, 1)
		out := e.Do(t.Context(), taskOf(h))
		wantKind(t, out, idem.Replayed)
		equal(t, "the result", string(out.Result), "call 1")
		equal(t, "effects", count, 1)
		if cfg.ClaimOnCommit {
			equal(t, "claims", s.claimed(), 0)
			equal(t, "requests", len(s.all(store.OpComplete)), 2)
		}
	})
}

func TestEffectOfAFailedHandlerIsDropped(t *testing.T) {
	onBoth(t, func(t *testing.T, s *spy, cfg idem.Config) {
		count := 0
		e := newEngine(t, s, cfg)
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
		rec := get(t, s, testKey)
		equal(t, "released", rec.Released(), true)
		equal(t, "attempts", rec.Attempts, 1)
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
			onBoth(t, func(t *testing.T, s *spy, cfg idem.Config) {
				count, g := 0, &deadLetters{}
				out := newEngine(t, s, cfg).Do(t.Context(), taskWithDeadLetters(g, booked(&count, tc.refusal)))
				wantKind(t, out, tc.kind)
				wantErr(t, out.Err, errBoom)
				equal(t, "effects", count, 0)
				equal(t, "attempts", get(t, s, testKey).Attempts, tc.attempts)
				equal(t, "the result", string(out.Result), "")
				completions := s.all(store.OpComplete)
				equal(t, "completions sent", len(completions), 1)
				if cfg.ClaimOnCommit { // the claim that follows is another one
					equal(t, "claims", len(s.owners()), 1)
					equal(t, "the same owner", s.owners()[0] == completions[0].Owner, false)
				}
			})
		})
	}
}

func TestAlwaysRejectedEffectIsDeadLettered(t *testing.T) {
	onBoth(t, func(t *testing.T, s *spy, cfg idem.Config) {
		cfg.MaxAttempts = 3
		count, g := 0, &deadLetters{}
		e, task := newEngine(t, s, cfg), taskWithDeadLetters(g, booked(new(int), errBoom))
		for range 2 {
			wantKind(t, e.Do(t.Context(), task), idem.Retry)
		}
		wantKind(t, e.Do(t.Context(), task), idem.DeadLettered)
		equal(t, "dead letters", len(g.sent), 1)
		wantKind(t, e.Do(t.Context(), taskWithDeadLetters(g, booked(&count, nil))), idem.ReplayedFailed)
		equal(t, "effects", count, 0)
	})
}

func TestUnansweredCompletionIsRetried(t *testing.T) {
	onBoth(t, func(t *testing.T, s *spy, cfg idem.Config) {
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
		wantKind(t, newEngine(t, s, cfg).Do(t.Context(), taskOf(booked(&count, nil))), idem.Executed)
		equal(t, "effects", count, 1)
		equal(t, "sent", sent, 3)
	})
}

func TestErrorOfAnUnansweredCommit(t *testing.T) {
	onBoth(t, func(t *testing.T, s *spy, cfg idem.Config) {
		s.onSettle = failing(store.OpComplete)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out := newEngine(t, s, cfg).Do(ctx, taskOf(booked(new(int), nil)))
		wantKind(t, out, idem.CompletionFailed)
		want := "the store did not confirm the commit of the task's effect and completion"
		if out.Err == nil || out.Err.Error()[:len(want)] != want {
			t.Errorf("error %v", out.Err)
		}
	})
}

// An effect can be enlisted only during the handler; after an overrun it is refused.
func TestEnlistAfterTheHandlerIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, s *spy, cfg idem.Config) {
		count := 0
		var kept *memstore.Tx
		h := &handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
			var err error
			kept, err = memstore.TxFrom(ctx)
			again, _ := memstore.TxFrom(ctx)
			equal(t, "the same effect", again, kept)
			return nil, err
		}}
		wantKind(t, newEngine(t, s, cfg).Do(t.Context(), taskOf(h)), idem.Executed)
		kept.Do(func() { count++ })
		equal(t, "effects", count, 0)
		if _, err := memstore.TxFrom(t.Context()); !idem.IsUnavailable(err) {
			t.Errorf("outside of a handler: %v", err)
		}
	})
}

func TestClaimOnCommitNeedsATransactor(t *testing.T) {
	plain := struct{ store.Store }{memstore.New(memstore.Config{})}
	if _, err := idem.New(plain, idem.Config{ClaimOnCommit: true}); !errors.Is(err, idem.ErrInvalidConfig) {
		t.Errorf("%v; want ErrInvalidConfig", err)
	}
}

// A completion that finds its key claimed by another owner waits, and does not commit its effect a second time.
func TestRefusedCompletionWaitsForTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, count := newSpy(), 0
		first := newEngine(t, s, idem.Config{Lease: lease}).Session(t.Context())
		defer first.Close()
		holder := &idem.Claim{Task: taskOf(booked(&count, nil))}
		first.Claim([]*idem.Claim{holder})
		go func() {
			pass(3 * time.Second)
			first.Run(holder)
		}()
		out := newEngine(t, s, idem.Config{ClaimOnCommit: true}).Do(t.Context(), taskOf(booked(&count, nil)))
		wantKind(t, out, idem.Replayed)
		equal(t, "effects", count, 1)
	})
}

// A handler that takes more than half of the time of each session completes a key that has failed once, and is called once for it.
func TestKeyThatFailedOnceIsClaimedFirst(t *testing.T) {
	onBoth(t, func(t *testing.T, s *spy, cfg idem.Config) {
		count, calls := 0, 0
		e := newEngine(t, s, cfg)
		for want := range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			out := e.Do(ctx, taskOf(idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
				if calls++; calls == 1 {
					return nil, errors.New("not yet")
				}
				select {
				case <-time.After(11 * time.Second):
					return booked(&count, nil).Handle(ctx)
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			})))
			wantKind(t, out, []idem.Kind{idem.Retry, idem.Executed}[want])
			pass(time.Minute) // the delay of the retry
		}
		equal(t, "effects", count, 1)
		equal(t, "calls", calls, 2)
	})
}

func TestRefusedCompletionTakesOverADeadOwnersKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, count := newSpy(), 0
		dead := newEngine(t, s, idem.Config{Lease: lease}).Session(t.Context())
		dead.Claim([]*idem.Claim{{Task: taskOf(returning("", nil))}})
		dead.Close()
		later := newEngine(t, s, idem.Config{ClaimOnCommit: true}).Session(t.Context())
		defer later.Close()
		claim := &idem.Claim{Task: taskOf(booked(&count, nil))} // not one that takes over
		later.Claim([]*idem.Claim{claim})
		out := later.Run(claim)
		wantKind(t, out, idem.Executed)
		equal(t, "stolen", out.Stolen, true)
		equal(t, "attempts", out.Attempt, 2)
		equal(t, "effects", count, 1)
	})
}

// A claim that is left to the completion needs no release.
func TestClaimOnCommitSendsNothingForATaskThatIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpy()
		e := newEngine(t, s, idem.Config{ClaimOnCommit: true})
		ctx, cancel := context.WithTimeout(t.Context(), idem.Defaults().DeadlineMargin/2)
		defer cancel()
		wantKind(t, e.Do(ctx, taskOf(booked(new(int), nil))), idem.NotStarted)

		session := e.Session(t.Context())
		defer session.Close()
		claims := []*idem.Claim{{Task: taskOf(booked(new(int), nil))}}
		session.Claim(claims)
		session.Release(claims)
		equal(t, "settlements", len(s.settled), 0)
		equal(t, "claims", s.claimed(), 0)
	})
}

// The next handler may depend on the effect of the one before it.
func TestEffectIsCommittedBeforeTheNextHandler(t *testing.T) {
	for _, onCommit := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st, count := newSlowStore(), 0
			h := &handler{handle: func(ctx context.Context, call int) ([]byte, error) {
				equal(t, "effects before", count, call-1)
				return booked(&count, nil).Handle(ctx)
			}}
			a := newAsync(session(t, newEngine(t, st, idem.Config{ClaimOnCommit: onCommit}), t.Context()), 3, h)
			a.runAll()
			a.wantAll(t, idem.Executed)
			equal(t, "effects", count, 3)
		})
	}
}

// The effects of several goroutines share a request.
func TestEffectsAreGrouped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, counts := newSlowStore(), [9]int{}
		s := session(t, newEngine(t, st, idem.Config{ClaimOnCommit: true}), t.Context())
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

func TestOpenBreakerStopsHandlersWithoutAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpy()
		s.onSettle = failing(store.OpComplete)
		e := newEngine(t, s, idem.Config{ClaimOnCommit: true, BreakerFailures: 2})
		h := booked(new(int), nil)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			last := e.Do(ctx, taskOf(h))
			cancel()
			if h.calls == 2 && last.Kind == idem.StoreDown {
				wantErr(t, last.Err, idem.ErrStoreUnavailable)
				return
			}
		}
		t.Errorf("%d handlers ran while the store was down", h.calls)
	})
}
