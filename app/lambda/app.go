package lambda

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/internal/memory"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/lambda/sqs"
)

type (
	// Base has the configuration, the logger and the clients from which a handler can be built.
	Base = app.Base
	// Build returns a handler.
	Build = app.Build
	// Option adds an optional part, such as a store.
	Option = app.Option
)

// Start runs a handler as this process's Lambda function. It returns only by ending the process.
func Start(handler msk.Handler, options ...Option) { StartFunc(app.Handler(handler), options...) }

// StartFunc is Start for a handler that needs the configuration, a logger, or AWS: build gets them in a Base.
func StartFunc(build Build, options ...Option) {
	memory.Tune(memory.OfFunction())
	fn, err := New(context.Background(), app.DefaultLogger(build), app.Environment(), os.Stdout, os.Stderr,
		options...)
	if err != nil {
		fmt.Fprintf(os.Stderr, "idemsk: the function can't start:\n%v\n", err)
		os.Exit(1)
	}
	lambda.Start(fn)
}

// Config is the configuration of a function.
type Config struct {
	app.Config
	Failures eventsource.Failures // IDEMSK_FAILURES
}

// ReadConfig reads the configuration of a function with these options. Errors are collected in v.
func ReadConfig(v *app.Vars, options ...Option) Config {
	const name = "AWS_LAMBDA_FUNCTION_NAME"
	return Config{
		Config: app.ReadConfig(v, app.Defaults{Name: v.String(name, ""), NameVariable: name,
			Order: kafka.ByPartition}, options...),
		Failures: ReadFailures(v),
	}
}

// ReadFailures reads IDEMSK_FAILURES, for a Build whose handler depends on it.
func ReadFailures(v *app.Vars) eventsource.Failures {
	if v.OneOf("IDEMSK_FAILURES", "batch", "partial") == "partial" {
		return eventsource.FailPartial
	}
	return eventsource.FailBatch
}

// New creates a function from the environment variables. Metrics go to stdout, logs to stderr. It returns all
// errors of the configuration together.
func New(ctx context.Context, build Build, vars *app.Vars, stdout, stderr io.Writer,
	options ...Option) (*Function, error) {
	cfg := ReadConfig(vars, options...)
	cfg.LogAttrs = requestID
	base := app.NewBase(vars, cfg.Config, stderr, options...)
	parts, err := base.Parts(ctx, build)
	if err != nil {
		return nil, err
	}
	config := eventsource.Config{Records: parts.Records, Failures: cfg.Failures, Report: eventsource.EMF(stdout, cfg.Function)}
	f := &Function{close: base.Close, overrun: newOverrun(parts.Engine.Config().OverrunGrace(), base.Logger)}
	if f.records, err = msk.New(parts.Engine, parts.Handler, config); err == nil { // else sqs would say it again
		f.messages, err = sqs.New(parts.Engine, parts.Handler, config)
	}
	if err != nil {
		base.Close()
		return nil, err
	}
	return f, nil
}

// requestID returns the ID of the invocation, under the name that Lambda's own lines have.
func requestID(ctx context.Context) []slog.Attr {
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		return []slog.Attr{slog.String("requestId", lc.AwsRequestID)}
	}
	return nil
}

// Function is a lambda.Handler of the events of Kafka and SQS.
type Function struct {
	records  *msk.Consumer
	messages *sqs.Consumer
	close    func()
	overrun  *overrun
}

// Close closes what the function holds open. In Lambda the process ends instead.
func (f *Function) Close() {
	f.overrun.stop()
	f.close()
}

var _ lambda.Handler = (*Function)(nil)

// Invoke implements lambda.Handler. If a handler did not return, it ends the process: in a sandbox that is
// thawed for the next invocation, the old handler would continue. A process that handles several invocations
// at once takes no more of them, and ends when the others have ended, or when the handler's lease is about
// to end.
func (f *Function) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	invoke := f.records.Invoke
	if sqs.IsEvent(payload) {
		invoke = f.messages.Invoke
	}
	out, err := invoke(ctx, payload)
	if errors.Is(err, idem.ErrOverrun) {
		f.overrun.happened(ctx)
		return nil, messages.InvokeResponse_Error{Message: err.Error(), Type: "Overrun", ShouldExit: true}
	}
	return out, err
}
