// Package command defines a verb of the tool: its flags, its help, its streams and its errors.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// Verb is a subcommand of the tool.
type Verb struct {
	Name  string
	Short string // for the list of verbs
	// Help is the page of help. The descriptions of the flags follow its line "flags:".
	Help string
	// Flags declares the verb's flags and returns the action to run after they are parsed.
	Flags func(fs *flag.FlagSet) Action
}

// Action runs a verb with its non-flag arguments. Its error is a *UsageError, ErrReported or any other error.
type Action func(ctx context.Context, s Streams, args []string) error

// ErrReported means that the verb failed and has already reported why.
var ErrReported = errors.New("reported")

// UsageError means that the command line is not valid.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef returns a UsageError with a message.
func Usagef(format string, args ...any) error { return &UsageError{Err: fmt.Errorf(format, args...)} }

// Unexpected returns the usage error of a verb that takes no arguments and has some.
func Unexpected(args []string) error { return Usagef("unexpected argument %q", args[0]) }

// Streams are the standard streams of the process.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Sayf writes to the error stream. A failure to write is ignored.
func (s Streams) Sayf(format string, args ...any) {
	_, _ = fmt.Fprint(s.Err, term.FoldFor(s.Err, fmt.Sprintf(format, args...)))
}

// JSON writes a value to the output.
func (s Streams) JSON(v any, indent string) error {
	out, err := term.JSON(v, indent)
	if err != nil {
		return err
	}
	_, err = s.Out.Write(out)
	return err
}

// Page returns the verb's page of help.
func (v *Verb) Page() string {
	const heading = "\nflags:\n"
	before, after, _ := strings.Cut(v.Help, heading)
	fs := flag.NewFlagSet(v.Name, flag.ContinueOnError)
	v.Flags(fs)
	var b strings.Builder
	b.WriteString(before + heading)
	fs.VisitAll(func(f *flag.Flag) { b.WriteString(flagHelp(f)) })
	b.WriteString(after)
	return b.String()
}

func flagHelp(f *flag.Flag) string {
	value, usage := flag.UnquoteUsage(f)
	line := "  --" + f.Name
	if value != "" {
		line += " " + value
	}
	if !slices.Contains([]string{"", "false", "0", "0s"}, f.DefValue) { // zero values
		usage += " (default " + f.DefValue + ")"
	}
	return line + "\n        " + strings.ReplaceAll(usage, "\n", "\n        ") + "\n"
}
