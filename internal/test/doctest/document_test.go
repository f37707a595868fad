// Package doctest runs the commands that the documents show, as they are written, and holds what they say of
// the tool.
//
// A block of a document is fenced and has a language. In sh and console blocks there are commands, which run
// one after another in a shell of the document's own, from the root of the clone. A console block also shows
// their output (see match). A block of any other language has no commands. A line directly above a block of
// commands can mark it:
//
//	*It needs an AWS account:*          the block is not run, for one of the reasons below; testdata/not-run.txt lists these blocks
//	*In a terminal of its own:*         the block is started, runs beside those that follow, and is interrupted at the document's end
//	*In an empty folder:*               above the first block: all commands run in an empty folder, as those of a stranger,
//	                                    who has no clone, and finds the release that the changelog begins with
package doctest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

// reasons are the valid reasons for not running a block of commands. CI runs those of the reason leftToCI.
var reasons = []string{
	"It needs an AWS account", "It needs servers of yours", leftToCI, "It takes minutes, on a quiet machine",
}

const leftToCI = "It takes minutes"

var (
	italic      = regexp.MustCompile(`^\*[^* ][^*]*\*?$`) // or what is meant to be one
	ownTerminal = "*In a terminal of its own:*"
	emptyFolder = "*In an empty folder:*"
	fence       = regexp.MustCompile("^ *```(.*)$")
)

// document is a Markdown file.
type document struct {
	name        string // from the root
	lines       []string
	blocks      []block
	emptyFolder bool    // its commands run there, not in the clone
	errs        []error // what is wrong with its form
}

// block is a fenced block.
type block struct {
	line     int // of its fence, from 1
	language string
	reason   string // why it is not run; "" if it is
	terminal bool   // it has a terminal of its own
	lines    []string
	commands []command
}

// command is a command of a block, which may take several lines, and the output that the document shows.
type command struct {
	line   int
	text   string
	output []string // nil in a block of sh
}

func (b *block) hasCommands() bool { return b.language == "sh" || b.language == "console" }

// documents reads all documents of the repository, the README and the quick start first.
func documents(t *testing.T) []document {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-co", "--exclude-standard",
		"*.md").Output()
	if err != nil {
		t.Fatalf("listing the documents: %v", err)
	}
	first := []string{"README.md", "docs/quickstart.md"}
	names := slices.DeleteFunc(strings.Fields(string(out)),
		func(name string) bool { return slices.Contains(first, name) })
	slices.Sort(names)
	var all []document
	for _, name := range slices.Concat(first, names) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parse(name, string(text)))
	}
	return all
}

