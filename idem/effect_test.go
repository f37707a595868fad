package idem_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem/store"

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
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

// sealedBadly is a store whose effects can't be sealed.
type sealedBadly struct{ *spy }

func (sealedBadly) NewEffect() store.Effect { return badSeal{} }

type badSeal struct{}

func (badSeal) Seal() (enlisted bool, err error) { return true, errBoom }
func (badSeal) Discard()                         {}

func TestEffectThatCantBeSealedIsTheHandlersError(t *testing.T) {
	onBoth(t, func(t *testing.T, s *spy, cfg idem.Config) {
		h := &handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
			_, ok := store.EffectFrom(ctx)
			equal(t, "an effect", ok, true)
			return nil, nil
		}}
		out := newEngine(t, sealedBadly{s}, cfg).Do(t.Context(), taskOf(h))
		wantKind(t, out, idem.Retry)
		wantErr(t, out.Err, errBoom)
	})
}

// counted is a store that counts what becomes of its effects.
type counted struct {
	*spy
	made, discarded, settled *int
	enlists                  bool
	seal                     error
}

func (c counted) NewEffect() store.Effect {
	*c.made++
	return countedEffect(c)
}

func (c counted) Settle(ctx context.Context, ss []store.Settlement) []error {
	plain := slices.Clone(ss)
	for i := range plain {
		if plain[i].Effect != nil {
			*c.settled++
			plain[i].Effect = nil
		}
	}
	return c.spy.Settle(ctx, plain)
}

type countedEffect counted

func (e countedEffect) Seal() (enlisted bool, err error) { return e.enlists, e.seal }
func (e countedEffect) Discard()                         { *e.discarded++ }

// An effect holds what a store can't do without, such as a connection.
func TestAnEffectIsSettledOrDiscarded(t *testing.T) {
	asks := func(err error) func(context.Context) ([]byte, error) {
		return func(ctx context.Context) ([]byte, error) {
			_, _ = store.EffectFrom(ctx)
			return nil, err
		}
	}
	for name, tc := range map[string]struct {
		handle           func(context.Context) ([]byte, error)
		nothing          bool
		seal             error
		settled, discard int
	}{
		"success":                            {handle: asks(nil), settled: 1},
		"success without a result":           {handle: asks(idem.ResultUnavailable(errBoom)), settled: 1},
		"an error":                           {handle: asks(errBoom), discard: 1},
		"a permanent error":                  {handle: asks(idem.Permanent(errBoom)), discard: 1},
		"an error of a dependency":           {handle: asks(idem.Unavailable(errBoom)), discard: 1},
		"nothing enlisted":                   {handle: asks(nil), nothing: true, discard: 1},
		"what can't be sealed":               {handle: asks(nil), seal: errBoom, discard: 1},
		"what can't be sealed, no result":    {handle: asks(idem.ResultUnavailable(errBoom)), seal: errBoom, discard: 1},
		"an error, and what can't be":        {handle: asks(errBoom), seal: errBoom, discard: 1},
		"a panic":                            {handle: func(ctx context.Context) ([]byte, error) { _, _ = asks(nil)(ctx); panic("boom") }, discard: 1},
		"the end of the handler's goroutine": {handle: func(ctx context.Context) ([]byte, error) { _, _ = asks(nil)(ctx); runtime.Goexit(); return nil, nil }, discard: 1},
		"an error after the claim was lost": {handle: func(ctx context.Context) ([]byte, error) {
			_, err := asks(nil)(ctx)
			<-ctx.Done()
			return nil, errors.Join(err, context.Cause(ctx))
		}, discard: 1},
		"a handler that asks for none": {handle: func(context.Context) ([]byte, error) { return nil, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s *spy, cfg idem.Config) {
				if name == "an error after the claim was lost" {
					if cfg.ClaimOnCommit {
						return // there is no claim to lose
					}
					s.onSettle = failing(store.OpExtend)
				}
				made, discarded, settled := 0, 0, 0
				e := newEngine(t, counted{s, &made, &discarded, &settled, !tc.nothing, tc.seal}, cfg)
				h := &handler{handle: func(ctx context.Context, _ int) ([]byte, error) { return tc.handle(ctx) }}
				var wg sync.WaitGroup
				wg.Go(func() { e.Do(t.Context(), taskOf(h)) })
				wg.Wait()
				equal(t, "settled", settled, tc.settled)
				equal(t, "discarded", discarded, tc.discard)
				equal(t, "made", made, tc.settled+tc.discard)
			})
		})
	}
}

