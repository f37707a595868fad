package layerproxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/internal/layercall"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
)

// layer takes invocations from Lambda and gives them to the function.
type layer struct {
	upstream *upstream
	api      *api
	gone     <-chan struct{}                  // closed when the runtime has ended
	consumer func() (*lambda.Function, error) // of events of Kafka and SQS
	prepared func() error
	logger   *slog.Logger // that of the consumer
	warned   atomic.Bool
}

func newLayer(up *upstream, api *api, gone <-chan struct{}, options []lambda.Option) *layer {
	l := &layer{upstream: up, api: api, gone: gone}
	l.consumer = sync.OnceValues(func() (*lambda.Function, error) {
		build := func(ctx context.Context, base *app.Base) (kafka.Handler, error) {
			l.logger = base.Logger
			return layercall.Build(ctx, base)
		}
		return lambda.New(context.Background(), build, app.Environment(), os.Stdout, os.Stderr, options...)
	})
	l.prepared = sync.OnceValue(l.prepare)
	return l
}

// prepare builds the consumer while the runtime starts. In a function with SnapStart it is built at the first
// event instead: copies of a snapshot would share the names under which they claim keys, and the connections.
// https://docs.aws.amazon.com/lambda/latest/dg/snapstart-uniqueness.html
func (l *layer) prepare() error {
	if os.Getenv("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start" {
		return nil
	}
	_, err := l.consumer()
	if err == nil {
		return nil
	}
	return errors.Join(err, l.upstream.failInit(context.Background(), "InvalidConfiguration", err.Error()))
}

// run handles invocations, one after another, until ctx ends. After an error this process must end.
func (l *layer) run(ctx context.Context) error {
	if err := l.prepared(); err != nil {
		return err
	}
	for {
		var asked ask
		select {
		case asked = <-l.api.asked:
		case <-ctx.Done():
			return nil
		}
		e, err := l.upstream.next(ctx, asked.header)
		if err != nil && ctx.Err() != nil {
			return nil //nolint:nilerr // the request was cancelled
		}
		if err == nil {
			err = l.handle(ctx, e)
		}
		if err != nil {
			return err
		}
		close(asked.done)
	}
}

func (l *layer) handle(ctx context.Context, e *event) error {
	switch {
	case e.status != http.StatusOK:
	case layercall.IsProtected(e.payload):
		return l.invoke(ctx, e)
	default:
		l.warnOfRecords(ctx, e)
	}
	l.api.pass(ctx, l.gone, e)
	return nil
}

// warnOfRecords logs the first event that passes through although it has records of Kafka or SQS.
func (l *layer) warnOfRecords(ctx context.Context, e *event) {
	if l.warned.Load() || !layercall.HasRecords(e.payload) {
		return
	}
	if _, err := l.consumer(); err != nil || l.warned.Swap(true) {
		return // another event says what is wrong
	}
	l.logger.WarnContext(lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: e.id()}),
		"an event with records of Kafka or SQS passes through unprotected, as all others of its kind: the layer protects the events "+
			"of Lambda's event source mappings, not those of EventBridge Pipes, or without an eventSource")
}

// invoke handles an invocation with an event of Kafka or SQS. It continues when ctx ends, so that what the
// function did is settled.
func (l *layer) invoke(ctx context.Context, e *event) error {
	l.api.keep(e.id())
	defer l.api.forget(e.id())
	deadline, err := e.deadline()
	if err != nil {
		return err
	}
	// for the lines of the log
	alive := lambdacontext.NewContext(context.WithoutCancel(ctx),
		&lambdacontext.LambdaContext{AwsRequestID: e.id()})
	fn, err := l.consumer()
	if err != nil {
		return errors.Join(err, l.upstream.fail(alive, e.id(), "InvalidConfiguration", err.Error()))
	}
	inv := &invocation{api: l.api, event: e, gone: l.gone}
	calling, err := layercall.NewContext(alive, e.payload, inv.call)
	if err != nil {
		return l.upstream.fail(alive, e.id(), "InvalidEvent", err.Error())
	}
	limited, cancel := context.WithDeadline(calling, deadline)
	defer cancel()
	payload, err := fn.Invoke(limited, e.payload)
	if err == nil {
		return l.upstream.answer(alive, e.id(), payload)
	}
	var overrun messages.InvokeResponse_Error
	var failed *eventsource.BatchError
	switch {
	case errors.As(err, &overrun):
		return errors.Join(fmt.Errorf("the process ends: %w", err),
			l.upstream.fail(alive, e.id(), overrun.Type, overrun.Message))
	case errors.As(err, &failed):
		return l.upstream.fail(alive, e.id(), "BatchError", err.Error())
	}
	return l.upstream.fail(alive, e.id(), "InvalidEvent", err.Error())
}
