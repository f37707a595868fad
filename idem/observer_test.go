package idem_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/idem/store"
)

// diary is an observer that writes a line for each event: the step, its own fields, its time and its error.
type diary struct {
	mu    sync.Mutex
	lines []string
	last  idem.Event
}

// Observe implements idem.Observer.
func (d *diary) Observe(_ context.Context, e idem.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = e
	words := []string{e.Step.String()}
	if e.Step == observe.Claim {
		words = append(words, [...]string{"Unknown", "Claimed", "InFlight", "LeaseOver", "Completed",
			"Failed"}[e.State])
	}
	if e.Stolen {
		words = append(words, "stolen")
	}
	if e.Step == observe.Settle {
		words = append(words, e.Op.String())
	}
	if e.Outcome != nil {
		words = append(words, e.Outcome.Kind.String())
	}
	words = append(words, fmt.Sprintf("attempt %d", e.Attempt.Number), e.Took.String())
	for _, known := range []error{errBoom, errNetwork, idem.ErrInFlight, idem.ErrDeadLetterNotSent,
		idem.ErrLeaseLost, store.ErrFenced} {
		if errors.Is(e.Err, known) {
			words = append(words, "("+known.Error()+")")
		}
	}
	d.lines = append(d.lines, strings.Join(words, " "))
}

// wants checks all lines.
func (d *diary) wants(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.lines, want) {
		t.Errorf("the observer was told\n%s\nwant\n%s", strings.Join(d.lines, "\n"), strings.Join(want, "\n"))
	}
	d.lines = nil
}

// slow is a spy whose claims take 5 ms, and settlements 7 ms.
func slow() *spy {
	st := newSpy()
	st.onClaim = func(_ context.Context, _ []store.ClaimRequest,
		land func() []store.ClaimResult) []store.ClaimResult {
		pass(5 * time.Millisecond)
		return land()
	}
	st.onSettle = func(_ context.Context, _ store.Settlement, land func() error) error {
		pass(7 * time.Millisecond)
		return land()
	}
	return st
}

func TestObserverIsToldEachStep(t *testing.T) {
	sink := &deadLetters{onSend: func(context.Context,
		idem.DeadLetter) error {
		pass(3 * time.Millisecond)
		return nil
	}}
	broken := &deadLetters{onSend: func(context.Context, idem.DeadLetter) error { return errNetwork }}
	for name, tc := range map[string]struct {
		task idem.Task
		want []string
	}{
		"executed": {taskOf(taking(time.Second, "", nil)),
			[]string{"Claim Claimed attempt 1 5ms", "Handle attempt 1 1s", "Settle complete attempt 1 7ms",
				"End Executed attempt 1 0s"}},
		"retried": {taskOf(taking(time.Second, "", errBoom)),
			[]string{"Claim Claimed attempt 1 5ms", "Handle attempt 1 1s (boom)",
				"Settle release attempt 1 7ms", "End Retry attempt 1 0s (boom)"}},
		"dead-lettered": {taskWithDeadLetters(sink, returning("", idem.Permanent(errBoom))),
			[]string{"Claim Claimed attempt 1 5ms", "Handle attempt 1 0s (boom)", "DeadLetter attempt 1 3ms",
				"Settle fail attempt 1 7ms", "End DeadLettered attempt 1 0s (boom)"}},
		"the dead letter can't be sent": {taskWithDeadLetters(broken, returning("", idem.Permanent(errBoom))),
			[]string{"Claim Claimed attempt 1 5ms", "Handle attempt 1 0s (boom)",
				"DeadLetter attempt 1 0s (connection refused) (" + idem.ErrDeadLetterNotSent.Error() + ")",
				"Settle release attempt 1 7ms",
				"End Retry attempt 1 0s (boom) (connection refused) (" + idem.ErrDeadLetterNotSent.Error() +
					")"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &diary{}
				e := newEngine(t, slow(), idem.Config{Observer: d, HashKeys: true})
				out := e.Do(t.Context(), tc.task)
				d.wants(t, tc.want...)
				equal(t, "the key of the attempt", d.last.Attempt.Key, testKey)
				equal(t, "the stored key", d.last.StoredKey, hashed(testKey))
				equal(t, "the task's source", d.last.Task.Source, testSource)
				equal(t, "the token", d.last.Attempt.Token, out.Token)
			})
		})
	}
}

// A second owner waits for the first, takes its key when the lease is over, and so the first is fenced.
func TestObserverIsToldOfWaitsStealsAndLostLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		st.onSettle = func(_ context.Context, set store.Settlement, land func() error) error {
			if set.Op == store.OpExtend {
				return errNetwork // the first owner's lease ends
			}
			return land()
		}
		first, second := &diary{}, &diary{}
		end := make(chan idem.Outcome)
		go func() {
			e := newEngine(t, st, idem.Config{Lease: lease, Observer: first})
			end <- e.Do(context.Background(), taskOf(taking(time.Hour, "", errBoom)))
		}()
		synctest.Wait()
		e := newEngine(t, st, idem.Config{Lease: lease, Observer: second})
		wantKind(t, e.Do(t.Context(), taskOf(returning("", nil))), idem.Executed)
		wantKind(t, <-end, idem.Replayed)
		first.wants(t, "Claim Claimed attempt 1 0s",
			"LeaseLost attempt 1 0s (connection refused) ("+idem.ErrLeaseLost.Error()+")",
			"Handle attempt 1 1h0m0s (boom)",
			"Settle release attempt 1 0s ("+store.ErrFenced.Error()+")", "End Replayed attempt 1 0s")
		waits := slices.IndexFunc(second.lines, func(line string) bool {
			return !strings.HasPrefix(line, "Claim InFlight attempt 1") &&
				!strings.HasPrefix(line, "Wait attempt 1")
		})
		if waits < 4 {
			t.Errorf("%q", second.lines)
		}
		second.lines = second.lines[max(0, waits):]
		second.wants(t, "Claim Claimed stolen attempt 2 0s", "Handle attempt 2 0s",
			"Settle complete attempt 2 0s", "End Executed attempt 2 0s")
	})
}

// A session tells the steps of tasks whose claims are sent ahead and whose completions are sent together.
// Their callers know the ends.
func TestObserverIsToldTheStepsOfASession(t *testing.T) {
	d := &diary{}
	e := newEngine(t, memstore.New(memstore.Config{BatchSize: 25}), idem.Config{Observer: d})
	s := session(t, e, t.Context())
	used := &idem.Claim{Task: taskOf(returning("", nil))}
	unused := &idem.Claim{Task: taskOf(returning("", nil))}
	unused.Task.Key = "payments#b"
	s.Claim([]*idem.Claim{used, unused})
	done := make(chan idem.Outcome, 1)
	s.RunAsync(used, func(out idem.Outcome, _ bool) { done <- out })
	wantKind(t, <-done, idem.Executed)
	s.Release([]*idem.Claim{unused})
	for i, line := range d.lines { // real time
		at := strings.LastIndex(line, " ")
		d.lines[i] = line[:at]
	}
	d.wants(t, "Claim Claimed attempt 1", "Claim Claimed attempt 1", "Handle attempt 1",
		"Settle complete attempt 1", "Release attempt 1")
}

func TestStepsHaveNames(t *testing.T) {
	equal(t, "the last step", observe.Overrun.String(), "Overrun")
	equal(t, "an unknown step", observe.Step(200).String(), "Unknown")
}
