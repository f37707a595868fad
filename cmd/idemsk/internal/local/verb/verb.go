// Package verb is the verb local: its flags, the options that follow from them, and what it prints.
package verb

import (
	"cmp"
	"context"
	_ "embed" // help.txt
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

//go:embed help.txt
var help string

// Name is the name of the verb.
const Name = "local"

// Verb returns the verb local.
func Verb() command.Verb {
	return command.Verb{
		Name: Name, Help: help,
		Short: "invokes a function with the records of a Kafka topic on this machine, as MSK does",
		Flags: func(fs *flag.FlagSet) command.Action {
			var l invocation
			l.declare(fs)
			return l.run
		},
	}
}

// invocation is a run of the verb with its flags.
type invocation struct {
	flags.AWS
	flags.Kafka
	opt        local.Options
	events     string // --events
	topic      string
	age        time.Duration
	responses  string
	filter     string
	format     string // of the records after their validation
	validation string
	logFile    string
	onLetters  bool            // --fail-on-dead-letters
	ui         string          // --ui
	layer      bool            // --layer
	deployed   bool            // --from-localstack
	serving    string          // describes that mapping
	given      func() []string // names of the flags set on the command line
}

func (l *invocation) run(ctx context.Context, s command.Streams, args []string) (err error) {
	if len(args) > 0 {
		return command.Unexpected(args)
	}
	if err := l.resolve(ctx); err != nil {
		return err
	}
	log, err := openLog(l.logFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close(err, s)) }()
	l.opt.Log = log
	toggle := make(chan os.Signal, 1)
	signal.Notify(toggle, syscall.SIGUSR1)
	defer signal.Stop(toggle)
	l.opt.Toggle = toggle
	cut, stop := secondSignal(ctx)
	defer stop()
	l.opt.Cut = cut
	screen := &screen{s: s}
	l.opt.Show = screen.show
	before := sync.OnceFunc(func() { l.introduce(screen, log) })
	l.opt.Say = func(line string) { // the options are valid
		before()
		screen.say(line)
	}
	report, err := local.Run(ctx, l.opt)
	switch {
	case errors.Is(err, local.ErrOptions), errors.Is(err, esm.ErrConfig):
		return &command.UsageError{Err: err}
	case report == nil:
		return err
	}
	if _, failed := fmt.Fprint(s.Out, term.FoldFor(s.Out, report.Text())); err != nil || failed != nil {
		return cmp.Or(err, failed)
	}
	if err := keepLetters(s, report, ctx.Err() != nil); err != nil {
		return err
	}
	if n := report.OwnFailures(); n > 0 {
		log.keep = term.Plural(n, "invocation failed by itself", "invocations failed by themselves")
	}
	if l.failsOnLetters() && report.Unexpected > 0 {
		s.Sayf("%s: the run has failed (--fail-on-dead-letters).\n",
			term.Plural(report.Unexpected, "unexpected dead letter", "unexpected dead letters"))
		return command.ErrReported
	}
	if report.Verified != nil && !report.Verified.OK() || l.opt.UntilDrained && report.Gone() > 0 {
		return command.ErrReported
	}
	return nil
}
