package cli

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/redrive"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

func redriveVerb() verb {
	return verb{
		name: "redrive", args: "", short: "brings dead letters back to their topic or to the function",
		about: `
Brings dead letters back, when what made them fail is mended: to the topic and partition that they came from (--brokers), or
straight to the function (--function-name), as an event with that one record at its old place. Letters come from an SQS queue
(--queue-url), and are deleted from it when they have been redriven; or from a file with one on each line (--file), which
stays as it is. Every record gets the header idemsk-redrive, by which its FAILED key lets it in again.

A queue may be shared. Only letters of the function that is invoked are redriven, and only those of one cluster in a run, as
another function or cluster has another record at the same place: see --of-function and --of-cluster. The others stay.

A letter that is too large to hold its value is read back from Kafka, for which --brokers is needed also with --function-name.
What is no dead letter of idemsk stays where it is, and is named. What stays becomes visible again at the end; its receive
count has grown, also by --dry-run. In a FIFO queue it holds up the letters behind it of its partition. SQS gives a run up to
120,000 messages that stay.
` + kafkaCredentials,
		examples: []string{
			"idemsk redrive --queue-url https://sqs.eu-central-1.amazonaws.com/123456789012/letters --brokers b-1:9098,b-2:9098 --sasl aws-iam --dry-run",
			"idemsk redrive --queue-url … --brokers b-1:9096 --tls --sasl scram-sha-512 --limit 1",
			"idemsk redrive --queue-url … --function-name payments --key 'payments#pay-42' --yes",
			"idemsk redrive --file letters.jsonl --brokers 127.0.0.1:9092 --yes --json",
		},
		flags: func(fs *flag.FlagSet) action {
			var r redriveCommand
			r.declare(fs)
			return r.run
		},
	}
}

type redriveCommand struct {
	awsFlags
	queueURL, file string
	visibility     time.Duration
	kafkaFlags
	function  string
	opt       redrive.Options
	yes, json bool
}

func (r *redriveCommand) declare(fs *flag.FlagSet) {
	r.awsFlags.declare(fs)
	fs.StringVar(&r.queueURL, "queue-url", "", "the `URL` of the SQS queue of dead letters")
	fs.StringVar(&r.file, "file", "", "a `FILE` of dead letters instead, one in JSON on each line")
	fs.DurationVar(&r.visibility, "visibility-timeout", 5*time.Minute,
		"the `TIME` for which a message of the queue is hidden from others, and the most that one redrive may take:\nat least twice the function's timeout")
	r.declareBrokers(fs)
	fs.StringVar(&r.function, "function-name", "", "the function to invoke instead: its `NAME` or ARN")
	fs.StringVar(&r.opt.Function, "of-function", "",
		"only letters of the function `NAME` (default: the one of --function-name; with --brokers alone those of all)")
	fs.StringVar(&r.opt.Cluster, "of-cluster", "",
		"only letters of this `CLUSTER`, as they name it: its ARN, or its bootstrap servers (default: that of the first letter)")
	fs.StringVar(&r.opt.Key, "key", "", "only letters of this idempotency `KEY`, as the record has it, or as it is stored")
	fs.IntVar(&r.opt.Limit, "limit", 0, "at most `N` letters")
	fs.BoolVar(&r.opt.DryRun, "dry-run", false, "show what would be redriven, and change nothing")
	fs.BoolVar(&r.yes, "yes", false, "don't ask")
	fs.BoolVar(&r.json, "json", false, "print each result as a line of JSON")
}

func (r *redriveCommand) check(args []string, s Streams) error {
	switch {
	case len(args) > 0:
		return usagef("unexpected argument %q", args[0])
	case (r.queueURL == "") == (r.file == ""):
		return usagef("want either --queue-url or --file, to say where the letters are")
	case r.brokers == "" && r.function == "":
		return usagef("want --brokers or --function-name, to say where the letters go")
	case r.opt.Limit < 0:
		return usagef("--limit is %d: want 1 or more, or 0 for no limit", r.opt.Limit)
	case r.visibility < redrive.MinVisibility || r.visibility > redrive.MaxVisibility:
		return usagef("--visibility-timeout is %v: want %v to %v", r.visibility, redrive.MinVisibility, redrive.MaxVisibility)
	case !r.yes && !r.opt.DryRun && !term.IsTerminal(s.In):
		return usagef("this is no terminal to ask at: give --yes, or --dry-run")
	}
	return r.checkSecurity()
}

func (r *redriveCommand) run(ctx context.Context, s Streams, args []string) error {
	if err := r.check(args, s); err != nil {
		return err
	}
	closeAll, err := r.open(ctx)
	if err != nil {
		return explainAWS(err)
	}
	defer closeAll()
	if !r.yes && !r.opt.DryRun {
		question := fmt.Sprintf("Redrive the dead letters in %s to %s?%s", r.where(), r.opt.Destination, r.deletes())
		if ok, err := confirm(ctx, s, question); !ok || err != nil {
			s.sayf("idemsk redrive: nothing was done\n")
			return err
		}
	}
	out := redriveOutput{streams: s, json: r.json}
	passed, err := redrive.Run(ctx, r.opt, out.add)
	return out.finish(passed, explainAWS(err))
}

