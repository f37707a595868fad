//go:build rest

package schedule_test

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

// brokenRangeTraces is the number of traces of each fault, of invocations and of processes each.
const brokenRangeTraces = 5

// Traces of owners that break the rules of docs/spec/partition.tla contradict it.
func TestTracesOfBrokenRangesContradictTheModel(t *testing.T) {
	broken := map[string]rangeView{
		"nothing": unchanged,
		"what a dead owner may have begun runs without a claim": func(s *rangeNetwork) store.Store {
			return brokenRange{rangeNetwork: s, taken: func(kept *store.Range) { kept.Till = 0 }}
		},
		"keys with entries run without a claim": func(s *rangeNetwork) store.Store {
			return brokenRange{rangeNetwork: s,
				looked: func(res *store.ClaimResult) { *res = store.ClaimResult{} }}
		},
		"the end of a range is not written": func(s *rangeNetwork) store.Store {
			return brokenRange{rangeNetwork: s,
				settles: func(set *store.Settlement) (bool,
					error) {
					return set.Op != store.OpExtend || set.Range == nil, nil
				}}
		},
		"completions that are not sent count as stored": func(s *rangeNetwork) store.Store {
			return brokenRange{rangeNetwork: s,
				settles: func(set *store.Settlement) (bool,
					error) {
					return set.Op != store.OpComplete || s.chance(0.5), nil
				}}
		},
		"records run with later tokens than the store gave": func(s *rangeNetwork) store.Store {
			return brokenRange{rangeNetwork: s,
				looked: func(res *store.ClaimResult) { res.Entry.Token += 1000 }}
		},
		"the lease is released although a completion is not answered": func(s *rangeNetwork) store.Store {
			return brokenRange{rangeNetwork: s, settles: func(set *store.Settlement) (bool, error) {
				return set.Claim == nil || s.chance(0.5), &store.FencedError{Key: set.Key}
			}}
		},
	}
	dir := t.TempDir()
	for name, view := range broken {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(brokenRangeTraces) {
			for _, stream := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					r := newRangeRecorder(t, seed, stream)
					r.lossy = 1
					r.run(view)
					r.write(filepath.Join(dir, name))
				})
			}
		}
	}
	wantContradicted(t, dir, maps.Keys(broken))
}

// wantContradicted checks that the model contradicts some of the traces of each fault, in a folder with its
// name, and none of the fault "nothing".
func wantContradicted(t *testing.T, dir string, faults iter.Seq[string]) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "../../scripts/trace.sh", dir).CombinedOutput()
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

// brokenRange is a store whose users change their requests, or believe other answers. Each function may be
// nil.
type brokenRange struct {
	*rangeNetwork
	taken   func(*store.Range)
	looked  func(*store.ClaimResult)
	settles func(*store.Settlement) (bool, error) // whether it is sent, and the answer if not
}

// Claim implements store.Store.
func (b brokenRange) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results := b.rangeNetwork.Claim(ctx, reqs)
	for i := range results {
		if kept := results[i].Entry.Range; kept != nil && b.taken != nil {
			taken := *kept
			b.taken(&taken)
			results[i].Entry.Range = &taken
		}
	}
	return results
}

// Look implements store.Ranger.
func (b brokenRange) Look(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results := b.rangeNetwork.Look(ctx, reqs)
	for i := range results {
		if b.looked != nil && results[i].Err == nil {
			b.looked(&results[i])
		}
	}
	return results
}

// Settle implements store.Store.
func (b brokenRange) Settle(ctx context.Context, ss []store.Settlement) []error {
	errs := make([]error, len(ss))
	for i := range ss {
		set := ss[i]
		if b.settles != nil {
			sent, answer := b.settles(&set)
			if errs[i] = answer; !sent {
				continue
			}
		}
		errs[i] = b.rangeNetwork.Settle(ctx, []store.Settlement{set})[0]
	}
	return errs
}
