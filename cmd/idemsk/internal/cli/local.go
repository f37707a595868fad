package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/payments"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

func localVerb() verb {
	return verb{
		name: "local", short: "invokes a function with the records of a Kafka topic on this machine, as MSK does",
		about: `
Reads a Kafka topic and invokes an unmodified Lambda function with its records in batches, as Lambda's event source mapping
for MSK does; docs/local.md lists the differences. Without --brokers it starts a broker in this process. Without --function it
runs the example function of this project. The function is any command that uses the Lambda Runtime API (a provided.*
bootstrap, python3 -m awslambdaric, aws-lambda-ric), with one process for each poller, or a function at an Invoke endpoint.
With --layer the function runs behind the layer for functions in any language, see docs/layer.md.
With --host process it runs consumer processes in the place of the event source and the function: members of the consumer
group, which the IDEMSK_KAFKA_* variables point to the topic. The same payments, --kill and --prove apply.
By default this process serves DynamoDB tables and an SQS queue, and the function's environment points to them (--store fake).
With --events it reads no topic: the function gets recorded events, also malformed ones, and each response is printed.
` + kafkaHelp + `

Ctrl-C stops reading, waits for running invocations (at most the function's timeout) and commits completed batches. A second
Ctrl-C ends the wait; the next run redelivers what is not committed. SIGUSR1 disables the mapping, or enables it again.

The exit status is 1 if the run could not start or continue, if --prove fails, and if records were lost with --until-drained:
given up without an on-failure destination, or reported as failed by the function without ReportBatchItemFailures.`,
		examples: []string{
			"idemsk local --produce 10000 --until-drained",
			"idemsk local --function ./bootstrap --topic payments --brokers 127.0.0.1:9092",
			"idemsk local --function 'python3 -m awslambdaric app.handler' --store none --env PYTHONPATH=.",
			"idemsk local --layer --function 'python3 -m awslambdaric app.handler' --env PYTHONPATH=. --duplicate 0.3",
			"idemsk local --invoke http://127.0.0.1:4566 --function-name payments --topic payments --brokers 127.0.0.1:9092",
			"idemsk local --from-localstack --brokers 127.0.0.1:9092",
			"idemsk local --events events --prove",
			"idemsk local --host process --processes 3 --produce 10000 --kill 0.05 --concurrent-duplicates 0.02 --until-drained --prove",
			"idemsk local --produce 10000 --duplicate 0.3 --kill 0.05 --concurrent-duplicates 0.1 --seed 7 --until-drained",
		},
		flags: func(fs *flag.FlagSet) action {
			var l localCommand
			l.declare(fs)
			return l.run
		},
	}
}

type localCommand struct {
	awsFlags
	kafkaFlags
	opt       local.Options
	events    string // --events
	topic     string
	age       time.Duration
	responses string
	filter    string
	logFile   string
	compare   bool            // --compare
	layer     bool            // --layer
	deployed  bool            // --from-localstack
	serving   string          // describes that mapping
	given     func() []string // names of the flags set on the command line
}

func (l *localCommand) declare(fs *flag.FlagSet) {
	l.opt.ESM = esm.DefaultConfig()
	l.declareSource(fs)
	l.declareMapping(fs)
	l.declareFunction(fs)
	l.declareRun(fs)
	l.given = func() (names []string) {
		fs.Visit(func(f *flag.Flag) { names = append(names, f.Name) })
		return names
	}
}

func (l *localCommand) declareSource(fs *flag.FlagSet) {
	c := &l.opt.ESM
	fs.StringVar(&l.events, "events", "",
		"deliver recorded MSK events unchanged, instead of a topic's records: the `PATH` of a file, or of a folder with *.json;\n"+
			"the run ends when they are delivered")
	fs.StringVar(&l.brokers, "brokers", "", "the cluster's `ADDRESSES`, separated by commas (default: a broker in this process)")
	l.declareAuth(fs)
	fs.StringVar(&l.topic, "topic", "payments", "the `TOPIC`")
	fs.IntVar(&l.opt.Partitions, "partitions", 6, "create the topic with `N` partitions, on the broker in this process")
	fs.IntVar(&l.opt.Ports.Broker, "broker-port", 0, "the `PORT` on 127.0.0.1 of the broker in this process (default: a free port)")
	fs.StringVar(&c.ConsumerGroup, "consumer-group-id", "idemsk-local", "the consumer `GROUP`; its committed offsets override --starting-position")
	fs.BoolVar(&l.deployed, "from-localstack", false,
		"run the event source mapping that is deployed at --endpoint-url (default "+localStack+"), with its parameters and function")
	fs.Float64Var(&l.opt.Copies, "producer-duplicates", payments.DefaultCopies, "the `SHARE` of produced payments that are sent twice")
	fs.IntVar(&l.opt.Produce, "produce", 0, "produce `N` generated payments to the topic")
	fs.Uint64Var(&l.opt.Seed, "seed", 0,
		"the `SEED` of generated payments, and of the faults of a batch with a given first record (default: random)")
}

