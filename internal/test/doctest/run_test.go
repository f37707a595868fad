//go:build docs

package doctest

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/test/rehearsal"
)

// TestDocuments runs what the documents show, one document after another: LocalStack, the ports and what is
// built are one machine's. LocalStack must be down, since the documents start and end it; so must whatever
// listens at the ports that they name.
func TestDocuments(t *testing.T) {
	if exec.Command(root+"/localstack/localstack.sh", "status").Run() == nil {
		t.Fatal("LocalStack is up, and the documents start it and end it: make localstack-down")
	}
	t.Cleanup(func() {
		if t.Failed() { // a document that broke off may have left it up
			_ = exec.Command(root+"/localstack/localstack.sh", "down").Run()
		}
	})
	before := changes(t)
	stranger := sync.OnceValue(func() []string { return rehearsal.Make(t, root).Environment(t) })
	for _, d := range documents(t) {
		t.Run(d.name, func(t *testing.T) {
			at := place{dir: root, env: os.Environ()}
			if d.emptyFolder {
				at = place{dir: t.TempDir(), env: stranger()}
			}
			d.run(t, at)
		})
	}
	if after := changes(t); after != before {
		t.Errorf("the commands have changed what git sees:\n%s", after)
	}
}

func changes(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", root, "status", "--porcelain").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// place is where a reader types the commands of a document.
type place struct {
	dir string
	env []string
}

// terminal is a command that keeps running during the following ones.
type terminal struct {
	shell   *shell
	command *command
	after   []string // what is shown behind ^C; nil if nothing is
}

func (d *document) run(t *testing.T, at place) {
	dir, err := os.MkdirTemp("", "doc-") //nolint:usetesting // a short path, for the sockets below it, that another user may read
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL does not run as root, and has its data below it
		t.Fatal(err)
	}
	main := newShell(t, at, dir)
	defer main.close()
	var terminals []terminal
	defer func() {
		for i := len(terminals) - 1; i >= 0; i-- {
			d.end(t, &terminals[i])
		}
	}()
	for i := range d.blocks {
		b := &d.blocks[i]
		switch {
		case b.reason != "":
		case b.terminal:
			s := newShell(t, at, dir)
			terminals = append(terminals, terminal{shell: s, command: &b.commands[0]})
			d.start(t, &terminals[len(terminals)-1])
		default:
			for j := range b.commands {
				d.check(t, main, &b.commands[j])
			}
		}
	}
}

// check runs a command, and compares its output if the document shows it.
func (d *document) check(t *testing.T, s *shell, c *command) {
	t.Helper()
	begun := time.Now()
	lines, err := s.run(c.text)
	if err == nil && c.output != nil {
		_, err = match(c.output, lines)
	}
	if err != nil {
		d.fatal(t, c, err, lines)
	}
	t.Logf("%s:%d: %.1f s: %s", d.name, c.line, time.Since(begun).Seconds(),
		strings.SplitN(c.text, "\n", 2)[0])
}

func (d *document) start(t *testing.T, term *terminal) {
	t.Helper()
	shown := term.command.output
	for i, line := range shown {
		if line == "^C" {
			shown, term.after = shown[:i], shown[i+1:]
			break
		}
	}
	if lines, err := term.shell.start(term.command.text, shown); err != nil {
		d.fatal(t, term.command, err, lines)
	}
}

func (d *document) end(t *testing.T, term *terminal) {
	defer term.shell.close()
	lines, err := term.shell.interrupt()
	if err == nil && term.after != nil {
		_, err = match(term.after, lines)
	}
	if err != nil {
		t.Errorf("%s:%d: $ %s\nafter Ctrl-C: %v\n%s", d.name, term.command.line, term.command.text, err,
			strings.Join(lines, "\n"))
	}
}

// shownLines is the number of output lines that a failure prints.
const shownLines = 40

func (d *document) fatal(t *testing.T, c *command, err error, lines []string) {
	t.Helper()
	lines = lines[max(0, len(lines)-shownLines):]
	t.Fatalf("%s:%d: $ %s\n%v; the end of its output:\n%s", d.name, c.line, c.text, err,
		strings.Join(lines, "\n"))
}
