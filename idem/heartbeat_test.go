package idem_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
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
				if n := st.count(store.OpExtend); n < tc.want || n > tc.want+1 ||
					(n > tc.want && tc.takes%(10*time.Second) != 0) {
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

// An extension with a late answer extends the lease from the time of the request, not from that of the
// answer.
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
		newEngine(t, st, idem.Config{Lease: lease}).Do(t.Context(),
			taskOf(&handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
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
		wantKind(t, e.Do(t.Context(), taskOf(
			&handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
				pass(time.Minute)
				return nil, ctx.Err()
			}})), idem.Executed)
	})
}

// After a silent network failure the heartbeats in progress get no answer. The next one succeeds over another
// connection.
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
			out := e.Do(t.Context(), taskOf(
				&handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
					pass(lease + lease/10)
					return nil, context.Cause(ctx)
				}}))
			wantKind(t, out, idem.Executed)
		})
	}
}

// The lease is extended until the settlement is answered, so that another owner does not run the task a
// second time.
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
		{"a failure", taskWithDeadLetters(&deadLetters{}, returning("", idem.Permanent(errBoom))), slow,
			idem.DeadLettered},
		{"a dead letter", taskWithDeadLetters(
			&deadLetters{onSend: func(context.Context, idem.DeadLetter) error {
				pass(2 * lease)
				return nil
			}}, returning("", idem.Permanent(errBoom))), nil, idem.DeadLettered},
	} {
		for _, batch := range []int{1, 2} {
			t.Run(fmt.Sprint(tc.name, ", in batches of ", batch), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := newSpy()
					st.onSettle = tc.settle
					s := session(t, newEngine(t, batcherOf{st, batch}, idem.Config{Lease: lease}),
						until(t, time.Hour))
					claim := &idem.Claim{Task: tc.task}
					s.Claim([]*idem.Claim{claim})
					out := make(chan idem.Outcome, 1)
					go s.RunAsync(claim, func(o idem.Outcome, _ bool) { out <- o })
					for range 15 {
						pass(lease / 10)
						contender := newEngine(t, st.Store, idem.Config{Lease: lease, Wait: -1})
						wantKind(t, contender.Do(t.Context(), taskOf(returning("a contender's", nil))),
							idem.InFlight)
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
		out := newEngine(t, st, idem.Config{Lease: lease}).Do(t.Context(),
			taskOf(taking(12*time.Second, "", nil)))
		wantKind(t, out, idem.Executed)
		equal(t, "it took", time.Since(begun), 13*time.Second)
		equal(t, "extensions", st.count(store.OpExtend), 1)
	})
}

// The lease of a handler that overruns its time is not extended any more. Its key stays claimed until the
// lease ends.
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
					entry := get(t, st, testKey)
					equal(t, "status", entry.Status, store.StatusStarted)
					equal(t, "released", entry.Released(), false)
					equal(t, "the lease", entry.LeaseUntil.Sub(begun), 40*time.Second)
				}
			})
		})
	}
}

func TestOldClaimIsExtendedBeforeItsHandlerBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		e := newEngine(t, st, idem.Config{Lease: lease})
		s := session(t, e, t.Context())
		late := []*idem.Claim{{Task: taskOf(&handler{handle: func(context.Context, int) ([]byte, error) {
			contender := newEngine(t, st, idem.Config{Lease: lease, Wait: -1})
			wantKind(t, contender.Do(context.Background(), taskOf(returning("a new owner's", nil))),
				idem.InFlight)
			return []byte("mine"), nil
		}})}}
		s.Claim(late)
		pass(lease + 1)
		wantKind(t, s.Run(late[0]), idem.Executed)
	})
}

// The key was held when the extension was written, but the answer came after the end of the lease, when
// another owner may be running.
func TestHandlerIsNotBegunAfterALateExtension(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(t *testing.T, st *spy)
		kind      idem.Kind
	}{
		"no owner took the key": {func(*testing.T, *spy) {}, idem.StoreDown},
		"another owner completed it": {func(t *testing.T,
			st *spy) {
			steal(t, st.Store, returning("the new owner's", nil))
		}, idem.Replayed},
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
					entry := get(t, st, testKey)
					equal(t, "released", entry.Released(), true)
					equal(t, "attempts", entry.Attempts, 0)
				}
			})
		})
	}
}
