//go:build localstack

package e2e_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/internal/testkit"
)

// Behind the layer a Python function that knows nothing of idempotency books each payment once, with redelivered batches, batches that
// run twice at once, and killed processes. The only exceptions are records that were with the function when its process was killed: their
// second booking has a later attempt.
func TestFunctionBehindTheLayer(t *testing.T) {
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(root) // where idemsk local looks for the layer
	build := exec.Command("scripts/build.sh", "layer")
	build.Env = append(os.Environ(), "ARCHS="+runtime.GOARCH)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	runtimes, err := exec.Command("scripts/runtimes.sh").Output()
	if err != nil {
		t.Fatalf("scripts/runtimes.sh: %v", err)
	}
	python := "'" + filepath.Join(strings.TrimSpace(string(runtimes)), "python/bin/python") + "' -m awslambdaric bookings.handler"
	records := testkit.Size(t, 2500, 10_000)
	bookings := func(args ...string) map[string][]string {
		file := filepath.Join(t.TempDir(), "bookings")
		runLocal(t, append(args, "--function", python, "--env", "PYTHONPATH="+testdata, "--env", "PYTHONDONTWRITEBYTECODE=1", "--env", "BOOKINGS="+file,
			"--produce", strconv.Itoa(records), "--seed", "7", "--until-drained", "--function-response-types", "ReportBatchItemFailures"))
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		attempts := make(map[string][]string)
		for line := range strings.Lines(string(text)) {
			payment, attempt, _ := strings.Cut(strings.TrimSpace(line), " ")
			attempts[payment] = append(attempts[payment], attempt)
		}
		return attempts
	}
	faults := []string{"local", "--duplicate", "0.3", "--concurrent-duplicates", "0.1"}
	without := bookings(faults...)
	if doubles := repeated(without); len(doubles) < records/10 {
		t.Errorf("without the layer only %d payments were booked more than once", len(doubles))
	}
	with := bookings(append(faults, "--layer", "--kill", "0.1")...)
	if got, want := slices.Sorted(maps.Keys(with)), slices.Sorted(maps.Keys(without)); !slices.Equal(got, want) {
		t.Errorf("%d payments were booked, want %d", len(got), len(want))
	}
	doubles := repeated(with)
	for payment, attempts := range doubles {
		if !slices.IsSortedFunc(attempts, strings.Compare) || len(slices.Compact(slices.Clone(attempts))) < len(attempts) {
			t.Errorf("payment %s was booked in the attempts %v: want a later one each time", payment, attempts)
		}
	}
	t.Logf("%d payments, booked more than once without the layer: %d, behind it: %d, all after a kill", len(with), len(repeated(without)), len(doubles))
}

func repeated(bookings map[string][]string) map[string][]string {
	doubles := maps.Clone(bookings)
	maps.DeleteFunc(doubles, func(_ string, attempts []string) bool { return len(attempts) == 1 })
	return doubles
}
