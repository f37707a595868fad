package idem_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/idemsk/idemsk/idem"
)

func TestHandlerUnderAThirdOfTheLeaseNeedsNoExtension(t *testing.T) {
	for _, tc := range []struct {
		takes time.Duration
		want  int
	}{
		{0, 0},
		{10*time.Second - 1, 0},
		{10*time.Second + 1, 1},
		{20*time.Second - 1, 1},
		{20*time.Second + 1, 2},
		{10 * time.Minute, 59}, // the 60th is due when the handler returns
	} {
		t.Run(tc.takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newSpy()
				e := newEngine(t, st, idem.Config{Lease: lease})
				wantKind(t, e.Do(t.Context(), taskOf(taking(tc.takes, "receipt", nil))), idem.Executed)
				if n := st.count(store.OpExtend); n < tc.want || n > tc.want+1 || (n > tc.want && tc.takes%(10*time.Second) != 0) {
					t.Errorf("%d extensions; want %d", n, tc.want)
				}
				for _, set := range st.all(store.OpExtend) {
					equal(t, "the new lease", set.Lease, lease)
					equal(t, "retention", set.Retention, idem.Defaults().Retention)
				}
			})
		})
	}
}

func TestLeaseIsExtendedAtEveryThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		begun := time.Now()
		var beats []time.Duration
		st.onSettle = func(_ context.Context, set store.Settlement, land func() error) error {
			if set.Op == store.OpExtend {
				beats = append(beats, time.Since(begun))
				pass(time.Second) // a slow answer delays no later beat
			}
			return land()
		}
		e := newEngine(t, st, idem.Config{Lease: lease})
		wantKind(t, e.Do(t.Context(), taskOf(taking(45*time.Second, "", nil))), idem.Executed)
		equal(t, "beats", len(beats), 4)
		for i, at := range beats {
			equal(t, "a beat", at, time.Duration(i+1)*10*time.Second)
		}
	})
}

func TestExtendedLeaseIsNotTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		e := newEngine(t, st, idem.Config{Lease: lease})
		h := taking(10*time.Minute, "receipt", nil)
		outs := make(chan idem.Outcome, 1)
		go func() { outs <- e.Do(t.Context(), taskOf(h)) }()
		synctest.Wait()
		wantKind(t, e.Do(t.Context(), taskOf(h)), idem.Replayed)
		wantKind(t, <-outs, idem.Executed)
		equal(t, "calls of the handler", h.calls, 1)
	})
}

// steal lets the lease of the key end and takes the key for another process, which ends as h says.
func steal(t testing.TB, st store.Store, h idem.Handler) idem.Outcome {
	t.Helper()
	return newEngine(t, st, idem.Config{Lease: lease}).Do(context.Background(), taskOf(h))
}

func TestHandlerIsCancelledWhenItsKeyIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		e := newEngine(t, st, idem.Config{Lease: lease})
		letters := &deadLetters{}
		begun := time.Now()
		var ended time.Duration
		var cause error
		h := &handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
			if err := st.Delete(ctx, testKey, get(t, st, testKey).Token); err != nil {
				t.Error(err)
			}
			pass(time.Millisecond)
			stolen := session(t, newEngine(t, st.Store, idem.Config{}), context.Background())
			stolen.Claim([]*idem.Claim{{Task: taskOf(nil)}})
			<-ctx.Done()
			ended, cause = time.Since(begun), context.Cause(ctx)
			return nil, ctx.Err()
		}}
		out := e.Do(t.Context(), taskWithDeadLetters(letters, h))
		equal(t, "the handler was cancelled after", ended, 10*time.Second)
		wantErr(t, cause, idem.ErrLeaseLost, store.ErrFenced)
		if !strings.Contains(cause.Error(), testKey) {
			t.Errorf("%q does not name the key", cause)
		}
		wantKind(t, out, idem.Fenced)
		equal(t, "fenced", out.Fenced, true)
		wantErr(t, out.Err, store.ErrFenced, idem.ErrLeaseLost, context.Canceled)
		equal(t, "extensions", st.count(store.OpExtend), 1)
		equal(t, "dead letters", len(letters.sent), 0)
	})
}