// parse finds the blocks of a document.
func parse(name, text string) document {
	d := document{name: name, lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	var open *block
	above, blank, list := "", true, false
	for i, line := range d.lines {
		m := fence.FindStringSubmatch(line)
		switch {
		case open != nil && m != nil:
			d.close(open)
			open, above = nil, ""
		case open != nil:
			open.lines = append(open.lines, line)
		case m != nil:
			open = d.open(i+1, m[1], above)
		case strings.TrimSpace(line) == "":
			blank = true
			continue
		case blank && !list && (strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")):
			d.failf(i+1, "an indented block: fence it, and name its language")
		default:
			above = line
			list = strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ") || list &&
				strings.HasPrefix(line, " ")
		}
		blank = false
	}
	if open != nil {
		d.failf(open.line, "the block is not closed")
	}
	return d
}

func (d *document) failf(line int, format string, args ...any) {
	d.errs = append(d.errs, fmt.Errorf("%s:%d: %w", d.name, line, fmt.Errorf(format, args...)))
}

func (d *document) open(line int, language, above string) *block {
	b := &block{line: line, language: language, terminal: above == ownTerminal}
	if reason := strings.TrimSuffix(strings.TrimPrefix(above, "*"), ":*"); slices.Contains(reasons, reason) {
		b.reason = reason
	}
	first := !slices.ContainsFunc(d.blocks, func(b block) bool { return b.hasCommands() })
	d.emptyFolder = d.emptyFolder || above == emptyFolder
	switch {
	case language == "":
		d.failf(line, "the block has no language: name one (sh and console are commands, text is neither commands nor code)")
	case above == emptyFolder && !first:
		d.failf(line, "only the first block of commands has the mark %s", emptyFolder)
	case !b.hasCommands() && (b.reason != "" || b.terminal || above == emptyFolder):
		d.failf(line, "the block is marked, and has no commands: its language is %s", language)
	case italic.MatchString(above) && b.reason == "" && !b.terminal && above != emptyFolder:
		d.failf(line, "the mark %q is none: want %s, %s or *REASON:* with one of the reasons %q", above, ownTerminal,
			emptyFolder, reasons)
	}
	return b
}

// looksLikeACommand reports whether a line of a block in another language looks like a command.
var looksLikeACommand = regexp.MustCompile(
	`^\s*(\$ |(?:bin/)?idemsk |make |scripts/[a-z-]+\.sh|localstack/localstack\.sh|go (?:run|test|build) |aws |npx |cdk |curl |docker )`)

func (d *document) close(b *block) {
	switch b.language {
	case "sh":
		b.commands = d.shCommands(b)
	case "console":
		b.commands = d.consoleCommands(b)
	default:
		for i, line := range b.lines {
			if b.language != "" && looksLikeACommand.MatchString(line) {
				d.failf(b.line+1+i, "a command in a block of %s, where nothing runs it", b.language)
			}
		}
	}
	if b.hasCommands() && len(b.commands) == 0 {
		d.failf(b.line, "a block of %s without a command", b.language)
	}
	if b.terminal && len(b.commands) > 1 {
		d.failf(b.line, "a block with a terminal of its own has one command, which goes on")
	}
	d.blocks = append(d.blocks, *b)
}

// shCommands returns the commands of a block of sh. A command takes as many lines as the shell needs for it.
func (d *document) shCommands(b *block) (all []command) {
	var text []string
	begun := 0
	for i, line := range b.lines {
		if len(text) == 0 && (strings.TrimSpace(line) == "" ||
			strings.HasPrefix(strings.TrimSpace(line), "#")) {
			continue
		}
		if len(text) == 0 {
			begun = b.line + 1 + i
		}
		text = append(text, line)
		if joined := strings.Join(text, "\n"); complete(joined) {
			all, text = append(all, command{line: begun, text: joined}), nil
		}
	}
	if len(text) > 0 {
		d.failf(begun, "the shell does not take this for a command: %s", text[0])
	}
	return all
}

// consoleCommands returns the commands after "$ ", each with the lines below it.
func (d *document) consoleCommands(b *block) (all []command) {
	for i, line := range b.lines {
		text, isCommand := strings.CutPrefix(line, "$ ")
		last := len(all) - 1
		switch {
		case isCommand:
			all = append(all, command{line: b.line + 1 + i, text: text, output: []string{}})
		case last < 0:
			d.failf(b.line+1+i, "a line of output before the first command: a command begins with $ and a blank")
		case len(all[last].output) == 0 && !complete(all[last].text):
			all[last].text += "\n" + line
		default:
			all[last].output = append(all[last].output, line)
		}
	}
	for _, c := range all {
		if !complete(c.text) {
			d.failf(c.line, "the shell does not take this for a command: %s", c.text)
		}
	}
	return all
}

// complete reports whether a text is a list of complete commands. The shell only warns of an unclosed
// here-document.
func complete(text string) bool {
	check := exec.Command("bash", "-n")
	check.Stdin = strings.NewReader(text + "\n")
	var said bytes.Buffer
	check.Stderr = &said
	return check.Run() == nil && said.Len() == 0 && !strings.HasSuffix(text, `\`)
}