func (l *localCommand) declareMapping(fs *flag.FlagSet) {
	c := &l.opt.ESM
	fs.IntVar(&c.BatchSize, "batch-size", c.BatchSize, "at most `N` records in a batch")
	secondsVar(fs, &c.MaximumBatchingWindow, "maximum-batching-window", c.MaximumBatchingWindow, "the longest `TIME` to gather a batch: 5 or 5s, 300ms")
	fs.StringVar(&c.StartingPosition, "starting-position", c.StartingPosition, "`WHERE` to start: TRIM_HORIZON, LATEST or AT_TIMESTAMP")
	fs.Func("starting-position-timestamp", "the `TIME` to start at, such as 2026-01-02T15:04:05Z", func(text string) (err error) {
		c.StartingPositionTimestamp, err = time.Parse(time.RFC3339, text)
		return err
	})
	fs.IntVar(&c.MaximumRetryAttempts, "maximum-retry-attempts", c.MaximumRetryAttempts, "give up a batch after `N` retries (-1: never; with --on-failure: 10)")
	secondsVar(fs, &l.age, "maximum-record-age", 0, "give up records older than this `AGE`, 3600 or 1h; 0s: no limit")
	fs.BoolVar(&c.BisectBatchOnFunctionError, "bisect-batch-on-function-error", false, "split a batch in two if the function fails")
	fs.StringVar(&l.responses, "function-response-types", "", "the response `TYPES`: ReportBatchItemFailures, if the function returns the records that failed")
	fs.StringVar(&c.Retry, "retry", c.Retry, "`WHICH` records are redelivered if the function reports failed ones: named (only those), "+
		"or from-lowest\n(all from the lowest offset)")
	fs.StringVar(&l.filter, "filter-criteria", "", `the filter criteria as `+"`JSON`"+`: {"Filters":[{"Pattern":"{\"value\":{…}}"}]}; @FILE reads a file`)
	fs.StringVar(&c.OnFailure, "on-failure", "", "`WHERE` to send records that are given up: arn:aws:sqs:…, arn:aws:s3:::BUCKET, or kafka://TOPIC")
	fs.IntVar(&c.Pollers, "pollers", 2, "process up to `N` batches at once, at most one for each partition, each with its own function process")
}

