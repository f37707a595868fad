package ledger

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/lambda/msk"
)

// frozen takes the place of an exit status if the process was to freeze.
const frozen = -1

// simulating returns a bookkeeper with simulated failures, its ledger, and the exit status of a simulated
// crash.
func simulating(simulate bool) (b *bookkeeper, ledger *memoryLedger, exited *int) {
	ledger = newMemoryLedger()
	sim := newSimulation()
	code := 0
	sim.exit = func(c int) { code = c }
	sim.freeze = func() error { code = frozen; return nil }
	return &bookkeeper{ledger: ledger, simulate: simulate, simulation: sim}, ledger, &code
}

func asking(simulate string) Payment {
	p := good()
	p.Simulate = simulate
	return p
}

func TestFailuresAreSimulatedOnlyIfEnabled(t *testing.T) {
	for _, simulate := range []string{"permanent", "retry", "panic", "exit", "freeze:1", "sleep:1h", "nonsense"} {
		b, ledger, exited := simulating(false)
		if _, err := b.book(t.Context(), asking(simulate), msk.Record{}); err != nil {
			t.Errorf("%s: %v", simulate, err)
		}
		equal(t, "balance after "+simulate, ledger.balances["acc-1/EUR"], 1250)
		equal(t, "exit after "+simulate, *exited, 0)
	}
}

func TestSimulatedFailures(t *testing.T) {
	for simulate, tc := range map[string]struct {
		permanent bool
		says      string
		exit      int
	}{
		"permanent": {true, "simulated failure", 0},
		"retry":     {false, "simulated failure", 0},
		"exit":      {false, "simulated failure", exitCode},
		"freeze:1":  {false, "simulated failure", frozen},
		"freeze:x":  {true, "simulate freeze:x: want a number of failures", 0},
		"freeze":    {false, "simulated failure", frozen},
		"retry:x":   {true, "simulate retry:x: want a number of failures", 0},
		"sleep:x":   {true, "simulate sleep:x: want a duration like 200ms", 0},
		"sleep":     {true, "want a duration like 200ms", 0},
		"nonsense":  {true, `simulate is "nonsense": want permanent, retry`, 0},
	} {
		t.Run(simulate, func(t *testing.T) {
			b, ledger, exited := simulating(true)
			_, err := b.book(t.Context(), asking(simulate), msk.Record{})
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("error %v; want one that says %q", err, tc.says)
			}
			equal(t, "permanent", idem.IsPermanent(err), tc.permanent)
			equal(t, "exit", *exited, tc.exit)
			equal(t, "accounts", len(ledger.balances), 0) // the failure precedes the effect
		})
	}
}

func TestSimulatedSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ledger, _ := simulating(true)
		begun := time.Now()
		if _, err := b.book(t.Context(), asking("sleep:200ms"), msk.Record{}); err != nil {
			t.Fatal(err)
		}
		equal(t, "it took", time.Since(begun), 200*time.Millisecond)
		equal(t, "balance", ledger.balances["acc-1/EUR"], 1250)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.book(ctx, asking("sleep:1h"), msk.Record{}); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("error %v; want the context's", err)
		}
		equal(t, "it heeds its context", time.Since(begun), 1200*time.Millisecond)
	})
}

// downStore does not answer.
type downStore struct{ store.Store }

// Claim implements store.Store.
func (downStore) Claim(_ context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	return slices.Repeat([]store.ClaimResult{{Err: errors.New("no answer")}}, len(reqs))
}

// With protection the store counts the attempts, beyond the life of a process; without, the process has to.
func TestFailuresAreCountedByAttempts(t *testing.T) {
	for name, protected := range map[string]bool{"protected": true, "unprotected": false} {
		t.Run(name, func(t *testing.T) {
			var s store.Store = memstore.New(memstore.Config{})
			if !protected {
				s = downStore{}
			}
			engine, err := idem.New(s, idem.Config{FailOpen: true})
			if err != nil {
				t.Fatal(err)
			}
			b, ledger, _ := simulating(true)
			deliver := func() idem.Kind {
				if protected {
					b.simulation = newSimulation() // another process
				}
				task := idem.Task{Key: "p-1",
					Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
						_, err := b.book(ctx, asking("retry:2"), msk.Record{})
						return nil, err
					})}
				return engine.Do(t.Context(), task).Kind
			}
			for range 2 {
				equal(t, "outcome", deliver(), idem.Retry)
			}
			equal(t, "settled", deliver().Settled(), true)
			equal(t, "balance", ledger.balances["acc-1/EUR"], 1250)
		})
	}
}
