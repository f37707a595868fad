package verb

import (
	"flag"
	"os"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/payments"
)

func (l *invocation) declare(fs *flag.FlagSet) {
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

func (l *invocation) declareSource(fs *flag.FlagSet) {
	c := &l.opt.ESM
	fs.StringVar(&l.events, "events", "",
		"deliver recorded MSK events unchanged, instead of a topic's records: the `PATH` of a file, or of a "+
			"folder with *.json;\n"+
			"the run ends when they are delivered")
	fs.StringVar(&l.opt.Queue, "sqs", "",
		"deliver the messages of this `QUEUE` in the SQS in this process, instead of a topic's records; a "+
			"name that\nends in .fifo makes a FIFO queue; its address is printed, and --produce sends to it")
	secondsVar(fs, &l.opt.Visibility, "visibility-timeout", 0,
		"with --sqs: the `TIME` after which a message that failed comes again (default: --timeout, and AWS "+
			"accepts no less)")
	fs.StringVar(&l.Brokers, "brokers", "",
		"the cluster's `ADDRESSES`, separated by commas (default: a broker in this process)")
	l.DeclareAuth(fs)
	fs.StringVar(&l.topic, "topic", "payments", "the `TOPIC`")
	fs.IntVar(&l.opt.Partitions, "partitions", 6,
		"create the topic with `N` partitions, on the broker in this process")
	fs.IntVar(&l.opt.Ports.Broker, "broker-port", 0,
		"the `PORT` on 127.0.0.1 of the broker in this process (default: a free port)")
	fs.StringVar(&c.ConsumerGroup, "consumer-group-id", "idemsk-local",
		"the consumer `GROUP`; its committed offsets override --starting-position")
	fs.BoolVar(&l.deployed, "from-localstack", false,
		"run the event source mapping that is deployed at --endpoint-url (default "+localStack+"), with its "+
			"parameters and function")
	fs.Float64Var(&l.opt.Copies, "producer-duplicates", payments.DefaultCopies,
		"the `SHARE` of produced payments that are sent twice")
	fs.IntVar(&l.opt.Produce, "produce", 0, "produce `N` generated payments to the topic")
	fs.Uint64Var(&l.opt.Seed, "seed", 0,
		"the `SEED` of generated payments, and of the faults of a batch with a given first record (default: "+
			"random)")
}

func (l *invocation) declareMapping(fs *flag.FlagSet) {
	c := &l.opt.ESM
	fs.IntVar(&c.BatchSize, "batch-size", c.BatchSize, "at most `N` records in a batch")
	secondsVar(fs, &c.MaximumBatchingWindow, "maximum-batching-window", c.MaximumBatchingWindow,
		"the longest `TIME` to gather a batch: 5 or 5s, 300ms")
	fs.StringVar(&c.StartingPosition, "starting-position", c.StartingPosition,
		"`WHERE` to start: TRIM_HORIZON, LATEST or AT_TIMESTAMP")
	fs.Func("starting-position-timestamp", "the `TIME` to start at, such as 2026-01-02T15:04:05Z",
		func(text string) (err error) {
			c.StartingPositionTimestamp, err = time.Parse(time.RFC3339, text)
			return err
		})
	fs.IntVar(&c.MaximumRetryAttempts, "maximum-retry-attempts", c.MaximumRetryAttempts,
		"give up a batch after `N` retries (-1: never; with --on-failure: 10)")
	secondsVar(fs, &l.age, "maximum-record-age", 0,
		"give up records older than this `AGE`, 3600 or 1h (default: no limit)")
	fs.BoolVar(&c.BisectBatchOnFunctionError, "bisect-batch-on-function-error", false,
		"split a batch in two if the function fails")
	fs.StringVar(&l.responses, "function-response-types", "",
		"the response `TYPES`: ReportBatchItemFailures, if the function returns the records that failed")
	fs.StringVar(&c.Retry, "retry", c.Retry,
		"`WHICH` records are redelivered if the function reports failed ones: named (only those), "+
			"or from-lowest\n(all from the lowest offset)")
	fs.StringVar(&l.filter, "filter-criteria", "",
		"the filter criteria as `JSON`: "+`{"Filters":[{"Pattern":"{\"value\":{…}}"}]}; @FILE reads a file`)
	fs.StringVar(&l.opt.SchemaRegistry, "schema-registry", "",
		"validate and convert records by the schema `REGISTRY`: the URL of one with Confluent's API, or\n"+
			"arn:aws:glue:…:registry/NAME; fake or fake-glue: one in this process, at an address that is "+
			"printed")
	fs.StringVar(&l.format, "event-record-format", esm.FormatJSON,
		"with --schema-registry: the `FORMAT` of the records that the function gets, JSON or SOURCE")
	fs.StringVar(&l.validation, "schema-validation", esm.AttributeValue,
		"with --schema-registry: `WHAT` is validated and converted: VALUE, KEY or KEY,VALUE")
	fs.StringVar(&c.OnFailure, "on-failure", "",
		"`WHERE` to send records that are given up: arn:aws:sqs:…, arn:aws:sns:…, arn:aws:s3:::BUCKET, or "+
			"kafka://TOPIC")
	fs.IntVar(&c.Pollers, "pollers", 2,
		"process up to `N` batches at once, at most one for each partition, each with its own function "+
			"process")
}

func (l *invocation) declareFunction(fs *flag.FlagSet) {
	fs.StringVar(&l.opt.Host, "host", local.HostLambda,
		"`WHAT` handles the records: lambda (an event source that invokes a function), or process "+
			"(consumer\nprocesses, members of the group, in the place of both)")
	fs.IntVar(&l.opt.Processes, "processes", 2, "with --host process: run `N` processes")
	fs.StringVar(&l.opt.Function, "function", "",
		"the `COMMAND` of the function, or with --host process of a consumer process, split into words as a "+
			"shell does\n"+
			"(default dist/handler-<arch>/bootstrap, or dist/ledger-consumer-<arch>, next to the tool)")
	fs.StringVar(&l.opt.Bookings, "bookings", "",
		"`FILE` to which the function appends a line of JSON for each payment that it books, "+
			`{"payment":"…","request":"…","token":1,"attempt":1}: the report names the payments that were `+
			"booked more than once, each with the kill that caused it")
	fs.BoolVar(&l.layer, "layer", false,
		"run the --function behind the layer, which gives it each key once")
	fs.StringVar(&l.opt.Invoke, "invoke", "",
		"the `URL` of a Lambda Invoke endpoint instead, such as http://127.0.0.1:4566")
	fs.StringVar(&l.opt.FunctionName, "function-name", "",
		"the function's `NAME` (default idemsk-local; at --invoke: function)")
	secondsVar(fs, &l.opt.ESM.Timeout, "timeout", l.opt.ESM.Timeout, "the function's `TIMEOUT`, 30 or 30s")
	fs.DurationVar(&l.opt.InitTimeout, "init-timeout", 0,
		"the longest `TIME` until a new function process requests its first event (default: 10s, as on AWS)")
	fs.StringVar(&l.opt.Store, "store", local.StoreFake,
		"`WHERE` the function's tables are: fake (in this process), the URL of a DynamoDB, PostgreSQL or "+
			"Redis, postgres or redis\nfor the one at IDEMSK_STORE_URL, or none: the function gets only "+
			"Lambda's variables, PATH and --env")
	fs.IntVar(&l.opt.Ports.DynamoDB, "dynamodb-port", 0,
		"the `PORT` on 127.0.0.1 of the DynamoDB in this process (default: a free port)")
	fs.Func("create-table",
		"create another table in the DynamoDB in this process: `NAME=KEY`, where KEY is its partition key, "+
			"a string;\nmay be repeated",
		func(text string) error { l.opt.Tables = append(l.opt.Tables, text); return nil })
	fs.IntVar(&l.opt.Ports.SQS, "sqs-port", 0,
		"the `PORT` on 127.0.0.1 of the SQS in this process (default: a free port)")
	fs.Func("env",
		"set an environment variable of the function: `NAME=VALUE`, or NAME to pass it on; may be repeated",
		func(text string) error {
			if value, set := os.LookupEnv(text); set {
				text += "=" + value
			}
			l.opt.Env = append(l.opt.Env, text)
			return nil
		})
	fs.StringVar(&l.logFile, "log", "",
		"the `FILE` for what the function prints (default: a temporary one, kept for a day\nif the run or "+
			"an invocation fails)")
	l.Declare(fs)
}

func (l *invocation) declareRun(fs *flag.FlagSet) {
	fs.BoolVar(&l.opt.UntilDrained, "until-drained", false,
		"exit when all records are delivered and committed")
	fs.StringVar(&l.ui, "ui", "",
		"serve the page of the run at this `ADDRESS`, or off (default "+console.Address+
			" or a free port; off with\n--until-drained and --events). An address that is not on loopback "+
			"needs a password in IDEMSK_UI_PASSWORD")
	fs.BoolVar(&l.opt.Prove, "prove", false,
		"at the end compare the example function's ledger with the records; exit status 1 if it differs")
	fs.BoolVar(&l.onLetters, "fail-on-dead-letters", false,
		"exit status 1 if there are unexpected dead letters (default: with --prove). Expected are only "+
			"those of\npayments that "+
			"ask the example for their failure, as a few generated ones do")
	fs.BoolVar(&l.opt.Compare, "compare", false,
		"with --prove: deliver the same records a second time, to the function without idemsk")
	fs.StringVar(&l.opt.Traces, "traces", "",
		"write what the DynamoDB in this process did to the keys with the most writes to this `FOLDER`,\n"+
			"for scripts/trace.sh")
	f := &l.opt.Faults
	fs.Float64Var(&f.Duplicate, "duplicate", 0, "the `CHANCE` that a completed batch is delivered again")
	fs.Float64Var(&f.Kill, "kill", 0,
		"the `CHANCE` that the process is killed during an invocation; with --host process: one of them, "+
			"per 100 records")
	fs.StringVar(&f.KillAt, "kill-at", local.KillAny,
		"the `MOMENT` of a --kill: any, or before-effect or after-effect: immediately before or after a "+
			"write to\na table other than that of the keys (--store fake)")
	fs.Float64Var(&f.Concurrent, "concurrent-duplicates", 0,
		"the `CHANCE` that an invocation is made twice at the same time, as in a rebalance; with\n"+
			"--host process: that one is paused until others have its partitions, per 100 records")
	fs.DurationVar(&f.Slow, "slow", 0, "delay invocations by up to this `TIME`")
}
