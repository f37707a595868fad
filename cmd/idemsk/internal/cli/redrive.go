package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/kafka/deadletter/s3"
)

func redriveVerb() verb {
	return verb{
		name: "redrive", args: "", short: "sends dead letters back to their topic or to the function",
		about: `
Sends dead letters back after the cause of their failure is fixed: to the topic and partition that they came from (--brokers), or
directly to the function (--function-name), as an event with that one record at its original partition and offset. Letters are read
from an SQS queue (--queue-url) and deleted from it after they are redriven, from a Kafka topic (--dead-letter-topic), or from a file
with one letter a line (--file), which is not changed. Each record gets the header idemsk-redrive, which allows another attempt
although its key is FAILED. To show the letters of a file, --dry-run needs no destination.

A run reads the letters that are in the topic when it begins, except those that an earlier run has redriven. The committed offsets of
the consumer group idemsk-redrive-TOPIC and their metadata say which these are. Do not delete the group, and run one redrive of a
topic at a time. Letters that stay are read again by the next run, until the topic's retention removes them.

A queue or a topic may be shared by functions and clusters. A run redrives only letters of the invoked function (--of-function) and of one
cluster (--of-cluster), because the same partition and offset of another cluster is another record. Other letters stay.

If a letter does not contain its value because of its size, the value is read from the object in S3 that the letter names, or else from
Kafka; this needs --brokers, also with --function-name. Messages that are not dead letters of idemsk are listed and stay. In a queue,
messages that stay become visible again at the end of the run, with a higher receive count, also after --dry-run. In a FIFO queue they
block later letters of their partition. SQS delivers at most 120,000 messages that stay to one run.
` + kafkaHelp,
		examples: []string{
			"idemsk redrive --queue-url https://sqs.eu-central-1.amazonaws.com/123456789012/letters --brokers b-1:9098,b-2:9098 --auth iam --dry-run",
			"idemsk redrive --queue-url … --brokers b-1:9096 --auth scram-sha-512 --limit 1",
			"idemsk redrive --queue-url … --function-name payments --key 'payments#pay-42' --yes",
			"idemsk redrive --dead-letter-topic payments-dead-letters --brokers b-1:9098,b-2:9098 --auth iam --dry-run",
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
	queueURL, topic, file string // the source
	visibility            time.Duration
	kafkaFlags
	function  string
	opt       redrive.Options
	yes, json bool
}

func (r *redriveCommand) declare(fs *flag.FlagSet) {
	r.awsFlags.declare(fs)
	r.declareLetters(fs)
	fs.StringVar(&r.file, "file", "", "a `FILE` of dead letters instead, one JSON document a line")
	fs.StringVar(&r.opt.Key, "key", "", "only letters of this idempotency `KEY`, as in the record or as stored")
	fs.IntVar(&r.opt.Limit, "limit", 0, "at most `N` letters")
	fs.BoolVar(&r.opt.DryRun, "dry-run", false, "show what would be redriven, without redriving or deleting it")
	fs.BoolVar(&r.yes, "yes", false, "don't ask for confirmation")
	fs.BoolVar(&r.json, "json", false, "print each result as a line of JSON")
}

// declareLetters declares the flags of where dead letters are, and where they go.
func (r *redriveCommand) declareLetters(fs *flag.FlagSet) {
	fs.StringVar(&r.queueURL, "queue-url", "", "the `URL` of the SQS queue of dead letters")
	fs.StringVar(&r.topic, "dead-letter-topic", "", "the Kafka `TOPIC` of dead letters instead, in the cluster of --brokers")
	fs.DurationVar(&r.visibility, "visibility-timeout", 5*time.Minute,
		"the `TIME` for which a message is hidden from other consumers, which limits the duration of one redrive:\nat least twice the function's timeout")
	r.declareBrokers(fs)
	fs.StringVar(&r.function, "function-name", "", "the `NAME` or ARN of the function to invoke")
	fs.StringVar(&r.opt.Function, "of-function", "",
		"only letters of the function `NAME` (default: that of --function-name; with --brokers only, any)")
	fs.StringVar(&r.opt.Cluster, "of-cluster", "",
		"only letters of this `CLUSTER`: the ARN or bootstrap servers in the letters (default: those of the first letter)")
}

// checkLetters checks these flags.
func (r *redriveCommand) checkLetters() error {
	switch {
	case r.topic != "" && r.brokers == "":
		return usagef("--dead-letter-topic needs --brokers, the brokers of its cluster")
	case r.visibility < redrive.MinVisibility || r.visibility > redrive.MaxVisibility:
		return usagef("--visibility-timeout is %v: want %v to %v", r.visibility, redrive.MinVisibility, redrive.MaxVisibility)
	}
	return r.checkAuth()
}

func (r *redriveCommand) check(args []string, s Streams) error {
	switch {
	case len(args) > 0:
		return usagef("unexpected argument %q", args[0])
	case r.where() == "" || r.where() != r.queueURL+r.topic+r.file:
		return usagef("want one of --queue-url, --dead-letter-topic and --file as the source of letters")
	}
	if err := r.checkLetters(); err != nil {
		return err
	}
	switch {
	case r.brokers == "" && r.function == "" && (r.file == "" || !r.opt.DryRun):
		return usagef("want --brokers or --function-name as the destination of letters")
	case r.opt.Limit < 0:
		return usagef("--limit is %d: want 1 or more, or 0 for no limit", r.opt.Limit)
	case !r.yes && !r.opt.DryRun && !term.IsTerminal(s.In):
		return usagef("standard input is not a terminal: give --yes, or --dry-run")
	}
	return nil
}

func (r *redriveCommand) run(ctx context.Context, s Streams, args []string) error {
	if err := r.check(args, s); err != nil {
		return err
	}
	closeAll, err := r.open(ctx, s)
	if err != nil {
		return explainAWS(err)
	}
	defer closeAll()
	if !r.yes && !r.opt.DryRun {
		question := fmt.Sprintf("Redrive the dead letters in %s to %s?%s", r.where(), r.opt.Destination, r.marks())
		if ok, err := confirm(ctx, s, question); !ok || err != nil {
			s.sayf("idemsk redrive: nothing was done\n")
			return errors.Join(err, r.opt.Source.Close(ctx))
		}
	}
	out := redriveOutput{streams: s, json: r.json}
	passed, err := redrive.Run(ctx, r.opt, out.add)
	return out.finish(passed, explainAWS(err))
}

// where returns the source.
func (r *redriveCommand) where() string { return cmp.Or(r.queueURL, r.topic, r.file) }

// marks says what a redrive changes in the source.
func (r *redriveCommand) marks() string {
	switch {
	case r.queueURL != "":
		return " Each is deleted from the queue when it has been redriven."
	case r.topic != "":
		return " Each is marked in the consumer group " + redrive.Group(r.topic) + " when it has been redriven."
	}
	return ""
}

// open connects to the source and the destination.
func (r *redriveCommand) open(ctx context.Context, s Streams) (closeAll func(), err error) {
	closeAll = func() {}
	var cfg aws.Config
	if r.queueURL != "" || r.function != "" {
		if cfg, err = r.load(ctx); err != nil {
			return nil, err
		}
	}
	var cluster *redrive.Kafka
	if r.brokers != "" {
		secured, err := r.options(ctx, r.region)
		if err != nil {
			return nil, err
		}
		if cluster, err = redrive.Dial(ctx, redrive.Cluster{Brokers: r.auth.Brokers, Options: secured}); err != nil {
			return nil, err
		}
		closeAll = cluster.Close
		r.opt.Destination, r.opt.Reader = cluster, cluster
	}
	if r.function != "" {
		r.opt.Destination = redrive.Function(lambda.NewFromConfig(cfg), r.function)
		r.opt.Function = cmp.Or(r.opt.Function, functionName(r.function))
	}
	r.opt.Values = r.values
	if err := r.openSource(ctx, s, cfg, cluster); err != nil {
		closeAll()
		return nil, err
	}
	return closeAll, nil
}

// values returns a client of S3, for the values of large letters.
func (r *redriveCommand) values(ctx context.Context) (s3.Getter, error) {
	cfg, err := r.load(ctx)
	if err != nil {
		return nil, err
	}
	return newS3(cfg), nil
}

func (r *redriveCommand) queue(cfg aws.Config) redrive.Source {
	client := sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.HTTPClient = boundedHTTP(cfg) })
	return redrive.Queue(client, r.queueURL, r.visibility)
}

