package doctest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/not-run.txt anew")

// Each block has a language, each mark is known, and the shell can parse each command.
func TestForm(t *testing.T) {
	t.Parallel()
	for _, d := range documents(t) {
		for _, err := range d.errs {
			t.Error(err)
		}
	}
}

// The list of blocks that are not run must match the documents, so that changes are reviewed.
func TestNotRun(t *testing.T) {
	t.Parallel()
	var list strings.Builder
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			for _, c := range b.commands {
				if b.reason != "" {
					fmt.Fprintf(&list, "%s: %s: %s\n", d.name, b.reason,
						strings.ReplaceAll(c.text, "\n", " "))
				}
			}
		}
	}
	const path = "testdata/not-run.txt"
	if *update {
		if err := os.WriteFile(path, []byte(list.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || list.String() != string(want) {
		t.Errorf("%v: not as in %s (go test ./internal/test/doctest -update writes it anew):\n%s", err, path,
			&list)
	}
}

// Commands that the documents leave to CI are commands that CI runs.
func TestCIRunsTheCommandsLeftToIt(t *testing.T) {
	t.Parallel()
	ci, err := os.ReadFile(filepath.Join(root, ".ci/run"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			for _, c := range b.commands {
				target := regexp.MustCompile(`^make [a-z-]+`).FindString(c.text)
				if b.reason == leftToCI &&
					(target == "" || !slices.Contains(strings.Split(string(ci), "\n"), target)) {
					t.Errorf("%s:%d: .ci/run does not run %s", d.name, c.line, c.text)
				}
			}
		}
	}
}

// make prove runs all that docs/proof.md says how to run. make trace has the rules of each store.
func TestProveRunsEachMethod(t *testing.T) {
	t.Parallel()
	prove, err := os.ReadFile(filepath.Join(root, "scripts/prove.sh"))
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile("`((?:make [a-z-]+|scripts/[a-z-]+\\.sh|go test [^`]+))[^`]*`")
	proof := documents(t)[slices.IndexFunc(documents(t),
		func(d document) bool { return d.name == "docs/proof.md" })]
	for _, m := range commands.FindAllStringSubmatch(strings.Join(proof.lines, "\n"), -1) {
		words := regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(m[1]), " ", `( | .* )`) + `( |\n|")`)
		if !words.Match(prove) && !slices.Contains([]string{"make test", "make prove"}, m[1]) {
			t.Errorf("%s: scripts/prove.sh does not run %s", proof.name, m[1])
		}
	}
}

// The verbs, flags, make targets, scripts and tests that the documents name exist, also those in sentences
// and in blocks that are not run.
func TestNames(t *testing.T) {
	t.Parallel()
	n := newNames(t)
	span := regexp.MustCompile("`([^`]+)`")
	for _, d := range documents(t) {
		for i, line := range d.lines {
			for _, m := range span.FindAllStringSubmatch(line, -1) {
				if err := n.check(m[1]); err != nil {
					t.Errorf("%s:%d: `%s`: %v", d.name, i+1, m[1], err)
				}
			}
		}
		for _, b := range d.blocks {
			for _, c := range b.commands {
				if err := n.check(c.text); err != nil {
					t.Errorf("%s:%d: %s: %v", d.name, c.line, c.text, err)
				}
			}
		}
	}
}

// names are the existing names.
type names struct {
	verbs   map[string]string // with their pages of help
	targets []string
	tests   map[string]bool
}

func newNames(t *testing.T) names {
	t.Helper()
	n := names{verbs: map[string]string{"help": "", "version": ""}}
	pages, err := filepath.Glob(filepath.Join(root, "cmd/idemsk/internal/cli/testdata/help-*.txt"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages of help: %v", err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		n.verbs[strings.TrimSuffix(strings.TrimPrefix(filepath.Base(page), "help-"), ".txt")] = string(text)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z -]*):(?: |$)`).FindAllStringSubmatch(
		string(makefile), -1) {
		n.targets = append(n.targets, strings.Fields(m[1])...)
	}
	n.tests = namesOfTests(t)
	return n
}

// namesOfTests returns the names of all tests, fuzz tests and benchmarks, as git has their files.
func namesOfTests(t *testing.T) map[string]bool {
	t.Helper()
	grep := exec.CommandContext(t.Context(), "git", "grep", "-hoE",
		`^func (Test|Fuzz|Benchmark)[A-Za-z0-9_]+`, "--", "*_test.go")
	grep.Dir = root
	out, err := grep.Output()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		all[strings.TrimSpace(strings.TrimPrefix(line, "func "))] = true
	}
	return all
}

