//go:build mutants

package mutants_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/test/testkit"
)

// target is a file to change, and the packages whose tests must detect each change. run selects the tests. If
// changes is set, the file is changed as a text. If sql is set, only its raw strings are. plain means that
// the tests do not use package rapid, and so have no flags of it.
type target struct {
	file    string
	pkgs    []string
	run     string
	changes []replacement
	sql     bool
	plain   bool
}

var targets = []target{
	{file: "idem/store/rules.go", pkgs: []string{"idem/store", "idem/memstore"}},
	{file: "idem/store/entry.go", pkgs: []string{"idem/store"}},
	{file: "idem/store/key.go", pkgs: []string{"idem/store"}},
	{file: "idem/dynamostore/expression.go", pkgs: dynamo, run: conditions},
	{file: "idem/dynamostore/statement.go", pkgs: dynamo, run: conditions},
	{file: "idem/dynamostore/schema.go", pkgs: dynamo, run: conditions},
	{file: "idem/redisstore/lua/claim.lua", pkgs: redis, run: conditions, changes: luaChanges},
	{file: "idem/redisstore/lua/settle.lua", pkgs: redis, run: conditions, changes: luaChanges},
	{file: "idem/redisstore/lua/prelude.lua", pkgs: redis, run: conditions, changes: luaChanges},
	{file: "idem/redisstore/lua/delete.lua", pkgs: redis, run: conditions, changes: luaChanges},
	{file: "idem/redisstore/lua/each.lua", pkgs: redis, run: conditions, changes: luaChanges},
	{file: "idem/pgstore/statements.go", pkgs: postgres, run: rows, changes: sqlChanges, sql: true},
	{file: "outbox/pgoutbox/statements.go", pkgs: []string{"outbox/pgoutbox"}, run: outboxTests,
		changes: sqlChanges, sql: true, plain: true},
	{file: "idem/internal/machine/lane.go", pkgs: scheduler, changes: holdAndWait, plain: true},
	{file: "idem/claim.go", pkgs: scheduler, changes: holdAndWait, plain: true},
}

// The tests of networks and outages take a minute, and do not concern what the conditions and items are.
const conditions = "TestRules|TestAgreesWithMemory|Item|Golden|Requests|Effect|Clocks|Foreign|Tags|Transaction|Conditional|Large|Prune|Expir|List|Format|RoundTrips"

const rows = "TestRules|TestAgreesWithMemory|TestForeign|TestPrune|TestList|TestTakeOver"

// Without outages, crashes, Debezium and Kafka Connect, which take most of the time.
const outboxTests = "TestEvent|TestIDThat|TestParked|TestPublish|TestList|TestReject|TestInvalid|TestTwoRelays|TestLocked|TestRelayRetries|TestRelayLeaves|TestFault|TestRow|TestNotification"

var (
	dynamo, redis, postgres = []string{"idem/dynamostore"}, []string{"idem/redisstore"}, []string{"idem/pgstore"}
	scheduler               = []string{"idem", "idem/internal/machine", "lambda/msk"}
)

// A mutant that no test detects needs a reason. Every reason belongs to such a mutant.
func TestNoMutantSurvives(t *testing.T) {
	t.Setenv("TMPDIR", folder(t))
	for _, tg := range targets {
		t.Run(tg.file, func(t *testing.T) { testTarget(t, tg) })
	}
}