func TestUnreachableStoreEndsTheLeaseByTheLocalClock(t *testing.T) {
	hang := func(ctx context.Context, set store.Settlement, land func() error) error {
		if set.Op != store.OpExtend {
			return land()
		}
		<-ctx.Done()
		return ctx.Err()
	}
	for _, tc := range []struct {
		name   string
		settle func(context.Context, store.Settlement, func() error) error
		want   error
	}{
		{"it refuses connections", failing(store.OpExtend), errNetwork},
		{"it does not answer", hang, context.DeadlineExceeded},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newSpy()
				st.onSettle = tc.settle
				st.onClaim = func(_ context.Context, _ []store.ClaimRequest, land func() []store.ClaimResult) []store.ClaimResult {
					pass(2 * time.Second) // the lease is reckoned from before the claim was sent
					return land()
				}
				e := newEngine(t, st, idem.Config{Lease: lease})
				begun := time.Now()
				var ended time.Duration
				var cause error
				letters := &deadLetters{}
				h := &handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
					<-ctx.Done()
					ended, cause = time.Since(begun), context.Cause(ctx)
					return nil, idem.Permanent(ctx.Err())
				}}
				out := e.Do(t.Context(), taskWithDeadLetters(letters, h))
				equal(t, "the handler was cancelled after", ended, lease)
				wantErr(t, cause, idem.ErrLeaseLost, tc.want)
				wantKind(t, out, idem.Retry)
				wantErr(t, out.Err, idem.ErrLeaseLost, context.Canceled)
				rec := get(t, st, testKey)
				equal(t, "released", rec.Released(), true)
				equal(t, "attempts", rec.Attempts, 1)
				equal(t, "dead letters", len(letters.sent), 0)
			})
		})
	}
}

// An extension that took its time lengthened the lease from when it was sent, not from when it was answered.
func TestExtendedLeaseStartsWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		st.onSettle = func(_ context.Context, set store.Settlement, land func() error) error {
			switch {
			case set.Op != store.OpExtend:
				return land()
			case st.count(store.OpExtend) == 1:
				err := land()
				pass(5 * time.Second)
				return err
			}
			return errNetwork
		}
		begun := time.Now()
		var ended time.Duration
		newEngine(t, st, idem.Config{Lease: lease}).Do(t.Context(), taskOf(&handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
			<-ctx.Done()
			ended = time.Since(begun)
			return nil, ctx.Err()
		}}))
		equal(t, "the handler was cancelled after", ended, lease/3+lease)
	})
}

func TestFailedHeartbeatsAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		begun := time.Now()
		st.onSettle = func(_ context.Context, set store.Settlement, land func() error) error {
			if since := time.Since(begun); set.Op == store.OpExtend && since < 25*time.Second {
				return errNetwork
			}
			return land()
		}
		e := newEngine(t, st, idem.Config{Lease: lease})
		wantKind(t, e.Do(t.Context(), taskOf(&handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
			pass(time.Minute)
			return nil, ctx.Err()
		}})), idem.Executed)
	})
}

// A network that falls silent takes away the beats that are under way. Over another connection the next one gets through.
func TestUnansweredHeartbeatLeavesTimeForAnother(t *testing.T) {
	for lease, lost := range map[time.Duration]int{time.Second: 1, lease: 3, time.Hour: 3} {
		synctest.Test(t, func(t *testing.T) {
			st := newSpy()
			beats := 0
			st.onSettle = func(ctx context.Context, set store.Settlement, land func() error) error {
				if beats++; set.Op == store.OpExtend && beats <= lost {
					<-ctx.Done()
					return ctx.Err()
				}
				return land()
			}
			e := newEngine(t, st, idem.Config{Lease: lease})
			out := e.Do(t.Context(), taskOf(&handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
				pass(lease + lease/10)
				return nil, context.Cause(ctx)
			}}))
			wantKind(t, out, idem.Executed)
		})
	}
}

// The claim counts as lost by the local clock, but nobody has taken the key: the effect took place, and is recorded.
func TestSuccessAfterALocalLossCompletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		st.onSettle = failing(store.OpExtend)
		e := newEngine(t, st, idem.Config{Lease: lease})
		lost := false
		out := e.Do(t.Context(), taskOf(&handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
			pass(2 * lease)
			lost = errors.Is(context.Cause(ctx), idem.ErrLeaseLost)
			return []byte("receipt"), nil
		}}))
		equal(t, "the lease was lost", lost, true)
		wantKind(t, out, idem.Executed)
		equal(t, "status", get(t, st, testKey).Status, store.StatusCompleted)
	})
}

