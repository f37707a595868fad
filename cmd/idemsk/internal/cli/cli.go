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

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // what was asked for could not be done, or a ledger is off
	exitUsage  = 2
)

// Streams are a process's own.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// sayf writes to the error stream; if that fails there is nobody to tell.
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

// verb is one thing that the tool can do.
type verb struct {
	name     string
	args     string // after the flags, for help
	short    string
	about    string
	examples []string
	// flags declares the verb's flags, and returns what to do when they are parsed.
	flags func(fs *flag.FlagSet) action
}

// action does what a verb is for, with the arguments that are no flags. Its error is a usageError, errReported, or any other.
type action func(ctx context.Context, s Streams, args []string) error

// verbs are all there are.
func verbs() []verb {
	return []verb{
		localVerb(), getVerb(), listVerb(), reconcileVerb(), redriveVerb(), topicVerb(), produceVerb(),
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

// errReported says that the verb failed and has said so already.
var errReported = errors.New("reported")

// usageError is a command line that makes no sense.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// Main runs the tool with its arguments, the program's name not among them, and returns its exit code.
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

// exit says what went wrong, if anything did.
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

// parse reads flags, which may stand before, between and behind the other arguments; what follows "--" is none.
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
		// The flag package takes a "--" for itself.
		if n := len(before) - len(args); before[n-1] == "--" {
			return append(rest, args...), nil
		}
	}
	return rest, nil
}
