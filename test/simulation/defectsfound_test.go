//go:build defects

package simulation_test

import (
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

// mostSeeds is within how many seeds the simulation must find a defect.
const mostSeeds = 2000

// The simulation finds each defect that it can meet. A line of the log has the number of seeds, and the
// configuration after shrinking.
func TestEachDefectIsFound(t *testing.T) {
	most := testkit.Number(t, "SIMULATE_MOST", mostSeeds, 1)
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
			out, _ := simulate(t, program, "1-"+strconv.Itoa(most)) // it fails if it finds a violation
			found := regexp.MustCompile(
				`(?s)seed (\d+): (.*?)\n.*\n *configuration: ([^\n]*)\n`).FindSubmatch(out)
			// of the product: the test program ends
			crash := regexp.MustCompile(`(?m)^(?:panic|fatal error): .*`).Find(out)
			switch {
			case found == nil && crash != nil:
				t.Logf("| %s | – | %s |", d.name, crash)
			case found == nil && d.not == "":
				t.Errorf("is not found within %d seeds: %.300s", most, out[max(0, len(out)-300):])
			case found == nil:
				t.Logf("| %s | none of %d: %s |", d.name, most, d.not)
			default:
				t.Logf("| %s | %s | `%s` | %.150s |", d.name, found[1], found[3], found[2])
				if out, err := simulate(t, os.Args[0], string(found[1])); err != nil {
					t.Errorf("seed %s finds a violation without the defect too: %s", found[1], out)
				}
			}
		})
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