func (r *redriveCommand) where() string {
	if r.file != "" {
		return r.file
	}
	return r.queueURL
}

func (r *redriveCommand) deletes() string {
	if r.file != "" {
		return ""
	}
	return " Each is deleted from the queue when it has been redriven."
}

// open connects to where letters come from and go to.
func (r *redriveCommand) open(ctx context.Context) (closeAll func(), err error) {
	closeAll = func() {}
	var cfg aws.Config
	if r.queueURL != "" || r.function != "" || r.security.SASL == redrive.AWSIAM {
		if cfg, err = r.load(ctx); err != nil {
			return nil, err
		}
	}
	if r.brokers != "" {
		r.security.AWS = cfg.Credentials
		kafka, err := redrive.Dial(ctx, redrive.Cluster{Brokers: strings.Split(r.brokers, ","), Security: r.security})
		if err != nil {
			return nil, err
		}
		closeAll = kafka.Close
		r.opt.Destination, r.opt.Reader = kafka, kafka
	}
	if r.function != "" {
		r.opt.Destination = redrive.Function(lambda.NewFromConfig(cfg), r.function)
		r.opt.Function = cmp.Or(r.opt.Function, functionName(r.function))
	}
	if r.file == "" {
		client := sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.HTTPClient = boundedHTTP(cfg) })
		r.opt.Source = redrive.Queue(client, r.queueURL, r.visibility)
		return closeAll, nil
	}
	if r.opt.Source, err = redrive.OpenFile(r.file); err != nil {
		closeAll()
		return nil, err
	}
	return closeAll, nil
}

// functionName is the name in a function's ARN, whole or in part, with a version or an alias or without.
// https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
func functionName(name string) string {
	if _, after, ok := strings.Cut(name, ":function:"); ok {
		name = after
	}
	name, _, _ = strings.Cut(name, ":")
	return name
}

// redriveOutput prints results: as lines of JSON at once, or as tables of up to tableRows.
type redriveOutput struct {
	streams  Streams
	json     bool
	table    term.Table
	problems []string
	counts   map[redrive.Outcome]int
	err      error // of writing
}

// The widths of columns that can be long, in runes.
const causeWidth = 60

// tableRows is how many results are kept until they are printed.
const tableRows = 1000

func (o *redriveOutput) add(res redrive.Result) {
	if o.counts == nil {
		o.counts = make(map[redrive.Outcome]int)
	}
	o.counts[res.Outcome]++
	if o.json {
		if err := printJSON(o.streams, res, ""); err != nil {
			o.err = err
		}
		return
	}
	if o.table.Len() > tableRows {
		o.flush()
	}
	if o.table.Len() == 0 {
		o.table.Row("OUTCOME", "RECORD", "KEY", "WHERE", "HAD FAILED BY")
	}
	o.table.Row(string(res.Outcome), res.Source, term.Cut(res.Key, keyWidth), term.Cut(res.Where, causeWidth), term.Cut(term.Escape(res.Cause), causeWidth))
	if res.Error != "" {
		name := res.Source
		if name == "" {
			name = "message"
		}
		o.problems = append(o.problems, fmt.Sprintf("%s (%s): %s", name, res.Message, res.Error))
	}
}

// flush prints the table so far, and the problems in it.
func (o *redriveOutput) flush() {
	if _, err := fmt.Fprint(o.streams.Out, o.table.String()); err != nil {
		o.err = err
	}
	for _, p := range o.problems {
		o.streams.sayf("  %s\n", term.Escape(p))
	}
	o.table, o.problems = term.Table{}, nil
}

// finish prints the rest. Its error says that something is left to be done.
func (o *redriveOutput) finish(passed redrive.Passed, err error) error {
	o.flush()
	if err == nil || len(o.counts) > 0 {
		o.streams.sayf("idemsk redrive: %s\n", o.summary(passed))
	}
	switch {
	case err != nil:
		return err
	case o.err != nil:
		return o.err
	case o.counts[redrive.NotRedriven]+o.counts[redrive.NotDeadLetter] > 0:
		return errReported
	}
	return nil
}

func (o *redriveOutput) summary(passed redrive.Passed) string {
	var parts []string
	for _, outcome := range []redrive.Outcome{
		redrive.Redriven, redrive.WouldRedrive, redrive.Duplicate, redrive.NotRedriven, redrive.NotDeadLetter,
	} {
		if n := o.counts[outcome]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", term.Count(n), outcome))
		}
	}
	for _, p := range []struct {
		n    int
		what string
	}{
		{passed.Key, "with another key"}, {passed.Function, "of another function (--of-function)"}, {passed.Cluster, "of another cluster (--of-cluster)"},
	} {
		if p.n > 0 {
			parts = append(parts, term.Count(p.n)+" "+p.what)
		}
	}
	if len(parts) == 0 {
		return "there are no dead letters"
	}
	return strings.Join(parts, ", ")
}