func (l *localCommand) declareFunction(fs *flag.FlagSet) {
	fs.StringVar(&l.opt.Host, "host", local.HostLambda, "`WHAT` handles the records: lambda (an event source that invokes a function), or process (consumer\n"+
		"processes, members of the group, in the place of both)")
	fs.IntVar(&l.opt.Processes, "processes", 2, "with --host process: run `N` processes")
	fs.StringVar(&l.opt.Function, "function", "",
		"the `COMMAND` of the function, or with --host process of a consumer process, split into words as a shell does\n"+
			"(default dist/handler-<arch>/bootstrap, or dist/ledger-consumer-<arch>, next to the tool)")
	fs.BoolVar(&l.layer, "layer", false, "run the --function behind the layer, as built (dist/layer-<arch>), which gives it each key once")
	fs.StringVar(&l.opt.Invoke, "invoke", "", "the `URL` of a Lambda Invoke endpoint instead, such as http://127.0.0.1:4566")
	fs.StringVar(&l.opt.FunctionName, "function-name", "", "the function's `NAME` (default idemsk-local; at --invoke: function)")
	secondsVar(fs, &l.opt.ESM.Timeout, "timeout", l.opt.ESM.Timeout, "the function's `TIMEOUT`, 30 or 30s")
	fs.DurationVar(&l.opt.InitTimeout, "init-timeout", 0, "the longest `TIME` until a new function process requests its first event; 0s: 10s, as on AWS")
	fs.StringVar(&l.opt.Store, "store", local.StoreFake,
		"`WHERE` the function's tables are: fake (in this process), the URL of a DynamoDB, PostgreSQL or Redis, postgres or redis\n"+
			"for the one at IDEMSK_STORE_URL, or none: the function gets only Lambda's variables, PATH and --env")
	fs.IntVar(&l.opt.Ports.DynamoDB, "dynamodb-port", 0, "the `PORT` on 127.0.0.1 of the DynamoDB in this process (default: a free port)")
	fs.Func("create-table", "create another table in the DynamoDB in this process: `NAME=KEY`, where KEY is its partition key, a string;\nmay be repeated",
		func(text string) error { l.opt.Tables = append(l.opt.Tables, text); return nil })
	fs.IntVar(&l.opt.Ports.SQS, "sqs-port", 0, "the `PORT` on 127.0.0.1 of the SQS in this process (default: a free port)")
	fs.Func("env", "set an environment variable of the function: `NAME=VALUE`, or NAME to pass it on; may be repeated", func(text string) error {
		if value, set := os.LookupEnv(text); set {
			text += "=" + value
		}
		l.opt.Env = append(l.opt.Env, text)
		return nil
	})
	fs.StringVar(&l.logFile, "log", "", "the `FILE` for what the function prints (default: a temporary one, kept for a day\nif the run or an invocation fails)")
	l.awsFlags.declare(fs)
}

func (l *localCommand) declareRun(fs *flag.FlagSet) {
	fs.BoolVar(&l.opt.UntilDrained, "until-drained", false, "exit when all records are delivered and committed")
	fs.BoolVar(&l.opt.Prove, "prove", false, "at the end compare the example function's ledger with the records; exit status 1 if it differs")
	fs.BoolVar(&l.compare, "compare", false, "with --prove: deliver the same records a second time, to the function without idemsk")
	f := &l.opt.Faults
	fs.Float64Var(&f.Duplicate, "duplicate", 0, "the `CHANCE` that a completed batch is delivered again")
	fs.Float64Var(&f.Kill, "kill", 0, "the `CHANCE` that the process is killed during an invocation; with --host process: one of them, per 100 records")
	fs.StringVar(&f.KillAt, "kill-at", local.KillAny, "the `MOMENT` of a --kill: any, or before-effect or after-effect: immediately before or after a write to\n"+
		"a table other than that of the keys (--store fake)")
	fs.Float64Var(&f.Concurrent, "concurrent-duplicates", 0, "the `CHANCE` that an invocation is made twice at the same time, as in a rebalance; with\n"+
		"--host process: that one is paused until others have its partitions, per 100 records")
	fs.DurationVar(&f.Slow, "slow", 0, "delay invocations by up to this `TIME`")
}

func (l *localCommand) run(ctx context.Context, s Streams, args []string) (err error) {
	if len(args) > 0 {
		return usagef("unexpected argument %q", args[0])
	}
	if err := l.resolve(ctx); err != nil {
		return err
	}
	log, err := openLog(l.logFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close(err != nil, s)) }()
	l.opt.Log = log
	toggle, stop := toggleSignal()
	defer stop()
	l.opt.Toggle = toggle
	cut, stop := secondSignal(ctx)
	defer stop()
	l.opt.Cut = cut
	screen := &screen{s: s}
	l.opt.Say, l.opt.Show = screen.say, screen.show
	if l.serving != "" {
		screen.say(term.Escape(l.serving))
	}
	if l.opt.Invoke == "" {
		screen.say("The function's output is written to " + term.Escape(log.file.Name()) + ".")
	}
	text, report, err := l.play(ctx, screen)
	switch {
	case errors.Is(err, local.ErrOptions), errors.Is(err, esm.ErrConfig):
		return &usageError{err}
	case err != nil:
		return err
	}
	if _, err := fmt.Fprint(s.Out, term.FoldFor(s.Out, text)); err != nil {
		return err
	}
	if n := report.OwnFailures(); n > 0 {
		log.keep = term.Plural(n, "invocation failed by itself", "invocations failed by themselves")
	}
	if report.Verified != nil && !report.Verified.OK() || l.opt.UntilDrained && report.Gone() > 0 {
		return errReported
	}
	return nil
}