// A goroutine that outlives its handler gets no effect, because no one would end it.
func TestNoEffectIsMadeAfterTheHandler(t *testing.T) {
	onBoth(t, func(t *testing.T, s *spy, cfg idem.Config) {
		var kept context.Context
		h := &handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
			kept = ctx //nolint:fatcontext // that is the point
			return nil, nil
		}}
		wantKind(t, newEngine(t, s, cfg).Do(t.Context(), taskOf(h)), idem.Executed)
		if _, ok := store.EffectFrom(kept); ok {
			t.Error("there is an effect")
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

// Several processes handle deliveries of several keys concurrently, and their requests and answers are lost at random. The
// effect of each key takes place once, whether it is claimed first or with the completion.
func TestEffectsTakePlaceOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		faults := rapid.SliceOfN(rapid.IntRange(0, 5), 0, 40).Draw(rt, "faults")
		modes := rapid.SliceOfN(rapid.Bool(), 3, 3).Draw(rt, "claims on commit")
		rounds := rapid.IntRange(1, 4).Draw(rt, "rounds")
		batch := rapid.SampledFrom([]int{1, 4}).Draw(rt, "batch size")
		var wrong string
		synctest.Test(t, func(t *testing.T) { wrong = deliveries(t, faults, modes, rounds, batch) })
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

const effectKeys = 5

func deliveries(t *testing.T, faults []int, modes []bool, rounds, batch int) (wrong string) {
	t.Helper()
	s := &flaky{Store: memstore.New(memstore.Config{BatchSize: batch}), faults: faults}
	var counts [effectKeys]int
	keyOf := func(i int) string { return fmt.Sprint("payments#", i) }
	for range rounds {
		var all sync.WaitGroup
		for _, onCommit := range modes {
			e := newEngine(t, s, idem.Config{ClaimOnCommit: onCommit, Lease: lease, BreakerFailures: -1, Wait: -1})
			session := e.Session(t.Context())
			var claims []*idem.Claim
			for i := range effectKeys {
				task := taskOf(booked(&counts[i], nil))
				task.Key = keyOf(i)
				claims = append(claims, &idem.Claim{Task: task, TakeOver: true})
			}
			all.Go(func() {
				defer session.Close()
				session.Claim(claims)
				var told sync.WaitGroup
				told.Add(len(claims))
				for _, claim := range claims {
					session.RunAsync(claim, func(idem.Outcome) { told.Done() })
				}
				told.Wait()
			})
		}
		all.Wait()
		pass(lease + time.Second)
		s.landLate(t.Context())
	}
	for i, n := range counts {
		rec, err := s.Get(t.Context(), keyOf(i))
		completed := err == nil && rec.Status == store.StatusCompleted
		if n > 1 || completed != (n == 1) {
			return fmt.Sprintf("key %d: its effect took place %d times, and the key is %+v", i, n, rec)
		}
	}
	return ""
}

// flaky is a memory store whose calls of Settle fail with the given faults, one after the other.
type flaky struct {
	*memstore.Store
	mu     sync.Mutex
	faults []int
	late   [][]store.Settlement
}

// Settle implements store.Store.
func (f *flaky) Settle(ctx context.Context, ss []store.Settlement) []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault := noFault
	if len(f.faults) > 0 {
		fault, f.faults = faultKind(f.faults[0]), f.faults[1:]
	}
	failed := slices.Repeat([]error{errNetwork}, len(ss))
	switch fault {
	case lostRequest:
		return failed
	case lateRequest:
		f.late = append(f.late, slices.Clone(ss))
		return failed
	case lostReply:
		f.Store.Settle(ctx, ss)
		return failed
	case sentTwice:
		f.Store.Settle(ctx, ss)
	case noFault:
	}
	return f.Store.Settle(ctx, ss)
}

func (f *flaky) landLate(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ss := range f.late {
		f.Store.Settle(ctx, ss)
	}
	f.late = nil
}
