package redrive

import (
	"context"
	_ "embed" // help.txt
	"errors"
	"flag"
	"fmt"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

//go:embed help.txt
var help string

// Verb returns the verb redrive.
func Verb() command.Verb {
	return command.Verb{
		Name: "redrive", Short: "sends dead letters back to their topic, their queue or the function", Help: help,
		Flags: func(fs *flag.FlagSet) command.Action {
			var r invocation
			r.declare(fs)
			return r.run
		},
	}
}

// invocation is a run of the verb with its flags.
type invocation struct {
	Flags
	yes, json bool
}

func (r *invocation) declare(fs *flag.FlagSet) {
	r.Declare(fs)
	r.DeclareLetters(fs)
	fs.StringVar(&r.Bucket, "bucket", "",
		"AWS's on-failure records in the S3 bucket at `s3://BUCKET/PREFIX` instead")
	fs.StringVar(&r.File, "file", "", "a `FILE` of dead letters instead, one JSON document a line")
	fs.StringVar(&r.Skip, "skip-lines", "",
		"the `LINES` of --file that are done, such as 1-120,125: a run that does not come to its end names "+
			"them")
	fs.StringVar(&r.Options.Key, "key", "",
		"only letters of this idempotency `KEY`, as in the record or as stored; of other programs, of this "+
			"Kafka key")
	fs.IntVar(&r.Options.Limit, "limit", 0, "at most `N` letters")
	fs.Func("rate", "at most `N/s` letters a second, such as 50/s", func(text string) (err error) {
		r.Options.Rate, err = parseRate(text)
		return err
	})
	fs.BoolVar(&r.Options.DryRun, "dry-run", false,
		"show what would be redriven, with its value and headers, without redriving or deleting it; "+
			"with --key the value and the headers are not shortened")
	fs.BoolVar(&r.Options.Discard, "discard", false,
		"take the letters of --key out of the queue, the topic or the bucket, and send them nowhere")
	fs.BoolVar(&r.yes, "yes", false, "don't ask for confirmation")
	fs.BoolVar(&r.json, "json", false, "print each result as a line of JSON")
}

func (r *invocation) check(args []string, s command.Streams) error {
	switch {
	case len(args) > 0:
		return command.Unexpected(args)
	case r.Where() == "" || r.Where() != r.QueueURL+r.Topic+r.Bucket+r.File:
		return command.Usagef(
			"want one of --queue-url, --dead-letter-topic, --bucket and --file as the source of letters")
	case r.Skip != "" && r.File == "":
		return command.Usagef("--skip-lines needs --file")
	}
	if _, err := parseLines(r.Skip); err != nil {
		return command.Usagef("--skip-lines: %w", err)
	}
	if _, _, err := splitBucket(r.Bucket); r.Bucket != "" && err != nil {
		return &command.UsageError{Err: err}
	}
	if err := r.CheckLetters(); err != nil {
		return err
	}
	switch {
	case r.Options.Discard && (r.Options.Key == "" || r.File != ""):
		return command.Usagef("--discard needs --key, and a queue, a topic or a bucket as the source of letters")
	case r.Brokers == "" && r.Function == "" && r.Bucket != "" && !r.Options.DryRun && !r.Options.Discard:
		return command.Usagef("want --brokers or --function-name as the destination of records")
	case r.Options.Limit < 0:
		return command.Usagef("--limit is %d: want 1 or more, or 0 for no limit", r.Options.Limit)
	case !r.yes && !r.Options.DryRun && !term.IsTerminal(s.In):
		return command.Usagef("standard input is not a terminal: give --yes, or --dry-run")
	}
	return nil
}

func (r *invocation) run(ctx context.Context, s command.Streams, args []string) error {
	if err := r.check(args, s); err != nil {
		return err
	}
	closeAll, err := r.Open(ctx, s)
	if err != nil {
		return flags.ExplainAWS(err)
	}
	defer closeAll()
	if !r.yes && !r.Options.DryRun {
		question := fmt.Sprintf("Redrive the dead letters in %s to %s?%s", r.Where(), r.Options.Destination,
			r.marks())
		if r.Options.Discard {
			question = fmt.Sprintf("Discard the dead letters of the key %s in %s? Their records are not handled any more.",
				term.Escape(r.Options.Key), r.Where())
		}
		if ok, err := command.Confirm(ctx, s, question); !ok || err != nil {
			s.Sayf("idemsk redrive: nothing was done\n")
			return errors.Join(err, r.Options.Source.Close(ctx))
		}
	}
	r.Options.Show = r.Options.DryRun
	out := output{streams: s, json: r.json, dry: r.Options.DryRun, meter: newMeter(s, r.json),
		whole: r.Options.DryRun && r.Options.Key != ""}
	passed, err := Run(ctx, r.Options, out.add)
	err = out.finish(passed, flags.ExplainAWS(err))
	r.sayRest(s)
	return err
}

// sayRest says how to go on with a file that was redriven in part, and what a queue may still have.
func (r *invocation) sayRest(s command.Streams) {
	switch source := r.Options.Source.(type) {
	case *file:
		if source.redriven && !source.ended() {
			s.Sayf("idemsk redrive: the lines %s of %s are done. To go on with the others: --skip-lines %[1]s\n",
				linesText(&source.done), term.Escape(r.File))
		}
	case *queue:
		if source.mayHaveMore() {
			s.Sayf("idemsk redrive: the queue is FIFO: ten letters of a partition that stay hold back those behind them, which were not read\n")
		}
	}
}

// marks says what a redrive changes in the source.
func (r *invocation) marks() string {
	switch {
	case r.QueueURL != "":
		return " Each is deleted from the queue when it has been redriven."
	case r.Topic != "":
		return " Each is marked in the consumer group " + Group(r.Topic) + " when it has been redriven."
	case r.Bucket != "":
		return " Each object is deleted when its records have been redriven."
	}
	return ""
}