// play runs the function, with --compare a second time without idemsk. It returns the report of the first run.
func (l *localCommand) play(ctx context.Context, screen *screen) (text string, with *local.Report, err error) {
	if l.compare && (!l.opt.Prove || len(l.opt.Brokers) > 0) {
		return "", nil, usagef("--compare needs --prove and a broker in this process, because it delivers the same records twice")
	}
	with, err = local.Run(ctx, l.opt)
	if err != nil {
		return "", nil, err
	}
	if !l.compare || ctx.Err() != nil {
		return with.Text(), with, nil //nolint:nilerr // an interrupted run has its report
	}
	screen.say("The same without idemsk (IDEMSK_STORE=none):")
	unprotected := l.opt
	unprotected.Unprotected = true
	without, err := local.Run(ctx, unprotected)
	if err != nil {
		return "", nil, err
	}
	return with.Beside(without), with, nil
}

// localStack is LocalStack's default URL.
const localStack = "http://127.0.0.1:4566"

// fromLocalStack sets the parameters from a deployed mapping.
func (l *localCommand) fromLocalStack(ctx context.Context) (err error) {
	allowed := []string{
		"from-localstack", "endpoint-url", "region", "brokers", "tls", "tls-ca", "tls-cert", "tls-key", "auth", "secret-arn",
		"topic", "function-name", "partitions", "broker-port", "produce", "producer-duplicates", "seed",
		"until-drained", "duplicate", "concurrent-duplicates", "slow", "retry", "log",
	}
	wanted := local.Wanted{}
	for _, name := range l.given() {
		switch {
		case !slices.Contains(allowed, name):
			return usagef("--%s and --from-localstack exclude each other: the deployed mapping sets it", name)
		case name == "topic":
			wanted.Topic = l.topic
		case name == "function-name":
			wanted.Function = l.opt.FunctionName
		}
	}
	l.endpoint = cmp.Or(l.endpoint, localStack)
	l.opt.Endpoint, l.opt.AWS = true, l.load
	l.serving, err = local.FromMapping(ctx, &l.opt, l.endpoint, wanted)
	return err
}

// resolveMapping sets the mapping's parameters from flags that have another form.
func (l *localCommand) resolveMapping() error {
	c := &l.opt.ESM
	if l.age != 0 {
		c.MaximumRecordAge = l.age
	}
	if l.responses != "" {
		c.FunctionResponseTypes = strings.Split(l.responses, ",")
	}
	if c.FilterCriteria = l.filter; strings.HasPrefix(l.filter, "@") {
		text, err := os.ReadFile(l.filter[1:])
		if err != nil {
			return err
		}
		c.FilterCriteria = string(text)
	}
	if l.events != "" {
		return l.readEvents()
	}
	return nil
}

// readEvents reads the recorded events of --events.
func (l *localCommand) readEvents() (err error) {
	excluded := []string{
		"brokers", "broker-port", "topic", "partitions", "consumer-group-id", "produce", "producer-duplicates", "batch-size", "maximum-batching-window",
		"starting-position", "starting-position-timestamp", "filter-criteria", "pollers",
	}
	for _, name := range l.given() {
		if slices.Contains(excluded, name) {
			return usagef("--%s and --events exclude each other: recorded events are delivered unchanged, one after another", name)
		}
	}
	l.opt.ESM.Events, err = local.ReadEvents(l.events)
	return err
}

// checkHost refuses flags that processes have no use for.
func (l *localCommand) checkHost() error {
	lambda := []string{
		"batch-size", "maximum-batching-window", "starting-position", "starting-position-timestamp", "maximum-retry-attempts", "maximum-record-age",
		"bisect-batch-on-function-error", "function-response-types", "retry", "filter-criteria", "on-failure", "pollers", "timeout", "init-timeout",
		"from-localstack",
	}
	for _, name := range l.given() {
		switch {
		case l.opt.Host == local.HostProcess && slices.Contains(lambda, name):
			return usagef("--%s and --host process exclude each other: it is a parameter of the event source or of the function", name)
		case l.opt.Host != local.HostProcess && name == "processes":
			return usagef("--processes needs --host process")
		}
	}
	return nil
}

