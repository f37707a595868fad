package idem_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// steal waits for the end of the key's lease and takes the key for another process, whose handler is h.
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
				st.onClaim = func(_ context.Context, _ []store.ClaimRequest,
					land func() []store.ClaimResult) []store.ClaimResult {
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
				entry := get(t, st, testKey)
				equal(t, "released", entry.Released(), true)
				equal(t, "attempts", entry.Attempts, 1)
				equal(t, "dead letters", len(letters.sent), 0)
			})
		})
	}
}

// The claim counts as lost by the local clock, but no other owner has taken the key: the effect is recorded.
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
			func(t *testing.T, st store.Store) { steal(t, st, returning("", errBoom)) }, idem.Fenced, "",
			[]string{"STARTED with token"},
		},
		{
			"success, and another request under the key completed", nil,
			func(t *testing.T, st store.Store) {
				admin, _ := st.(store.Admin)
				if err := admin.Delete(context.Background(), testKey,
					get(t, admin, testKey).Token); err != nil {
					t.Fatal(err)
				}
				task := taskOf(returning("another's", nil))
				task.Fingerprint = store.FingerprintOf([]byte("another value"))
				newEngine(t, st, idem.Config{}).Do(context.Background(), task)
			}, idem.Fenced, "", []string{"COMPLETED with token", testSource},
		},
		{
			"success, and the key was deleted", nil,
			func(t *testing.T, st store.Store) {
				admin, _ := st.(store.Admin)
				if err := admin.Delete(context.Background(), testKey,
					get(t, admin, testKey).Token); err != nil {
					t.Fatal(err)
				}
			}, idem.Fenced, "", []string{"the entry is gone"},
		},
		{
			"an error, and the new owner completed", errBoom,
			func(t *testing.T, st store.Store) { steal(t, st, returning("the new owner's", nil)) },
			idem.Replayed, "the new owner's", nil,
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
					if entry, err := st.Get(context.Background(), testKey); err == nil {
						before = entry
					}
					return []byte("mine"), tc.err
				}}
				out := newEngine(t, st, idem.Config{Lease: lease, MaxAttempts: 1}).Do(t.Context(),
					taskWithDeadLetters(letters, h))
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
				if entry, err := st.Get(context.Background(), testKey); err == nil {
					equal(t, "the new owner's attempts", entry.Attempts, before.Attempts)
					equal(t, "the new owner's record", entry.UpdatedAt, before.UpdatedAt)
				}
			})
		})
	}
}

// The dead letter was sent, but a new owner completed the key first: its completion counts.
func TestDeadLetteredTaskCompletedElsewhereIsAReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		st.onSettle = failing(store.OpExtend)
		letters := &deadLetters{onSend: func(context.Context, idem.DeadLetter) error {
			pass(lease + 1)
			wantKind(t, steal(t, st.Store, returning("the new owner's", nil)), idem.Executed)
			return nil
		}}
		out := newEngine(t, st, idem.Config{Lease: lease}).Do(t.Context(),
			taskWithDeadLetters(letters, returning("", idem.Permanent(errBoom))))
		wantKind(t, out, idem.Replayed)
		equal(t, "fenced", out.Fenced, true)
		equal(t, "result", string(out.Result), "the new owner's")
		equal(t, "status", get(t, st, testKey).Status, store.StatusCompleted)
	})
}

// The handler returns an error at the moment when the loss of the key is detected. The loss counts, and no
// dead letter is sent.
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
		out := newEngine(t, st, idem.Config{Lease: lease}).Do(t.Context(),
			taskWithDeadLetters(letters, taking(15*time.Second, "", idem.Permanent(errBoom))))
		wantKind(t, out, idem.Retry)
		wantErr(t, out.Err, idem.ErrLeaseLost, errBoom)
		equal(t, "dead letters", len(letters.sent), 0)
	})
}

// A claim that is run after a pause of the process knows that its lease is over.
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
