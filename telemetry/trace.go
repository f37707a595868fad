package telemetry

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/outbox"
)

// Handler puts the trace of each record, which its headers name, into the context of next, with a span for
// the call if Config.RecordSpans is set. Events that next publishes through an outbox carry the trace on.
func (t *Telemetry) Handler(next kafka.HandlerFunc) kafka.HandlerFunc {
	return func(ctx context.Context, r kafka.Record) ([]byte, error) {
		batch := trace.SpanContextFromContext(ctx)
		ctx = t.propagator.Extract(ctx, headers{r.Headers})
		ctx = outbox.WithHeaders(ctx, t.headers)
		if !t.recordSpans {
			return next(ctx, r)
		}
		return t.traced(ctx, next, r, batch)
	}
}

// traced calls a handler in a span.
func (t *Telemetry) traced(ctx context.Context, next kafka.HandlerFunc, r kafka.Record,
	batch trace.SpanContext) ([]byte, error) {
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(t.process...),
		trace.WithAttributes(placeOf(&r)...),
	}
	if batch.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: batch}))
	}
	if r.Tombstone() {
		options = append(options, trace.WithAttributes(semconv.MessagingKafkaMessageTombstone(true)))
	}
	ctx, span := t.tracer.Start(ctx, "process "+r.Topic, options...)
	defer span.End()
	if a, ok := idem.AttemptFrom(ctx); ok {
		span.SetAttributes(attemptKey.Int(a.Number), tokenKey.Int64(a.Token))
	}
	result, err := next(ctx, r)
	if err != nil {
		span.SetAttributes(errorType(err))
		span.SetStatus(codes.Error, "") // without the text, as for a batch
	}
	return result, err
}

// The attributes of this project.
const (
	attemptKey   = attribute.Key("idemsk.attempt")
	tokenKey     = attribute.Key("idemsk.token")
	outcomeKey   = attribute.Key("idemsk.outcome")
	operationKey = attribute.Key("idemsk.operation")
)

// maxLinks is the number of links that an SDK keeps by default (OTEL_SPAN_LINK_COUNT_LIMIT).
const maxLinks = 128

// Batch makes a span for a batch, with links to the spans of its producers: at most 128, each once. It is for
// kafka.Config.Batch.
func (t *Telemetry) Batch(ctx context.Context, partitions [][]kafka.Record) (inside context.Context,
	end func(*kafka.Batch)) {
	system := systemOf(partitions)
	ctx, span := t.start(context.WithValue(ctx, systemKey{}, system), "process", partitions,
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(t.process...),
		trace.WithAttributes(system))
	return ctx, func(b *kafka.Batch) {
		defer span.End()
		if m := unsettled(b); m != nil {
			span.SetAttributes(errorType(m.Err()))
			span.SetStatus(codes.Error, m.Record.Source()) // the text of the error may have the key
		}
	}
}

// Poll makes a span for a poll of a consumer process, from its beginning until now, with links as those of
// Batch. It is for kafka.Config.Poll.
func (t *Telemetry) Poll(ctx context.Context, began time.Time, records []kafka.Record) kafka.Within {
	_, span := t.start(ctx, "poll", [][]kafka.Record{records},
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(t.poll...), trace.WithTimestamp(began))
	span.End()
	return func(ctx context.Context) context.Context {
		return trace.ContextWithSpanContext(ctx, span.SpanContext())
	}
}

// start starts a span for many records, with links to the spans of their producers.
func (t *Telemetry) start(ctx context.Context, name string, partitions [][]kafka.Record,
	options ...trace.SpanStartOption) (context.Context, trace.Span) {
	var links []trace.Link
	var topics []string
	seen := make(map[trace.SpanID]bool)
	n := 0
	for _, records := range partitions {
		n += len(records)
		for i := range records {
			r := &records[i]
			if !slices.Contains(topics, r.Topic) {
				topics = append(topics, r.Topic)
			}
			if len(links) == maxLinks {
				continue
			}
			from := trace.SpanContextFromContext(
				t.propagator.Extract(context.Background(), headers{r.Headers}))
			if from.IsValid() && !seen[from.SpanID()] {
				seen[from.SpanID()] = true
				links = append(links, trace.Link{SpanContext: from})
			}
		}
	}
	options = append(options, trace.WithLinks(links...),
		trace.WithAttributes(semconv.MessagingBatchMessageCount(n)))
	if len(topics) == 1 {
		name, options = name+" "+topics[0], append(options,
			trace.WithAttributes(semconv.MessagingDestinationName(topics[0])))
	}
	return t.tracer.Start(ctx, name, options...)
}

// unsettled returns the first record of a batch that is to be delivered again, nil if there is none.
func unsettled(b *kafka.Batch) *kafka.Message {
	for m := range b.Messages() {
		if !m.Settled() {
			return m
		}
	}
	return nil
}

// headers returns the headers that carry the trace context.
func (t *Telemetry) headers(ctx context.Context) (added []outbox.Header) {
	carrier := propagation.MapCarrier{}
	t.propagator.Inject(ctx, carrier)
	for _, name := range slices.Sorted(slices.Values(carrier.Keys())) {
		added = append(added, outbox.Header{Key: name, Value: []byte(carrier[name])})
	}
	return added
}

// headers are the headers of a record as a carrier to read from.
type headers struct{ all []kafka.Header }

var _ propagation.TextMapCarrier = headers{}

// Get returns the last value of a header, as a producer that adds one to those of another record expects.
func (h headers) Get(name string) string {
	for _, header := range slices.Backward(h.all) {
		if header.Key == name {
			return string(header.Value)
		}
	}
	return ""
}

// Set does nothing: records are not changed.
func (headers) Set(string, string) {}

// Keys returns the names of the headers.
func (h headers) Keys() []string {
	names := make([]string, len(h.all))
	for i := range h.all {
		names[i] = h.all[i].Key
	}
	return names
}