// resolve sets the options that flags do not set.
func (l *localCommand) resolve(ctx context.Context) (err error) {
	o := &l.opt
	o.ESM.Topics = []string{l.topic}
	if l.brokers != "" {
		o.Brokers = strings.Split(l.brokers, ",")
	}
	if o.Seed == 0 {
		o.Seed = uint64(rand.Uint32()) + 1 //nolint:gosec // a seed is no secret
	}
	if o.Kafka, err = l.options(ctx, l.region); err != nil {
		return err
	}
	if err := l.checkHost(); err != nil {
		return err
	}
	if l.deployed {
		return l.fromLocalStack(ctx)
	}
	if err := l.resolveMapping(); err != nil {
		return err
	}
	if o.Store == "postgres" || o.Store == "redis" {
		if o.Store = os.Getenv("IDEMSK_STORE_URL"); o.Store == "" {
			return usagef("--store postgres and --store redis take the URL from IDEMSK_STORE_URL, which is not set")
		}
	}
	if l.layer {
		if err := l.wrap(); err != nil {
			return err
		}
	}
	if o.Function == "" && o.Invoke == "" {
		path, err := findExample(o)
		if err != nil {
			return err
		}
		o.Example = true
		o.Function = quoted(path)
	}
	if o.Invoke != "" {
		o.FunctionName = cmp.Or(o.FunctionName, "function") // the name that runtime interface emulators use
	}
	o.FunctionName = cmp.Or(o.FunctionName, "idemsk-local")
	endpoint := l.endpoint
	if o.Endpoint = endpoint != ""; !o.Endpoint {
		endpoint = o.Invoke // it gets default credentials too, if it is on this machine
	}
	o.AWS = func(ctx context.Context) (aws.Config, error) {
		flags := l.awsFlags
		flags.endpoint = endpoint
		return flags.load(ctx)
	}
	return nil
}

// wrap puts the layer in front of the function's command.
func (l *localCommand) wrap() error {
	if l.opt.Function == "" || l.opt.Store == local.StoreNone {
		return usagef("--layer needs --function with the command of a function, and a --store for the keys")
	}
	path, err := local.FindLayer(l.opt.Build())
	if err != nil {
		return err
	}
	l.opt.Function = quoted(path) + " " + l.opt.Function
	return nil
}

// quoted quotes a word for --function.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// findExample looks for the example's program for the host.
func findExample(o *local.Options) (string, error) {
	if o.Host == local.HostProcess {
		return local.FindConsumer(o.Build())
	}
	return local.FindFunction(o.Build())
}

// toggleSignal returns a channel that receives a value for each SIGUSR1.
func toggleSignal() (<-chan struct{}, func()) {
	signals, toggle := make(chan os.Signal, 1), make(chan struct{}, 1)
	done := make(chan struct{})
	signal.Notify(signals, syscall.SIGUSR1)
	var end sync.WaitGroup
	end.Go(func() {
		for {
			select {
			case <-signals:
				select {
				case toggle <- struct{}{}:
				case <-done:
					return
				}
			case <-done:
				return
			}
		}
	})
	return toggle, func() { signal.Stop(signals); close(done); end.Wait() }
}

// secondSignal returns a channel that receives a value for the first interrupt after ctx is done.
func secondSignal(ctx context.Context) (<-chan struct{}, func()) {
	signals, second, done := make(chan os.Signal, 1), make(chan struct{}, 1), make(chan struct{})
	var end sync.WaitGroup
	end.Go(func() {
		select {
		case <-ctx.Done(): // the first signal was delivered before
		case <-done:
			return
		}
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(signals)
		select {
		case <-signals:
			second <- struct{}{}
		case <-done:
		}
	})
	return second, func() { close(done); end.Wait() }
}

// screen writes lines to the error stream, above a live view.
type screen struct {
	s    Streams
	mu   sync.Mutex
	live *term.Live
}

func (c *screen) say(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil {
		c.live.Say(line)
		return
	}
	c.s.sayf("%s\n", line)
}

func (c *screen) show(v *local.View) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = term.StartLive(c.s.Err, v.Lines, v.Line)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.live.Stop()
		c.live = nil
	}
}