func (r *redriveCommand) openSource(ctx context.Context, s Streams, cfg aws.Config, cluster *redrive.Kafka) (err error) {
	switch {
	case r.queueURL != "":
		r.opt.Source = r.queue(cfg)
	case r.topic != "":
		var removed int64
		if r.opt.Source, removed, err = cluster.Letters(ctx, r.topic); removed > 0 {
			s.sayf("idemsk redrive: the retention of the topic %s has removed up to %s letters that were not redriven\n", r.topic, term.Count(int(removed)))
		}
	default:
		r.opt.Source, err = redrive.OpenFile(r.file)
	}
	return err
}

// functionName returns the function's name from a name or a full or partial ARN, with or without a version or alias.
// https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
func functionName(name string) string {
	if _, after, ok := strings.Cut(name, ":function:"); ok {
		name = after
	}
	name, _, _ = strings.Cut(name, ":")
	return name
}

// redriveOutput prints results: each at once as a line of JSON, or in tables of up to tableRows rows.
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

// tableRows is the number of results that are kept before they are printed.
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

// flush prints the collected rows and problems.
func (o *redriveOutput) flush() {
	if _, err := fmt.Fprint(o.streams.Out, o.table.String()); err != nil {
		o.err = err
	}
	for _, p := range o.problems {
		o.streams.sayf("  %s\n", term.Escape(p))
	}
	o.table, o.problems = term.Table{}, nil
}

// finish prints the remaining rows and the summary. It returns an error if letters could not be redriven.
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
