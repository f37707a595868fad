//go:build defects

package simulation_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/internal/test/testkit"
)

// gotest returns a run of go test with the defect, in a folder of the repository.
func (d *defect) gotest(t *testing.T, folder string, flags ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go",
		slices.Concat([]string{"test", "-vet=off", "-overlay", testkit.Overlay(t, d.overlay(t))}, flags,
			[]string{"."})...)
	cmd.Dir = filepath.Join(root, folder)
	return cmd
}

// defectSeeds are the seeds by which the simulation must find a defect.
const defectSeeds = "1-2000"

// The simulation finds each defect that it can meet. A line of the log has the seed that fails first, the
// configuration after shrinking, and the seed that fails with it.
func TestEachDefectIsFound(t *testing.T) {
	seeds := cmp.Or(os.Getenv(seedsVariable), defectSeeds)
	part, parts := rangeOf(t, "SIMULATE_PART", "1-1") // N-M: the Nth of M parts of the table
	for i := range defects {
		d := &defects[i]
		if uint64(i)%parts != part-1 {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "simulation.test")
			if out, err := d.gotest(t, "test/simulation", "-c", "-tags", "synctests", "-o",
				program).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if _, set := os.LookupEnv(configVariable); !set && d.config != "" {
				t.Setenv(configVariable, d.config)
			}
			out, _ := simulate(t, program, seeds) // it fails if it finds a violation
			found := regexp.MustCompile(
				`(?s)seed (\d+): (.*?)\n.*\n *make simulate SEEDS=(\d+) CONFIG='(.*?)'`).FindSubmatch(out)
			// of the product: the test program ends
			crash := regexp.MustCompile(`(?m)^(?:panic|fatal error): .*`).Find(out)
			switch {
			case found == nil && crash != nil:
				t.Logf("| %s | – | %s |", d.name, crash)
			case found == nil && d.not == "":
				t.Errorf("is not found by the seeds %s: %.300s", seeds, out[max(0, len(out)-300):])
			case found == nil:
				t.Logf("| %s | none of %s: %s |", d.name, seeds, d.not)
			default:
				t.Logf("| %s | %s | `%s` | %s | %.150s |", d.name, found[1], found[4], found[3], found[2])
				soundWithout(t, string(found[1]))
				t.Setenv(configVariable, string(found[4]))
				soundWithout(t, string(found[3]))
				soundWithout(t, "1-"+strconv.Itoa(otherSeeds))
			}
		})
	}
}

// soundWithout fails the test if seeds find a violation in the code without a defect.
func soundWithout(t *testing.T, seeds string) {
	t.Helper()
	if out, err := simulate(t, os.Args[0], seeds); err != nil {
		t.Errorf("without the defect too: %s", out)
	}
}

// simulate runs seeds with a program of this package.
func simulate(t *testing.T, program, seeds string) (out []byte, err error) {
	t.Helper()
	run := exec.CommandContext(t.Context(), program, "-test.run=^TestSimulation$", "-test.v",
		"-test.timeout=20m")
	run.Env = append(os.Environ(), seedsVariable+"="+seeds, ordersVariable+"="+noOrder, "GOMEMLIMIT=2GiB")
	return run.CombinedOutput()
}

// The tests that a defect names fail with it.
func TestEachDefectFailsItsTests(t *testing.T) {
	for i := range defects {
		d := &defects[i]
		t.Run(d.name, func(t *testing.T) {
			pkg, tests, _ := strings.Cut(d.test, " ")
			out, err := d.gotest(t, pkg, "-count=1", "-timeout=3m", "-run", "^("+tests+")$").CombinedOutput()
			text := string(out)
			switch {
			case strings.Contains(text, "[build failed]"), strings.Contains(text, "no tests to run"),
				strings.Contains(text, "test timed out"):
				t.Errorf("%v: %s", err, out)
			case err == nil:
				t.Errorf("%s passes", d.test)
			default:
				t.Logf("%.1500s", text)
			}
		})
	}
}