func TestOutcomeOfATaskWhoseKeyWasTaken(t *testing.T) {
	for _, tc := range []struct {
		name      string
		err       error // of the first owner's handler
		meanwhile func(t *testing.T, st store.Store)
		kind      idem.Kind
		result    string
		wants     []string
	}{
		{
			"success, and the new owner completed", nil,
			func(t *testing.T, st store.Store) {
				wantKind(t, steal(t, st, returning("the new owner's", nil)), idem.Executed)
			}, idem.Replayed, "the new owner's", nil,
		},
		{
			"success, and the new owner completed without a stored result", nil,
			func(t *testing.T, st store.Store) {
				steal(t, st, returning(strings.Repeat("r", idem.Defaults().MaxResult+1), nil))
			}, idem.Replayed, "", []string{"the result was not stored"},
		},
		{
			"success, and the new owner failed", nil,
			func(t *testing.T, st store.Store) { steal(t, st, returning("", errBoom)) }, idem.Fenced, "", []string{"STARTED with token"},
		},
		{
			"success, and another request under the key completed", nil,
			func(t *testing.T, st store.Store) {
				admin, _ := st.(store.Admin)
				if err := admin.Delete(context.Background(), testKey, get(t, admin, testKey).Token); err != nil {
					t.Fatal(err)
				}
				task := taskOf(returning("another's", nil))
				task.Fingerprint = idem.FingerprintOf([]byte("another value"))
				newEngine(t, st, idem.Config{}).Do(context.Background(), task)
			}, idem.Fenced, "", []string{"COMPLETED with token", testSource},
		},
		{
			"success, and the key was deleted", nil,
			func(t *testing.T, st store.Store) {
				admin, _ := st.(store.Admin)
				if err := admin.Delete(context.Background(), testKey, get(t, admin, testKey).Token); err != nil {
					t.Fatal(err)
				}
			}, idem.Fenced, "", []string{"the entry is gone"},
		},
		{
			"an error, and the new owner completed", errBoom,
			func(t *testing.T, st store.Store) { steal(t, st, returning("the new owner's", nil)) }, idem.Replayed, "the new owner's", nil,
		},
		{
			"a dependency down, and the new owner is running", idem.Unavailable(errBoom),
			func(t *testing.T, st store.Store) {
				s := session(t, newEngine(t, st, idem.Config{Lease: lease}), context.Background())
				s.Claim([]*idem.Claim{{Task: taskOf(nil), TakeOver: true}})
			}, idem.Fenced, "", []string{"boom", "STARTED with token"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newSpy()
				st.onSettle = failing(store.OpExtend)
				letters := &deadLetters{}
				before := store.Entry{}
				h := &handler{handle: func(context.Context, int) ([]byte, error) {
					pass(lease + 1)
					tc.meanwhile(t, st.Store)
					if rec, err := st.Get(context.Background(), testKey); err == nil {
						before = rec
					}
					return []byte("mine"), tc.err
				}}
				out := newEngine(t, st, idem.Config{Lease: lease, MaxAttempts: 1}).Do(t.Context(), taskWithDeadLetters(letters, h))
				wantKind(t, out, tc.kind)
				equal(t, "fenced", out.Fenced, true)
				equal(t, "settlements but for extensions", len(st.settled)-st.count(store.OpExtend), 1)
				equal(t, "result", string(out.Result), tc.result)
				for _, want := range tc.wants {
					if out.Err == nil || !strings.Contains(out.Err.Error(), want) {
						t.Errorf("error %v does not contain %q", out.Err, want)
					}
				}
				if out.Kind == idem.Replayed {
					equal(t, "token", out.Token, before.Token)
				}
				equal(t, "dead letters", len(letters.sent), 0)
				if rec, err := st.Get(context.Background(), testKey); err == nil {
					equal(t, "the new owner's attempts", rec.Attempts, before.Attempts)
					equal(t, "the new owner's record", rec.UpdatedAt, before.UpdatedAt)
				}
			})
		})
	}
}

