//go:build mutants

package mutants_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// target is a file to change, and the packages whose tests must detect each change. run selects the tests. If changes is set, the file is
// changed as a text. If sql is set, only its raw strings are.
type target struct {
	file    string
	pkgs    []string
	run     string
	changes []replacement
	sql     bool
}

var targets = []target{
	{file: "idem/store/rules.go", pkgs: []string{"idem/store", "idem/memstore"}},
	{file: "idem/store/range.go", pkgs: []string{"idem/store", "idem/memstore"}},
	{file: "idem/store/entry.go", pkgs: []string{"idem/store"}},
	{file: "idem/store/key.go", pkgs: []string{"idem/store"}},
	{file: "idem/dynamostore/expression.go", pkgs: dynamo, run: conditions},
	{file: "idem/dynamostore/statement.go", pkgs: dynamo, run: conditions},
	{file: "idem/dynamostore/schema.go", pkgs: dynamo, run: conditions},
	{file: "idem/redisstore/lua/claim.lua", pkgs: redis, run: conditions, changes: luaChanges},
	{file: "idem/redisstore/lua/settle.lua", pkgs: redis, run: conditions, changes: luaChanges},
	{file: "idem/redisstore/lua/prelude.lua", pkgs: redis, run: conditions, changes: luaChanges},
	{file: "idem/redisstore/lua/delete.lua", pkgs: redis, run: conditions, changes: luaChanges},
	{file: "idem/pgstore/statements.go", pkgs: []string{"idem/pgstore"}, run: "TestRules|TestAgreesWithMemory|TestForeign|TestPrune|TestList", changes: sqlChanges, sql: true},
	{file: "idem/batch/lane.go", pkgs: scheduler, changes: holdAndWait},
	{file: "idem/batch/streamlane.go", pkgs: scheduler, changes: holdAndWait},
	{file: "idem/session.go", pkgs: scheduler, changes: holdAndWait},
}

// The tests of networks and outages take a minute, and do not concern what the conditions and items are.
const conditions = "TestRules|TestAgreesWithMemory|Item|Golden|Requests|Effect|Clocks|Foreign|Tags|Transaction|Conditional|Large|Prune|Expir|List|Format|RoundTrips"

var dynamo, redis, scheduler = []string{"idem/dynamostore"}, []string{"idem/redisstore"}, []string{"idem/batch", "lambda/msk"}

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
	if tg.changes != nil {
		testTexts(t, tg, path, string(source))
		return
	}
	list, err := mutantsOf(string(source))
	if err != nil {
		t.Fatal(err)
	}
	all, names := make(map[int]mutant), make(map[int]string)
	for i, m := range list {
		all[i+1] = m
	}
	bins := build(t, path, tg.pkgs, all)
	for n, m := range all {
		names[n] = m.name
	}
	t.Logf("%d mutants do not compile", len(list)-len(all))
	testMutants(t, tg, names, func(_ *testing.T, n int) bool { return survives(t, tg, bins, strconv.Itoa(n)) })
}

// testTexts tests the mutants of texts. Scripts are variables of their package, and all mutants have one program. Statements are constants, and each mutant
// has its own.
func testTexts(t *testing.T, tg target, path, source string) {
	t.Helper()
	all, names := []textMutant{{text: source}}, make(map[int]string)
	all = append(all, changes(source, tg.changes, tg.sql)...)
	for n, m := range all[1:] {
		names[n+1] = m.name
	}
	build := func(t *testing.T, changed, text string) []string {
		t.Helper()
		dir := t.TempDir()
		return programs(t, dir, overlayOf(t, dir, map[string]string{changed: text}), tg.pkgs, "-tags=servers")
	}
	script, isScript := strings.CutSuffix(filepath.Base(path), ".lua")
	var bins []string
	if isScript {
		bins = build(t, filepath.Join(filepath.Dir(path), "../mutant.go"), fmt.Sprintf(
			"package %s\nimport \"os\"\nfunc init() { text, _ := os.ReadFile(os.Getenv(%q)); %sLua = string(text) }", filepath.Base(tg.pkgs[0]), variable, script))
	}
	testMutants(t, tg, names, func(t *testing.T, n int) bool {
		if !isScript {
			return survives(t, tg, build(t, path, all[n].text), "")
		}
		changed := filepath.Join(t.TempDir(), "changed.lua")
		if err := os.WriteFile(changed, []byte(all[n].text), 0o600); err != nil {
			t.Fatal(err)
		}
		return survives(t, tg, bins, changed)
	})
}

// testMutants tests that each mutant survives if and only if it has a reason.
func testMutants(t *testing.T, tg target, names map[int]string, survives func(t *testing.T, n int) bool) {
	t.Helper()
	if !survives(t, 0) {
		t.Fatal("the tests fail without a change")
	}
	missing := make(map[string]bool)
	for name := range reasons[tg.file] {
		missing[name] = true
	}
	var survived atomic.Int64
	t.Run("mutants", func(t *testing.T) {
		for n, name := range names {
			delete(missing, name)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				reason := reasons[tg.file][name]
				alive := survives(t, n)
				if alive {
					survived.Add(1)
				}
				if alive != (reason != "") {
					t.Errorf("%s: %s: survives: %t; the reason is %q", tg.file, name, alive, reason)
				}
			})
		}
	})
	for name := range missing {
		t.Errorf("there is no mutant %q: delete its reason", name)
	}
	t.Logf("%s: %d mutants, %d killed, %d survive", tg.file, len(names), len(names)-int(survived.Load()), survived.Load())
}

// survives reports whether the tests pass with the mutant that the variable selects. A test that hangs fails.
func survives(t *testing.T, tg target, bins []string, selected string) bool {
	t.Helper()
	for i, bin := range bins {
		cmd := exec.Command(bin, "-test.run="+tg.run, "-test.failfast", "-test.timeout=4m", "-rapid.shrinktime=1ns", "-rapid.nofailfile")
		cmd.Dir = filepath.Join("../..", tg.pkgs[i])
		cmd.Env = append(os.Environ(), variable+"="+selected)
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
