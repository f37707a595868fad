package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/batch"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/awsclient"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/sqsdlq"
	"github.com/idemsk/idemsk/lambda/msk"
)

// Start runs a handler as this process's Lambda function. It returns only by ending the process.
func Start(handler msk.Handler, options ...Option) {
	StartFunc(func(context.Context, *Base) (msk.Handler, error) { return handler, nil }, options...)
}

// Build returns a function's handler. It records errors of its own environment variables in base.Vars, which are reported
// together with all others. Its own error is reported only if the variables are valid.
type Build func(ctx context.Context, base *Base) (msk.Handler, error)

// StartFunc is Start for a handler that needs the configuration, a logger, or AWS.
func StartFunc(build Build, options ...Option) {
	tuneMemory(os.LookupEnv)
	fn, err := New(context.Background(), build, Environment(), os.Stdout, os.Stderr, options...)
	if err != nil {
		fmt.Fprintf(os.Stderr, "idemsk: the function can't start:\n%v\n", err)
		os.Exit(1)
	}
	lambda.Start(fn)
}

// Base has the configuration, the logger and the clients from which a handler can be built.
type Base struct {
	Config Config
	Vars   *Vars
	Logger *slog.Logger
	awsCfg func(ctx context.Context) (aws.Config, error)
	opened []func() // called by Close, in the order in which they were registered
	passed *Store   // the configured store; nil if it is built in
}

// OnClose registers a function that Function.Close calls.
func (b *Base) OnClose(f func()) { b.opened = append(b.opened, f) }

func (b *Base) close() {
	for _, f := range slices.Backward(b.opened) {
		f()
	}
	b.opened = nil
}

// AWS returns the SDK's configuration, loaded once. Endpoints come from AWS_ENDPOINT_URL and the related variables.
func (b *Base) AWS(ctx context.Context) (aws.Config, error) { return b.awsCfg(ctx) }

// New creates a function from the environment variables. Metrics go to stdout, logs to stderr. It returns all errors of the
// configuration together.
func New(ctx context.Context, build Build, vars *Vars, stdout, stderr io.Writer, options ...Option) (*Function, error) {
	cfg := ReadConfig(vars, options...)
	base := &Base{Config: cfg, Vars: vars, Logger: newLogger(stderr, cfg.LogLevel), awsCfg: loadOnce(), passed: passed(options, cfg.Store)}
	consumer, err := base.build(ctx, build, stdout)
	if err != nil {
		base.close()
		return nil, err
	}
	return &Function{consumer: consumer, close: base.close}, nil
}

func (b *Base) build(ctx context.Context, build Build, stdout io.Writer) (*msk.Consumer, error) {
	handler, err := build(ctx, b)
	b.Vars.WarnUnread(ctx, b.Logger)
	if wrong := b.Vars.Err(); wrong != nil {
		return nil, wrong
	}
	if err != nil {
		return nil, fmt.Errorf("building the handler: %w", err)
	}
	return b.consumer(ctx, handler, stdout)
}

func (b *Base) consumer(ctx context.Context, handler msk.Handler, stdout io.Writer) (*msk.Consumer, error) {
	st, err := b.store(ctx)
	if err != nil {
		return nil, err
	}
	engine, err := idem.New(st, b.Config.Engine)
	if err != nil {
		return nil, err
	}
	cfg := msk.Config{Records: b.Config.Records, Failures: b.Config.Failures, Report: msk.EMF(stdout, b.Config.Function)}
	cfg.Records.Logger = b.Logger
	if b.Config.DeadLetterQueueURL != "" {
		if cfg.Records.DeadLetters, err = b.deadLetters(ctx); err != nil {
			return nil, err
		}
	} else {
		b.Logger.LogAttrs(ctx, slog.LevelWarn,
			"no dead letters are configured (IDEMSK_DEAD_LETTER_QUEUE_URL): a record that always fails blocks its partition")
	}
	return msk.New(engine, handler, cfg)
}

func (b *Base) store(ctx context.Context) (store.Store, error) {
	if b.passed != nil {
		return b.passed.Open(ctx, b)
	}
	switch b.Config.Store {
	case StoreMemory:
		b.Logger.LogAttrs(ctx, slog.LevelWarn, "IDEMSK_STORE=memory protects nothing beyond this process: for local runs only")
		return memstore.New(memory()), nil
	case StoreNone:
		b.Logger.LogAttrs(ctx, slog.LevelWarn, "IDEMSK_STORE=none protects nothing: every delivery runs the handler, for comparison only")
		return memstore.New(memstore.Config{}), nil
	}
	awsCfg, err := b.AWS(ctx)
	if err != nil {
		return nil, err
	}
	return dynamostore.New(dynamostore.NewClient(awsCfg), b.Config.dynamo())
}

// The attempts to send a dead letter, and the longest pause between them: with dynamostore.AttemptTimeout, about six seconds if
// SQS does not answer.
const (
	sqsAttempts   = 3
	sqsMaxBackoff = 200 * time.Millisecond
)

func (b *Base) deadLetters(ctx context.Context) (kafka.DeadLetters, error) {
	awsCfg, err := b.AWS(ctx)
	if err != nil {
		return nil, err
	}
	client := sqs.NewFromConfig(awsCfg, func(o *sqs.Options) {
		o.HTTPClient = awsclient.New(awsCfg.HTTPClient, dynamostore.AttemptTimeout)
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts, r.MaxBackoff = sqsAttempts, sqsMaxBackoff })
	})
	return sqsdlq.New(client, sqsdlq.Config{URL: b.Config.DeadLetterQueueURL, MaxBytes: b.Config.DeadLetterMaxBytes})
}

// loadOnce loads the SDK's configuration at the first call, so that a function without AWS does not wait for it.
func loadOnce() func(ctx context.Context) (aws.Config, error) {
	var cfg *aws.Config
	return func(ctx context.Context) (aws.Config, error) {
		if cfg == nil {
			loaded, err := config.LoadDefaultConfig(ctx)
			if err != nil {
				return aws.Config{}, fmt.Errorf("loading the AWS configuration: %w", err)
			}
			cfg = &loaded
		}
		return *cfg, nil
	}
}

func newLogger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}

// Function is a consumer as a lambda.Handler.
type Function struct {
	consumer *msk.Consumer
	close    func()
}

// Close closes what the function holds open. In Lambda the process ends instead.
func (f *Function) Close() { f.close() }

var _ lambda.Handler = (*Function)(nil)

// Invoke implements lambda.Handler. If a handler did not return, it ends the process: in a sandbox that is thawed for the next
// invocation, the old handler would continue.
func (f *Function) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	out, err := f.consumer.Invoke(ctx, payload)
	if errors.Is(err, batch.ErrOverrun) {
		return nil, messages.InvokeResponse_Error{Message: err.Error(), Type: "Overrun", ShouldExit: true}
	}
	return out, err
}
