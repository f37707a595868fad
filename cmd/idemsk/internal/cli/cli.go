// Package cli is the command line of idemsk: verbs, flags, help and exit codes.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the verb failed, or a ledger is wrong
	exitUsage  = 2
)

// Streams are the standard streams of the process.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// sayf writes to the error stream. A failure to write is ignored.
func (s Streams) sayf(format string, args ...any) {
	_, _ = fmt.Fprint(s.Err, term.FoldFor(s.Err, fmt.Sprintf(format, args...)))
}

// print writes a text to the output, and returns the exit code.
func (s Streams) print(text string) int {
	if _, err := io.WriteString(s.Out, term.FoldFor(s.Out, text)); err != nil {
		s.sayf("idemsk: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// verb is a subcommand of the tool.
type verb struct {
	name     string
	args     string // after the flags, for help
	short    string
	about    string
	examples []string
	// flags declares the verb's flags and returns the action to run after they are parsed.
	flags func(fs *flag.FlagSet) action
}

// action runs a verb with its non-flag arguments. Its error is a usageError, errReported or any other error.
type action func(ctx context.Context, s Streams, args []string) error

// verbs returns all verbs.
func verbs() []verb {
	return []verb{
		localVerb(), consoleVerb(), getVerb(), listVerb(), reconcileVerb(), redriveVerb(), topicVerb(), produceVerb(),
		migrateVerb(), pruneVerb(), relayVerb(), outboxVerb(),
	}
}

func findVerb(name string) (verb, bool) {
	for _, v := range verbs() {
		if v.name == name {
			return v, true
		}
	}
	return verb{}, false
}

// errReported means that the verb failed and has already reported why.
var errReported = errors.New("reported")

// usageError means that the command line is not valid.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// Main runs the tool with args, which exclude the program's name, and returns the exit code.
func Main(ctx context.Context, args []string, s Streams, version string) int {
	if len(args) == 0 {
		s.sayf("%s", overview())
		return exitUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return help(args[1:], s)
	case "version", "-version", "--version":
		return s.print("idemsk " + version + "\n")
	}
	v, ok := findVerb(args[0])
	if !ok {
		s.sayf("idemsk: there is no verb %s: see idemsk help\n", term.Escape(args[0]))
		return exitUsage
	}
	return v.main(ctx, args[1:], s)
}

func (v verb) main(ctx context.Context, args []string, s Streams) int {
	fs := flag.NewFlagSet(v.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	run := v.flags(fs)
	rest, err := parse(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		return s.print(v.help())
	}
	if err != nil {
		err = &usageError{err}
	} else {
		err = run(ctx, s, rest)
	}
	return v.exit(ctx, err, s)
}

// exit prints the error, if there is one, and returns the exit code.
func (v verb) exit(ctx context.Context, err error, s Streams) int {
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitFailed
	case errors.As(err, &usage):
		line := strings.ReplaceAll(err.Error(), "\n", "; ")
		s.sayf("idemsk %s: %s (see idemsk help %s)\n", v.name, term.Escape(line), v.name)
		return exitUsage
	case ctx.Err() != nil:
		s.sayf("idemsk %s: interrupted\n", v.name)
		return exitFailed
	}
	s.sayf("idemsk %s: %s\n", v.name, term.EscapeLines(err.Error()))
	return exitFailed
}

// parse reads flags, which may be before, between and after the other arguments. Arguments after "--" are not flags.
func parse(fs *flag.FlagSet, args []string) (rest []string, err error) {
	for len(args) > 0 {
		if args[0] == "--" {
			return append(rest, args[1:]...), nil
		}
		if !strings.HasPrefix(args[0], "-") || args[0] == "-" {
			rest, args = append(rest, args[0]), args[1:]
			continue
		}
		before := args
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		args = fs.Args()
		// The flag package consumes a "--".
		if n := len(before) - len(args); before[n-1] == "--" {
			return append(rest, args...), nil
		}
	}
	return rest, nil
}