var (
	tool   = regexp.MustCompile(`(?:^|[\s("'])(?:bin/)?idemsk ([a-z]+)([^|;&#]*)`)
	target = regexp.MustCompile(`(?:^|[\s(])make ([a-z-]+)`)
	script = regexp.MustCompile(`(?:^|[\s(])((?:scripts|localstack)/[a-z-]+(?:\.sh|/))`)
	option = regexp.MustCompile(`\s--([a-z-]+)`)
	test   = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*`)
)

// check returns an error if a text contains a name that does not exist.
func (n *names) check(text string) error {
	for _, m := range tool.FindAllStringSubmatch(text, -1) {
		page, ok := n.verbs[m[1]]
		if !ok {
			return fmt.Errorf("idemsk has no verb %s", m[1])
		}
		for _, o := range option.FindAllStringSubmatch(m[2], -1) {
			if !strings.Contains(page, "\n  --"+o[1]+" ") && !strings.Contains(page, "\n  --"+o[1]+"\n") {
				return fmt.Errorf("idemsk %s has no --%s", m[1], o[1])
			}
		}
	}
	for _, m := range target.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(n.targets, m[1]) {
			return fmt.Errorf("the Makefile has no target %s", m[1])
		}
	}
	for _, m := range script.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			return err
		}
	}
	for _, name := range test.FindAllString(text, -1) {
		if !n.hasTest(name, strings.Contains(text, "-run")) {
			return fmt.Errorf("no test has the name %s", name)
		}
	}
	return nil
}

// hasTest reports whether there is a test with a name, or one that go test -run finds by it.
func (n *names) hasTest(name string, prefix bool) bool {
	if n.tests[name] {
		return true
	}
	for t := range n.tests {
		if prefix && strings.HasPrefix(t, name) {
			return true
		}
	}
	return false
}

func TestUnknownNamesAreErrors(t *testing.T) {
	t.Parallel()
	n := newNames(t)
	for text, says := range map[string]string{
		"bin/idemsk lst": "no verb lst", "FOO=1 idemsk list --nowhere x": "has no --nowhere",
		"idemsk list | idemsk get --produce 1": "idemsk get has no --produce",
		"make nothing X=1":                     "no target nothing", "scripts/nowhere.sh run": "nowhere.sh",
		"TestNothingAtAll": "no test",
	} {
		if err := n.check(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want an error that says %s", text, err, says)
		}
	}
	for _, text := range []string{"idemsk list --status FAILED # and --nothing", "make run SEED=7",
		"idemsk help local", "aws s3 --nowhere", "scripts/kafka.sh run 9092"} {
		if err := n.check(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// An error in a document names the document and the line.
func TestInvalidDocumentsAreErrors(t *testing.T) {
	t.Parallel()
	for says, text := range map[string]string{
		"d.md:2: the block has no language":           "x\n```\ny\n```\n",
		"d.md:3: an indented block":                   "x\n\n    make run\n",
		"d.md:3: a command in a block of text":        "x\n```text\nmake run\n```\n",
		`d.md:2: the mark "*It is late:*" is none`:    "*It is late:*\n```sh\nmake run\n```\n",
		`d.md:2: the mark "*It takes minutes.*"`:      "*It takes minutes.*\n```sh\nmake run\n```\n",
		"d.md:3: the mark \"*In a terminal\" is none": "*In a terminal\n\n```sh\nmake run\n```\n",
		"d.md:5: only the first block of commands":    "```sh\na\n```\n*In an empty folder:*\n```sh\nb\n```\n",
		"d.md:2: the mark \"*In an empty\" is none":   "*In an empty\n```sh\na\n```\n",
		"d.md:2: the block is marked, and has no":     "*In a terminal of its own:*\n```go\nx\n```\n",
		"d.md:2: a block with a terminal of its own":  "*In a terminal of its own:*\n```sh\na\nb\n```\n",
		"d.md:2: the shell does not take this":        "```sh\nif true\n```\n",
		"d.md:2: a line of output before the first":   "```console\nx\n```\n",
		"d.md:1: a block of sh without a command":     "```sh\n# nothing\n```\n",
		"d.md:1: the block is not closed":             "```sh\nmake run\n",
	} {
		d := parse("d.md", text)
		if len(d.errs) == 0 || !strings.Contains(fmt.Sprint(d.errs), says) {
			t.Errorf("%q: %v; want an error that says %s", text, d.errs, says)
		}
	}
}

func TestCommandsOfABlock(t *testing.T) {
	t.Parallel()
	d := parse("d.md", "*In a terminal of its own:*\n\n```console\n$ cat <<E \\\n  >x\na\nE\n```\n\ntext\n```sh\n# first\na \\\n  b   # c\n\nfor x in 1; do\n  echo \"$x\"\ndone\n```\n")
	want := [][]command{
		{{line: 4, text: "cat <<E \\\n  >x\na\nE", output: []string{}}},
		{{line: 13, text: "a \\\n  b   # c"}, {line: 16, text: "for x in 1; do\n  echo \"$x\"\ndone"}},
	}
	if len(d.errs) > 0 || len(d.blocks) != len(want) || !d.blocks[0].terminal || d.blocks[1].terminal {
		t.Fatalf("%v, %+v", d.errs, d.blocks)
	}
	for i, b := range d.blocks {
		if !reflect.DeepEqual(b.commands, want[i]) {
			t.Errorf("%+v; want %+v", b.commands, want[i])
		}
	}
}
