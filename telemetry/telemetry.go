package telemetry

import (
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/idemsk/idemsk/app"
)

// scope is the name of the instrumentation scope.
const scope = "github.com/idemsk/idemsk/telemetry"

// Config configures a Telemetry. Every field's zero value stands for its default.
type Config struct {
	// TracerProvider and MeterProvider are of an SDK (default: those that otel.SetTracerProvider and
	// otel.SetMeterProvider have set or will set; without them nothing is recorded, and the trace context is
	// still passed on).
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// Propagator reads and writes the trace context in headers (default: propagation.TraceContext, the header
	// traceparent of W3C).
	Propagator propagation.TextMapPropagator
	// Group is the name of the consumer group, an attribute of spans and metrics. It is left out if it is
	// empty.
	Group string
	// RecordSpans makes a span for each call of the handler. Otherwise only batches have spans, which process
	// hosts do not have.
	RecordSpans bool
	// PollSpans makes a span for each poll of a consumer process that returned records.
	PollSpans bool
}

// Telemetry traces and measures one consumer. It is safe for concurrent use.
type Telemetry struct {
	tracer      trace.Tracer
	propagator  propagation.TextMapPropagator
	recordSpans bool
	pollSpans   bool
	process     []attribute.KeyValue // of the spans of batches and records, without their messaging system
	poll        []attribute.KeyValue // of the spans of polls
	meters      *meters
}

// New returns a Telemetry. It returns an error if the provider refuses an instrument.
func New(cfg Config) (*Telemetry, error) {
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = otel.GetMeterProvider()
	}
	if cfg.Propagator == nil {
		cfg.Propagator = propagation.TraceContext{}
	}
	operation := func(name string, more ...attribute.KeyValue) []attribute.KeyValue {
		more = append(more, semconv.MessagingOperationName(name))
		if cfg.Group != "" {
			more = append(more, semconv.MessagingConsumerGroupName(cfg.Group))
		}
		return more
	}
	m, err := newMeters(cfg.MeterProvider.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL)),
		operation("process"))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return &Telemetry{
		tracer:     cfg.TracerProvider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
		propagator: cfg.Propagator, recordSpans: cfg.RecordSpans, pollSpans: cfg.PollSpans, meters: m,
		process: operation("process", semconv.MessagingOperationTypeProcess),
		poll:    operation("poll", semconv.MessagingOperationTypeReceive, semconv.MessagingSystemKafka),
	}, nil
}

// Option returns the option of a host, for app/lambda and app/process.
func (t *Telemetry) Option() app.Option {
	if !t.pollSpans {
		return app.WithObserver(struct{ app.Tracer }{t}) // without Poll
	}
	return app.WithObserver(t)
}
