package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/cmd/idemsk-consumer/internal/childcall"
	"github.com/idemsk/idemsk/cmd/idemsk-consumer/internal/webcall"
	"github.com/idemsk/idemsk/cmd/internal/flagerror"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/layercall"
	"github.com/idemsk/idemsk/internal/text/redact"
	"github.com/idemsk/idemsk/internal/text/words"
	"github.com/idemsk/idemsk/kafka"
)

// usage is followed by the URL of the guide.
const usage = `idemsk-consumer reads Kafka topics and calls a handler in any language once for each key.

  idemsk-consumer --http URL          calls a web service: POST, with one record or more
  idemsk-consumer --function COMMAND  runs a Lambda function, and calls it with events

  --calls N      calls at once: requests (32; 1 if IDEMSK_CALL_RECORDS allows several records in a call), or
                 processes of the function (1)
  --timeout 30s  time for the answer to a call; of a function 1s to 15m
  --version      prints the version

Variables configure everything else: at least IDEMSK_KAFKA_BROKERS, IDEMSK_KAFKA_TOPICS and
IDEMSK_KAFKA_GROUP. The guide has the pages "A consumer process for any language" and "Configuration":
`

// The bounds of options.
const (
	maxCalls       = 1000
	defaultTimeout = 30 * time.Second
	minTimeout     = time.Second
	maxTimeout     = 15 * time.Minute // of a function
)

// options are those of the command line.
type options struct {
	url      string
	function string
	command  []string // the words of function
	calls    int
	timeout  time.Duration
	version  bool
}

// parse returns the options, or an error that names each one that is wrong.
func parse(args []string) (*options, error) {
	o := new(options)
	f := flag.NewFlagSet("idemsk-consumer", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.url, "http", "", "")
	f.StringVar(&o.function, "function", "", "")
	f.IntVar(&o.calls, "calls", 0, "")
	f.DurationVar(&o.timeout, "timeout", defaultTimeout, "")
	f.BoolVar(&o.version, "version", false, "")
	if err := f.Parse(args); err != nil {
		return o, flagerror.Explain(f, err)
	}
	if o.version {
		return o, nil
	}
	calls := false
	f.Visit(func(given *flag.Flag) { calls = calls || given.Name == "calls" })
	return o, o.check(f.Args(), calls)
}

// check returns an error for options that don't go together.
func (o *options) check(rest []string, calls bool) error {
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for i, word := range rest {
		rest[i] = redact.Text(word)
	}
	require(len(rest) == 0, "%q is no option: quote the command of --function as one word", rest)
	require((o.url == "") != (o.function == ""),
		"give a handler: --http with the URL of a web service, or --function with a command; not both")
	require(!calls || o.calls >= 1 && o.calls <= maxCalls, "--calls is %d: want 1 to %d", o.calls, maxCalls)
	require(o.timeout >= minTimeout && (o.timeout <= maxTimeout || o.function == ""),
		"--timeout is %s: want at least %s, and with --function at most %s", o.timeout, minTimeout, maxTimeout)
	if o.function != "" {
		var err error
		o.command, err = words.Split(o.function)
		require(err == nil, "the command of --function can't be split into words: %w", err)
	}
	return errors.Join(errs...)
}

// build is the app.Build of the program.
func (o *options) build(ctx context.Context, base *app.Base) (kafka.Handler, error) {
	if err := base.Vars.Err(); err != nil {
		return nil, err // no process of a function is started in vain
	}
	base.Vars.WarnUnused(ctx, base.Logger, "--calls is the number of calls at once", "IDEMSK_CONCURRENCY")
	calls := cmp.Or(o.calls, 1)
	if o.calls == 0 && o.url != "" && base.CallRecords(1) == 1 {
		calls = idem.DefaultConcurrency
	}
	runtime, err := o.runtime(ctx, base, calls)
	if err != nil {
		return nil, err
	}
	c := &layercall.Caller{
		Runtime: runtime, Cluster: base.Vars.String("IDEMSK_KAFKA_BROKERS", ""), MaxEvent: childcall.MaxEvent,
	}
	return layercall.Handler(base, calls, c.Each, c.Many), nil
}

// runtime returns what calls the handler, and registers what ends it.
func (o *options) runtime(ctx context.Context, base *app.Base, calls int) (layercall.Runtime, error) {
	if o.url != "" {
		client, err := webcall.New(o.url, o.timeout)
		if err != nil {
			return nil, fmt.Errorf("--http: %w", err)
		}
		base.OnClose(client.Close)
		return client.Call, nil
	}
	base.SharesMemory = true // with the function's processes
	pool, err := childcall.Start(ctx, childcall.Config{
		Command: o.command, Processes: calls, Timeout: o.timeout, Name: base.Config.Function,
		Env: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		return nil, fmt.Errorf("--function: %w", err)
	}
	base.OnClose(func() { pool.Close(context.WithoutCancel(ctx)) })
	return pool.Call, nil
}
