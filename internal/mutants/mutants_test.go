//go:build mutants

package mutants_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
)

// target is a file to change, and the packages whose tests must detect each change. run selects the tests.
type target struct {
	file string
	pkgs []string
	run  string
}

var targets = []target{
	{"idem/store/rules.go", []string{"idem/store", "idem/memstore"}, ""},
	{"idem/store/entry.go", []string{"idem/store"}, ""},
	{"idem/store/key.go", []string{"idem/store"}, ""},
	{"idem/dynamostore/expression.go", dynamo, conditions},
	{"idem/dynamostore/statement.go", dynamo, conditions},
	{"idem/dynamostore/schema.go", dynamo, conditions},
}

// The tests of networks and outages take a minute, and do not concern what the conditions and items are.
var dynamo = []string{"idem/dynamostore"}

const conditions = "TestRules|TestAgreesWithMemory|Item|Golden|Requests|Effect|Clocks|Foreign|Tags|Transaction|Conditional"

// A mutant that no test detects needs a reason. Every reason belongs to such a mutant.
func TestNoMutantSurvives(t *testing.T) {
	for _, tg := range targets {
		t.Run(tg.file, func(t *testing.T) { testTarget(t, tg) })
	}
}

func testTarget(t *testing.T, tg target) {
	path, err := filepath.Abs(filepath.Join("../..", tg.file))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	list, err := mutantsOf(string(source))
	if err != nil {
		t.Fatal(err)
	}
	all, missing := make(map[int]mutant), make(map[string]bool)
	for i, m := range list {
		all[i+1] = m
	}
	for name := range reasons[tg.file] {
		missing[name] = true
	}
	bins := build(t, path, tg.pkgs, all)
	if !survives(t, tg, bins, 0) {
		t.Fatal("the tests fail without a change")
	}
	var survived atomic.Int64
	t.Run("mutants", func(t *testing.T) {
		for n, m := range all {
			delete(missing, m.name)
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				reason := reasons[tg.file][m.name]
				alive := survives(t, tg, bins, n)
				if alive {
					survived.Add(1)
				}
				if alive != (reason != "") {
					t.Errorf("%s:%d: survives: %t; the reason is %q", tg.file, m.line, alive, reason)
				}
			})
		}
	})
	for name := range missing {
		t.Errorf("there is no mutant %q: delete its reason", name)
	}
	t.Logf("%s: %d mutants, %d killed, %d survive for a reason; %d more do not compile",
		tg.file, len(all), len(all)-int(survived.Load()), survived.Load(), len(list)-len(all))
}

// survives reports whether the tests pass with the mutant n, 0 for none. A test that hangs fails.
func survives(t *testing.T, tg target, bins []string, n int) bool {
	t.Helper()
	for i, bin := range bins {
		cmd := exec.Command(bin, "-test.run="+tg.run, "-test.failfast", "-test.timeout=4m", "-rapid.shrinktime=1ns", "-rapid.nofailfile")
		cmd.Dir = filepath.Join("../..", tg.pkgs[i])
		cmd.Env = append(os.Environ(), variable+"="+strconv.Itoa(n))
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		switch {
		case err != nil && !errors.As(err, &exit):
			t.Fatal(err)
		case err != nil:
			return false
		case bytes.Contains(out, []byte("no tests to run")):
			t.Fatalf("%s: %s", tg.pkgs[i], out)
		}
	}
	return true
}
