//go:build rest

package storetest_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Traces of stores that keep the rules agree with the model, and those of each broken store contradict it,
// unless its fault is in something that the model does not have.
func TestTracesOfBrokenStoresContradictTheModel(t *testing.T) {
	dir := t.TempDir()
	all := append(brokenStores(), broken{name: "none", group: "Rule1_OneWinner"})
	for i, b := range all {
		record(t, filepath.Join(dir, fmt.Sprintf("%03d", i)), b)
	}
	contradicted := contradictions(t, dir)
	for i, b := range all {
		want := b.name != "none" && !slices.Contains(notInTheModel(), b.name)
		if got := contradicted[fmt.Sprintf("%03d", i)]; got != want {
			t.Errorf("%s: the traces contradict the model: %t; want %t", b.name, got, want)
		}
	}
	t.Logf("the traces of %d of %d broken stores contradict the model", len(contradicted), len(all)-1)
}

// record runs the suite on a store and writes its traces.
func record(t *testing.T, dir string, b broken) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestSuite$/^"+b.group+"$", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), "IDEMSK_TRACE_DIR="+dir)
	if b.how != nil {
		cmd.Env = append(cmd.Env, brokenEnv+"="+b.name)
	} else {
		cmd.Args[1] = "-test.run=^TestSuite$|^TestAgreement$"
		cmd.Args = append(cmd.Args, "-rapid.checks=5")
	}
	var exit *exec.ExitError
	if out, err := cmd.CombinedOutput(); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v:\n%s", err, out)
	}
}

// contradictions returns the subfolders of dir whose traces contradict the model.
func contradictions(t *testing.T, dir string) map[string]bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "../../scripts/trace.sh", dir)
	var out, diagnosis bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diagnosis
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("%v:\n%s", err, &diagnosis)
	}
	contradicted := make(map[string]bool)
	for line := range strings.Lines(out.String()) {
		name, err := filepath.Rel(dir, line)
		if err != nil {
			t.Fatal(err)
		}
		store, _, _ := strings.Cut(name, string(filepath.Separator))
		contradicted[store] = true
	}
	return contradicted
}

// notInTheModel returns the broken stores whose fault is in something that the model does not have, or that a
// call does not return.
func notInTheModel() []string {
	return []string{
		// results, failures, sources, and the times of creation and of the last change
		"the result is lost", "an omitted result is not noted", "an expired key keeps its result",
		"an expired key keeps the size of its result",
		"the failure is lost", "the failure is undated", "a completion keeps the failure before",
		"a release without a failure forgets the one before", "an expired key keeps its failure",
		"a redriven key keeps its failure",
		"the source is lost", "the time of creation is lost", "a settlement is undated",
		"a take-over resets the time of creation",
		"an expired key keeps its age", "a mismatch leaves a trace",
		// effects
		"an effect is lost", "a late owner's effect commits",
		"an effect takes place again when its reply was lost",
		"an effect's conditions are not checked", "an effect takes place in part",
		"completions of a call commit without the others",
		// ClaimResult.ClaimableIn, lists, contexts, shared memory, a deletion after which the test reads the
		// raw item
		"the end of a lease is not reported", "a list is not filtered", "contexts are ignored",
		"entries are shared with callers", "TTL deletes locks",
	}
}
