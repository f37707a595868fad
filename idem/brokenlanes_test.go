//go:build rest

package idem_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/idemsk/idemsk/idem/store"
)

// brokenLanes is the number of traces of each fault.
const brokenLanes = 4

// Traces of lanes that break the rules of docs/spec/batch.tla contradict it: b_deadlock and b_headfails.
func TestTracesOfBrokenLanesContradictTheModel(t *testing.T) {
	dir := t.TempDir()
	broken := map[string]func(context.Context, invocationStore, []store.Settlement) []error{
		"claims that are not used stay": func(context.Context, invocationStore,
			[]store.Settlement) []error {
			return nil
		},
		"attempts of claims that are not used stay": func(ctx context.Context, s invocationStore,
			ss []store.Settlement) []error {
			for i := range ss {
				ss[i].Refund = false
			}
			return s.Settle(ctx, ss)
		},
		"nothing": func(ctx context.Context, s invocationStore,
			ss []store.Settlement) []error {
			return s.Settle(ctx, ss)
		},
	}
	for name, release := range broken {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(brokenLanes) {
			synctest.Test(t, func(t *testing.T) {
				r := newLaneRecorder(seed)
				r.lanes = map[string][]string{"p": {"A", "B", "C", "D", "E"}, "q": {"B", "C", "D", "E", "A"},
					"r": {"C", "B", "A", "E", "D"}}
				r.run(t, func(s invocationStore) store.Store { return brokenStore{s, release} })
				writeTrace(t, filepath.Join(dir, name), r.lanes, r.withWaits())
			})
		}
	}
	wantContradicted(t, dir, maps.Keys(broken))
}

// brokenStore is a store that gets the releases of claims that were not used in another way.
type brokenStore struct {
	invocationStore
	release func(context.Context, invocationStore, []store.Settlement) []error
}

// Settle implements store.Store.
func (s brokenStore) Settle(ctx context.Context, ss []store.Settlement) []error {
	if ss[0].Refund { // so are the others of the call
		return s.release(ctx, s.invocationStore, ss)
	}
	return s.invocationStore.Settle(ctx, ss)
}

// wantContradicted checks that the model contradicts some of the traces of each fault, in a folder with its
// name, and none of the fault "nothing".
func wantContradicted(t *testing.T, dir string, faults iter.Seq[string]) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "../scripts/trace.sh", dir).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("%v:\n%s", err, out)
	}
	for name := range faults {
		contradicted := strings.Count(string(out), string(filepath.Separator)+name+string(filepath.Separator))
		if t.Logf("%s: %d traces contradict the model", name, contradicted); (contradicted > 0) != (name != "nothing") {
			t.Errorf("%s: %d traces contradict the model", name, contradicted)
		}
	}
}