// folder returns a temporary folder for what tests that do not end leave. Other users can read it: PostgreSQL
// does not run as root.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mutants-") //nolint:usetesting // t.TempDir returns one that others can't read
	if err == nil {
		err = os.Chmod(dir, 0o755) //nolint:mnd // as it must be
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func testTarget(t *testing.T, tg target) {
	path, err := filepath.Abs(filepath.Join("../../..", tg.file))
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
	testMutants(t, tg, names, func(t *testing.T, n int, limit time.Duration) (end, []byte) {
		return run(t, tg, bins, strconv.Itoa(n), limit)
	})
}

// testTexts tests the mutants of texts. All mutants of scripts and of statements have one program, which
// reads the texts from the file that the variable names. Other mutants have a program each.
func testTexts(t *testing.T, tg target, path, source string) {
	t.Helper()
	all, names := []textMutant{{text: source}}, make(map[int]string)
	all = append(all, changes(source, tg.changes, tg.sql)...)
	for n, m := range all[1:] {
		names[n+1] = m.name
	}
	build := func(t *testing.T, texts map[string]string) []string {
		t.Helper()
		dir := t.TempDir()
		return programs(t, dir, testkit.Overlay(t, texts), tg.pkgs, "-tags=servers,rest")
	}
	var bins []string
	content := func(text string) ([]byte, error) { return []byte(text), nil }
	script, isScript := strings.CutSuffix(filepath.Base(path), ".lua")
	switch {
	case isScript:
		bins = build(t, map[string]string{filepath.Join(filepath.Dir(path), "../mutant.go"): fmt.Sprintf(
			"package %s\nimport \"os\"\nfunc init() { text, _ := os.ReadFile(os.Getenv(%q)); %sLua = string(text) }", filepath.Base(tg.pkgs[0]), variable, script)})
	case tg.sql:
		changed, reader := readsRawStrings(source)
		bins = build(t, map[string]string{path: changed,
			filepath.Join(filepath.Dir(path), "mutant.go"): reader})
		content = func(text string) ([]byte, error) { return json.Marshal(rawStrings(text)) }
	}
	testMutants(t, tg, names, func(t *testing.T, n int, limit time.Duration) (end, []byte) {
		if bins == nil {
			return run(t, tg, build(t, map[string]string{path: all[n].text}), "", limit)
		}
		changed := filepath.Join(t.TempDir(), "changed")
		text, err := content(all[n].text)
		if err = errors.Join(err, os.WriteFile(changed, text, 0o600)); err != nil {
			t.Fatal(err)
		}
		return run(t, tg, bins, changed, limit)
	})
}

// end is how the tests of a mutant ended.
type end int

const (
	survived end = iota // the tests passed
	killed              // a test failed
	hung                // a test did not end
)

// testLimit is the time that the tests of a file have without a change. Those of its mutants have several
// times the time that these took.
const (
	testLimit   = 4 * time.Minute
	limitFactor = 8
)

// testMutants tests that each mutant survives if and only if it has a reason.
func testMutants(t *testing.T, tg target, names map[int]string,
	test func(t *testing.T, n int, limit time.Duration) (end, []byte)) {
	t.Helper()
	began := time.Now()
	if got, out := test(t, 0, testLimit); got != survived {
		t.Fatalf("the tests fail without a change:\n%s", out)
	}
	limit := 10*time.Second + limitFactor*time.Since(began)
	missing := make(map[string]bool)
	for name := range reasons[tg.file] {
		missing[name] = true
	}
	var ends [3]atomic.Int64
	t.Run("mutants", func(t *testing.T) {
		for n, name := range names {
			delete(missing, name)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				reason := reasons[tg.file][name]
				got, _ := test(t, n, limit)
				ends[got].Add(1)
				t.Log([...]string{survived: "survives", killed: "killed", hung: "its tests do not end"}[got])
				if alive := got == survived; alive != (reason != "") {
					t.Errorf("%s: %s: survives: %t; the reason is %q", tg.file, name, alive, reason)
				}
			})
		}
	})
	for name := range missing {
		t.Errorf("there is no mutant %q: delete its reason", name)
	}
	t.Logf("%s: %d mutants, %d killed, of which the tests of %d do not end, %d survive",
		tg.file, len(names), ends[killed].Load()+ends[hung].Load(), ends[hung].Load(), ends[survived].Load())
}

// run runs the tests with the mutant that the variable selects. It returns what those that fail print.
func run(t *testing.T, tg target, bins []string, selected string, limit time.Duration) (end, []byte) {
	t.Helper()
	for i, bin := range bins {
		cmd := exec.Command(bin, "-test.run="+tg.run, "-test.failfast", "-test.timeout="+limit.String())
		if !tg.plain {
			cmd.Args = append(cmd.Args, "-rapid.shrinktime=1ns", "-rapid.nofailfile")
		}
		cmd.Dir = filepath.Join("../../..", tg.pkgs[i])
		cmd.Env = append(os.Environ(), variable+"="+selected)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		switch {
		case err != nil && !errors.As(err, &exit):
			t.Fatal(err)
		case bytes.Contains(out, []byte("panic: test timed out")):
			return hung, out
		case err != nil:
			return killed, out
		case bytes.Contains(out, []byte("no tests to run")):
			t.Fatalf("%s: %s", tg.pkgs[i], out)
		}
	}
	return survived, nil
}