// The dead letter has been sent, but a thief was quicker: its completion counts.
func TestDeadLetteredTaskCompletedElsewhereIsAReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		st.onSettle = failing(store.OpExtend)
		letters := &deadLetters{onSend: func(context.Context, idem.DeadLetter) error {
			pass(lease + 1)
			wantKind(t, steal(t, st.Store, returning("the new owner's", nil)), idem.Executed)
			return nil
		}}
		out := newEngine(t, st, idem.Config{Lease: lease}).Do(t.Context(), taskWithDeadLetters(letters, returning("", idem.Permanent(errBoom))))
		wantKind(t, out, idem.Replayed)
		equal(t, "fenced", out.Fenced, true)
		equal(t, "result", string(out.Result), "the new owner's")
		equal(t, "status", get(t, st, testKey).Status, store.StatusCompleted)
	})
}

// A key is kept until its settlement has an answer, however long that takes: a contender that comes meanwhile does not run the
// task a second time.
func TestLeaseIsExtendedUntilTheKeyIsSettled(t *testing.T) {
	slow := func(_ context.Context, set store.Settlement, land func() error) error {
		if set.Op != store.OpExtend {
			pass(2 * lease)
		}
		return land()
	}
	for _, tc := range []struct {
		name   string
		task   idem.Task
		settle func(context.Context, store.Settlement, func() error) error
		kind   idem.Kind
	}{
		{"a completion", taskOf(returning("receipt", nil)), slow, idem.Executed},
		{"a release", taskOf(returning("", errBoom)), slow, idem.Retry},
		{"a failure", taskWithDeadLetters(&deadLetters{}, returning("", idem.Permanent(errBoom))), slow, idem.DeadLettered},
		{"a dead letter", taskWithDeadLetters(&deadLetters{onSend: func(context.Context, idem.DeadLetter) error {
			pass(2 * lease)
			return nil
		}}, returning("", idem.Permanent(errBoom))), nil, idem.DeadLettered},
	} {
		for _, batch := range []int{1, 2} {
			t.Run(fmt.Sprint(tc.name, ", in batches of ", batch), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := newSpy()
					st.onSettle = tc.settle
					s := session(t, newEngine(t, batcherOf{st, batch}, idem.Config{Lease: lease}), until(t, time.Hour))
					claim := &idem.Claim{Task: tc.task}
					s.Claim([]*idem.Claim{claim})
					out := make(chan idem.Outcome, 1)
					go s.RunAsync(claim, func(o idem.Outcome) { out <- o })
					for range 15 {
						pass(lease / 10)
						contender := newEngine(t, st.Store, idem.Config{Lease: lease, Wait: -1})
						wantKind(t, contender.Do(t.Context(), taskOf(returning("a contender's", nil))), idem.InFlight)
					}
					wantKind(t, <-out, tc.kind)
				})
			})
		}
	}
}

func TestEndOfAHandlerWaitsForAHeartbeatInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		beating := false
		st.onSettle = func(ctx context.Context, set store.Settlement, land func() error) error {
			if set.Op != store.OpExtend {
				equal(t, "a beat is in progress at the settlement", beating, false)
				return land()
			}
			beating = true
			<-ctx.Done()
			pass(time.Second) // it does not stop at once
			beating = false
			return ctx.Err()
		}
		begun := time.Now()
		out := newEngine(t, st, idem.Config{Lease: lease}).Do(t.Context(), taskOf(taking(12*time.Second, "", nil)))
		wantKind(t, out, idem.Executed)
		equal(t, "it took", time.Since(begun), 13*time.Second)
		equal(t, "extensions", st.count(store.OpExtend), 1)
	})
}

// The handler's error and the news that the key was taken come at the same moment: the news counts, and nothing is deadLettered.
func TestLossDetectedWhileTheHandlerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		st.onSettle = func(ctx context.Context, set store.Settlement, land func() error) error {
			if set.Op == store.OpExtend {
				<-ctx.Done()
				return &store.FencedError{Key: set.Key, Token: set.Token}
			}
			return land()
		}
		letters := &deadLetters{}
		out := newEngine(t, st, idem.Config{Lease: lease}).Do(t.Context(), taskWithDeadLetters(letters, taking(15*time.Second, "", idem.Permanent(errBoom))))
		wantKind(t, out, idem.Retry)
		wantErr(t, out.Err, idem.ErrLeaseLost, errBoom)
		equal(t, "dead letters", len(letters.sent), 0)
	})
}

