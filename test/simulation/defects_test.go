package simulation_test

import (
	"go/format"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// defect is a change of the code that undoes a rule or a repair of the protocol.
type defect struct {
	name    string // what is wrong
	undoes  string // the rule of docs/design.md, or the commit
	shows   string // how a run would show it
	test    string // a package and the tests of it that find the defect
	not     string // why the simulation does not find it; empty if it does
	config  string // the configuration in which it finds it, if it does not in those that seeds draw
	changes []replacement
}

// replacement is a change of a file: old, which is there once, is replaced.
type replacement struct{ file, old, by string }

// defects are the known ones.
var defects = slices.Concat(
	defectsOfRules, defectsOfWrites, defectsOfRanges, // of keys, their items and the leases of partitions
	defectsOfAttempts, defectsOfLeases, defectsOfOutages, defectsOfAtMostOnce, // of the engine
	defectsOfBatches, defectsOfStreams, defectsOfRecords, // of the scheduler and the hosts
)

// Why the simulation does not find several defects.
const (
	fewReserved = "a run has fewer records than one reservation of positions"
	slowMoves   = "a partition does not change its owner within what two clocks of a run differ by"
	onlyWaits   = "records only wait longer"
	tooRare     = "requests without an answer, a death and a second owner meet too rarely"
)

// root is the folder of the repository.
const root = "../.."

// overlay returns the text of each file that the defect changes, by its absolute path.
func (d *defect) overlay(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, c := range d.changes {
		path, err := filepath.Abs(filepath.Join(root, c.file))
		if err != nil {
			t.Fatal(err)
		}
		if _, read := texts[path]; !read {
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = string(source)
		}
		if n := strings.Count(texts[path], c.old); n != 1 || c.old == c.by {
			t.Errorf("%s: %s: the text is there %d times, want once, and another one in its place: %s",
				d.name, c.file, n, c.old)
		}
		texts[path] = strings.Replace(texts[path], c.old, c.by, 1)
	}
	return texts
}

// Each defect is a change of today's code. Its text may need another line if the code has changed.
func TestDefectsApply(t *testing.T) {
	names := make(map[string]bool)
	for i := range defects {
		d := &defects[i]
		if names[d.name] || d.name == "" || d.undoes == "" || d.shows == "" || d.test == "" ||
			len(d.changes) == 0 {
			t.Errorf("%q: want a name of its own, what it undoes, what shows it, a test and changes", d.name)
		}
		names[d.name] = true
		texts := d.overlay(t)
		for _, path := range slices.Sorted(maps.Keys(texts)) {
			if _, err := format.Source([]byte(texts[path])); err != nil {
				t.Errorf("%s: %s: %v", d.name, path, err)
			}
		}
	}
}
