// Package cli is the command line of idemsk: the table of verbs, help and exit codes.
package cli

import (
	"context"
	"errors"
	"flag"
	"io"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	local "github.com/idemsk/idemsk/cmd/idemsk/internal/local/verb"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/get"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/list"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/migrate"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/outbox"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/produce"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/prune"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/reconcile"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/relay"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/topic"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/cmd/internal/flagerror"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the verb failed, or a ledger is wrong
	exitUsage  = 2
)

// Streams are the standard streams of the process.
type Streams = command.Streams

// verbs returns all verbs.
func verbs() []command.Verb {
	return []command.Verb{
		local.Verb(), console.Verb(), get.Verb(), get.DeleteVerb(), get.ResolveVerb(), list.Verb(), reconcile.Verb(), redrive.Verb(), topic.Verb(),
		produce.Verb(), migrate.Verb(), prune.Verb(), relay.Verb(), outbox.Verb(),
		completionVerb(),
	}
}

func findVerb(name string) (command.Verb, bool) {
	for _, v := range verbs() {
		if v.Name == name {
			return v, true
		}
	}
	return command.Verb{}, false
}

// refuseVerb prints that there is no verb with a name, and which one was probably meant. It returns the exit
// code.
func refuseVerb(s Streams, name string) int {
	var names []string
	for _, v := range verbs() {
		names = append(names, v.Name)
	}
	s.Sayf("idemsk: there is no verb %s%s (see idemsk help)\n", term.Escape(name),
		flagerror.Meant("", name, names))
	return exitUsage
}

// Main runs the tool with args, which exclude the program's name, and returns the exit code.
func Main(ctx context.Context, args []string, s Streams, version string) int {
	if len(args) == 0 {
		s.Sayf("%s", overview())
		return exitUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return help(args[1:], s, version)
	case "version", "-version", "--version":
		return write(s, "idemsk "+version+"\n")
	}
	v, ok := findVerb(args[0])
	if !ok {
		return refuseVerb(s, args[0])
	}
	return runVerb(ctx, v, args[1:], s, version)
}

func runVerb(ctx context.Context, v command.Verb, args []string, s Streams, version string) int {
	fs := flag.NewFlagSet(v.Name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	run := v.Flags(fs)
	rest, err := parse(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		return write(s, page(&v, version))
	}
	if err != nil {
		err = &command.UsageError{Err: flagerror.Explain(fs, err)}
	} else {
		if v.Name != local.Name { // it names the variables that its function does not get
			warnOfMisspelt(s)
		}
		err = run(ctx, s, rest)
	}
	return exit(ctx, v.Name, err, s)
}

// exit prints the error, if there is one, and returns the exit code.
func exit(ctx context.Context, verb string, err error, s Streams) int {
	var usage *command.UsageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, command.ErrReported):
		return exitFailed
	case errors.As(err, &usage):
		line := strings.ReplaceAll(err.Error(), "\n", "; ")
		s.Sayf("idemsk %s: %s (see idemsk help %s)\n", verb, term.Escape(line), verb)
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		s.Sayf("idemsk %s: interrupted\n", verb)
		return exitFailed
	}
	s.Sayf("idemsk %s: %s\n", verb, term.EscapeLines(err.Error()))
	return exitFailed
}

// write writes a text to the output, and returns the exit code.
func write(s Streams, text string) int {
	if _, err := io.WriteString(s.Out, term.FoldFor(s.Out, text)); err != nil {
		s.Sayf("idemsk: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// parse reads flags, which may be before, between and after the other arguments. Arguments after "--" are not
// flags.
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