// A handler that does not return when its time is over is not extended any more: nobody waits for it. Its key stays taken
// until the lease ends.
func TestHeartbeatEndsForAnOverrun(t *testing.T) {
	for _, tc := range []struct {
		takes time.Duration
		kind  idem.Kind
	}{
		{14800 * time.Millisecond, idem.Executed}, // within the margin there is time to settle
		{25 * time.Second, idem.CompletionFailed},
	} {
		t.Run(tc.takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newSpy()
				begun := time.Now()
				e := newEngine(t, st, idem.Config{Lease: lease})
				out := e.Do(until(t, 15*time.Second), taskOf(taking(tc.takes, "receipt", nil)))
				wantKind(t, out, tc.kind)
				equal(t, "it took", time.Since(begun), tc.takes)
				equal(t, "extensions", st.count(store.OpExtend), 1)
				if tc.kind == idem.CompletionFailed {
					rec := get(t, st, testKey)
					equal(t, "status", rec.Status, store.StatusStarted)
					equal(t, "released", rec.Released(), false)
					equal(t, "the lease", rec.LeaseUntil.Sub(begun), 40*time.Second)
				}
			})
		})
	}
}

// A claim that was run late, in a process that had been paused since its claim, knows that its lease is over.
func TestClaimWhoseKeyWasTakenIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		e := newEngine(t, st, idem.Config{Lease: lease})
		s := session(t, e, t.Context())
		h := returning("late", nil)
		late := []*idem.Claim{{Task: taskOf(h)}}
		s.Claim(late)
		pass(lease + 1)
		wantKind(t, steal(t, st, returning("the new owner's", nil)), idem.Executed)
		out := s.Run(late[0])
		wantKind(t, out, idem.Replayed)
		equal(t, "fenced", out.Fenced, true)
		equal(t, "result", string(out.Result), "the new owner's")
		equal(t, "calls of the handler", h.calls, 0)
	})
}

func TestOldClaimIsExtendedBeforeItsHandlerBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		e := newEngine(t, st, idem.Config{Lease: lease})
		s := session(t, e, t.Context())
		late := []*idem.Claim{{Task: taskOf(&handler{handle: func(context.Context, int) ([]byte, error) {
			contender := newEngine(t, st, idem.Config{Lease: lease, Wait: -1})
			wantKind(t, contender.Do(context.Background(), taskOf(returning("a new owner's", nil))), idem.InFlight)
			return []byte("mine"), nil
		}})}}
		s.Claim(late)
		pass(lease + 1)
		wantKind(t, s.Run(late[0]), idem.Executed)
	})
}

// The key was held when the extension was written, but by the time of the answer its lease may have ended and another owner
// may be at work.
func TestHandlerIsNotBegunAfterALateExtension(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(t *testing.T, st *spy)
		kind      idem.Kind
	}{
		"nobody took the key":        {func(*testing.T, *spy) {}, idem.StoreDown},
		"another owner completed it": {func(t *testing.T, st *spy) { steal(t, st.Store, returning("the new owner's", nil)) }, idem.Replayed},
		"another owner is at work": {func(t *testing.T, st *spy) {
			thief := session(t, newEngine(t, st.Store, idem.Config{}), context.Background())
			thief.Claim([]*idem.Claim{{Task: taskOf(nil), TakeOver: true}})
		}, idem.Fenced},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newSpy()
				st.onSettle = func(_ context.Context, set store.Settlement, land func() error) error {
					err := land()
					if set.Op == store.OpExtend {
						pass(lease + time.Second)
						tc.meanwhile(t, st)
					}
					return err
				}
				s := session(t, newEngine(t, st, idem.Config{Lease: lease}), t.Context())
				h := returning("late", nil)
				claim := &idem.Claim{Task: taskOf(h)}
				s.Claim([]*idem.Claim{claim})
				pass(lease / 2)
				wantKind(t, s.Run(claim), tc.kind)
				equal(t, "calls of the handler", h.calls, 0)
				if tc.kind == idem.StoreDown {
					rec := get(t, st, testKey)
					equal(t, "released", rec.Released(), true)
					equal(t, "attempts", rec.Attempts, 0)
				}
			})
		})
	}
}
