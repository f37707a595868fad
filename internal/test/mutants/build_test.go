//go:build mutants

package mutants_test

import (
	"fmt"
	"go/ast"
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

// variable selects a mutant in a test program by its number.
const variable = "IDEMSK_MUTANT"

// build builds the test programs of the packages with all mutants of a file in them. It returns the programs
// and the mutants that compile.
func build(t *testing.T, path string, pkgs []string, all map[int]mutant) []string {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for {
		changed, numbers := withAll(string(source), all)
		overlay := testkit.Overlay(t, map[string]string{path: changed,
			filepath.Join(filepath.Dir(path), "mutant.go"): variableOf(string(source))})
		out, err := exec.Command("go", "build", "-gcflags=-e", "-overlay="+overlay,
			filepath.Dir(path)).CombinedOutput()
		if err == nil {
			return programs(t, dir, overlay, pkgs)
		}
		before := len(all)
		for _, m := range regexp.MustCompile(`(?m)^\S+\.go:(\d+):`).FindAllSubmatch(out, -1) {
			line, _ := strconv.Atoi(string(m[1])) // digits
			delete(all, numbers[line])
		}
		if len(all) == before {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

func programs(t *testing.T, dir, overlay string, pkgs []string, flags ...string) []string {
	t.Helper()
	bins := make([]string, len(pkgs))
	for i, pkg := range pkgs {
		bins[i] = filepath.Join(dir, "test"+strconv.Itoa(i))
		cmd := exec.Command("go", slices.Concat(
			[]string{"test", "-c", "-vet=off", "-overlay=" + overlay, "-o", bins[i]}, flags)...)
		cmd.Dir = filepath.Join("../../..", pkg)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return bins
}

// withAll returns the source with every mutant as a function of its own. The original function calls the one
// that is selected. numbers are the mutants by their lines.
func withAll(source string, all map[int]mutant) (changed string, numbers map[int]int) {
	var b strings.Builder
	rest, calls := 0, make(map[*ast.FuncDecl][]int)
	numbers = make(map[int]int)
	order := make([]*ast.FuncDecl, 0, len(all))
	for n := range len(all) + 1<<12 { // in order of their numbers, which have gaps
		if m, ok := all[n]; ok {
			if calls[m.fn] == nil {
				order = append(order, m.fn)
			}
			calls[m.fn] = append(calls[m.fn], n)
		}
	}
	for _, fn := range order {
		b.WriteString(source[rest:fn.Name.End()-1] + "_0" + source[fn.Name.End()-1:fn.End()-1])
		rest = int(fn.End()) - 1
	}
	b.WriteString(source[rest:])
	for _, fn := range order {
		signature := source[fn.Pos()-1 : fn.Body.Pos()-1]
		b.WriteString("\n" + signature + "{ switch mutant {\n")
		for _, n := range calls[fn] {
			fmt.Fprintf(&b, "case %d: %s\n", n, call(fn, n))
		}
		b.WriteString("}\n" + call(fn, 0) + "}\n")
		for _, n := range calls[fn] {
			first := strings.Count(b.String(), "\n") + 1
			fmt.Fprintf(&b, "%s_%d%s\n", source[fn.Pos()-1:fn.Name.End()-1], n, all[n].text)
			for line := first; line <= strings.Count(b.String(), "\n"); line++ {
				numbers[line] = n
			}
		}
	}
	return b.String(), numbers
}

// call calls the mutant n of a function with the function's own arguments.
func call(fn *ast.FuncDecl, n int) string {
	var args []string
	for _, field := range fn.Type.Params.List {
		for _, name := range field.Names {
			arg := name.Name
			if _, ok := field.Type.(*ast.Ellipsis); ok {
				arg += "..."
			}
			args = append(args, arg)
		}
	}
	of := fmt.Sprintf("%s_%d(%s)", fn.Name.Name, n, strings.Join(args, ", "))
	if fn.Recv != nil {
		of = fn.Recv.List[0].Names[0].Name + "." + of
	}
	if fn.Type.Results == nil {
		return of + "; return"
	}
	return "return " + of
}

// variableOf returns the file with the variable mutant of a package.
func variableOf(source string) string {
	return fmt.Sprintf("%s\nimport (\"os\"; \"strconv\")\nvar mutant, _ = strconv.Atoi(os.Getenv(%q))\n",
		packageLine.FindString(source), variable)
}

// readsRawStrings returns a file with constants whose raw strings are read from the file that the variable
// names, and the file with the function that reads them.
func readsRawStrings(source string) (changed, reader string) {
	n := 0
	changed = rawString.ReplaceAllStringFunc(source, func(string) string {
		n++
		return fmt.Sprintf("rawString(%d)", n-1)
	})
	changed = regexp.MustCompile(`(?m)^(\t*)const\b`).ReplaceAllString(changed, "${1}var")
	return changed, fmt.Sprintf(`%s
import ("encoding/json"; "os")
var rawStrings []string
func rawString(n int) string {
	if rawStrings == nil {
		text, err := os.ReadFile(os.Getenv(%q))
		if err == nil { err = json.Unmarshal(text, &rawStrings) }
		if err != nil { panic(err) }
	}
	return rawStrings[n]
}
`, packageLine.FindString(source), variable)
}

var (
	rawString   = regexp.MustCompile("`[^`]*`")
	packageLine = regexp.MustCompile(`(?m)^package \w+$`)
)

// rawStrings returns the raw strings of a file.
func rawStrings(source string) []string {
	all := rawString.FindAllString(source, -1)
	for i := range all {
		all[i] = strings.Trim(all[i], "`")
	}
	return all
}
