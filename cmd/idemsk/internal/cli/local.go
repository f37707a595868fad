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

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
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
given up without an on-failure destination, or reported as failed by the function without ReportBatchItemFailures. With
--fail-on-dead-letters, which --prove implies, it is also 1 if there are dead letters of records that do not ask for their failure,
as a few of the generated payments do.`,
		examples: []string{
			"idemsk local --produce 10000 --until-drained",
			"idemsk local --function ./bootstrap --topic payments --brokers 127.0.0.1:9092",
			"idemsk local --function 'python3 -m awslambdaric app.handler' --store none --env PYTHONPATH=.",
			"idemsk local --layer --function 'python3 -m awslambdaric app.handler' --env PYTHONPATH=. --duplicate 0.3",
			"idemsk local --invoke http://127.0.0.1:4566 --function-name payments --topic payments --brokers 127.0.0.1:9092",
			"idemsk local --from-localstack --brokers 127.0.0.1:9092",
			"idemsk local --events events --prove --fail-on-dead-letters=false",
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
	opt        local.Options
	events     string // --events
	topic      string
	age        time.Duration
	responses  string
	filter     string
	format     string // of the records after their validation
	validation string
	logFile    string
	compare    bool            // --compare
	onLetters  bool            // --fail-on-dead-letters
	ui         string          // --ui
	layer      bool            // --layer
	deployed   bool            // --from-localstack
	serving    string          // describes that mapping
	given      func() []string // names of the flags set on the command line
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
	defer func() { err = errors.Join(err, log.close(err, s)) }()
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
	text, report, err := l.play(ctx)
	switch {
	case errors.Is(err, local.ErrOptions), errors.Is(err, esm.ErrConfig):
		return &usageError{err}
	case err != nil:
		return err
	}
	if _, err := fmt.Fprint(s.Out, term.FoldFor(s.Out, text)); err != nil {
		return err
	}
	if err := keepLetters(s, report, ctx.Err() != nil); err != nil {
		return err
	}
	if n := report.OwnFailures(); n > 0 {
		log.keep = term.Plural(n, "invocation failed by itself", "invocations failed by themselves")
	}
	if l.failsOnLetters() && report.Unexpected > 0 {
		s.sayf("%s: the run has failed (--fail-on-dead-letters).\n", term.Plural(report.Unexpected, "unexpected dead letter", "unexpected dead letters"))
		return errReported
	}
	if report.Verified != nil && !report.Verified.OK() || l.opt.UntilDrained && report.Gone() > 0 {
		return errReported
	}
	return nil
}

// play runs the function, with --compare a second time without idemsk. It returns the report of the first run.
func (l *localCommand) play(ctx context.Context) (text string, with *local.Report, err error) {
	if l.compare && (!l.opt.Prove || len(l.opt.Brokers) > 0) {
		return "", nil, usagef("--compare needs --prove and a broker in this process, because it delivers the same records twice")
	}
	if !l.compare {
		if with, err = local.Run(ctx, l.opt); err != nil {
			return "", nil, err
		}
		return with.Text(), with, nil
	}
	with, without, err := local.Compare(ctx, l.opt)
	switch {
	case err != nil:
		return "", nil, err
	case without == nil: // an interrupted run has its report
		return with.Text(), with, nil
	}
	return with.Beside(without), with, nil
}

// pageAddress is where the page is, unless another process has the port.
const pageAddress = "127.0.0.1:7433"

// resolvePage sets the address of the page. A run that ends by itself has none, unless --ui asks for it.
func (l *localCommand) resolvePage() {
	o := &l.opt
	switch {
	case l.ui == "off", l.ui == "" && (o.UntilDrained || l.events != ""):
	case l.ui == "":
		o.UI = local.UI{Addr: pageAddress, Fallback: true}
	default:
		o.UI = local.UI{Addr: l.ui, Password: os.Getenv("IDEMSK_UI_PASSWORD")}
	}
}

// localStack is LocalStack's default URL.
const localStack = "http://127.0.0.1:4566"

// fromLocalStack sets the parameters from a deployed mapping.
func (l *localCommand) fromLocalStack(ctx context.Context) (err error) {
	allowed := []string{
		"from-localstack", "endpoint-url", "region", "brokers", "tls", "tls-ca", "tls-cert", "tls-key", "auth", "secret-arn",
		"topic", "function-name", "partitions", "broker-port", "produce", "producer-duplicates", "seed", "schema-registry",
		"until-drained", "ui", "duplicate", "concurrent-duplicates", "slow", "retry", "log",
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
	if l.opt.SchemaRegistry != "" {
		c.SchemaRegistry = &esm.SchemaRegistry{EventRecordFormat: l.format, Attributes: strings.Split(l.validation, ",")}
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
		"starting-position", "starting-position-timestamp", "filter-criteria", "pollers", "schema-registry",
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
		"from-localstack", "schema-registry", "event-record-format", "schema-validation",
	}
	for _, name := range l.given() {
		switch {
		case l.opt.Host == local.HostProcess && slices.Contains(lambda, name):
			return usagef("--%s and --host process exclude each other: it is a parameter of the event source or of the function", name)
		case l.opt.SchemaRegistry == "" && (name == "event-record-format" || name == "schema-validation"):
			return usagef("--%s needs --schema-registry", name)
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
	l.resolvePage()
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
	if err := l.resolveFunction(); err != nil {
		return err
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

// resolveFunction sets the function's command.
func (l *localCommand) resolveFunction() error {
	o := &l.opt
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
	if o.Prove && o.Function != "" && !o.IsExample() {
		return usagef("--prove needs the example function, because it reads the ledger that the example writes, and can't read the effects of %q. "+
			"--bookings names what another function booked more than once", o.Function)
	}
	return l.checkLetters()
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
		return local.FindConsumer()
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
