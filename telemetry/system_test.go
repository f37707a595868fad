package telemetry_test

import (
	"context"
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/sqs"
)

// Spans and metrics of a queue's messages are of SQS, also in a function that reads Kafka too.
func TestMessagesOfAQueueAreOfSQS(t *testing.T) {
	f := newFixture(t)
	handler := func(context.Context, kafka.Record) ([]byte, error) { return nil, nil }
	consumer, err := sqs.New(f.engine(), f.Handler(handler), eventsource.Config{Records: kafka.Config{
		Namespace: "ledger", Key: kafka.RecordKey, Batch: f.Batch, DeadLetters: &f.letters,
		Logger: slog.New(slog.DiscardHandler),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := consumer.Invoke(t.Context(), []byte(`{"Records":[{"messageId":"m-1","body":"{}",`+
		`"attributes":{"MessageGroupId":"a"},"eventSource":"aws:sqs",`+
		`"eventSourceARN":"arn:aws:sqs:us-east-1:123456789012:payments"}]}`)); err != nil {
		t.Fatal(err)
	}
	system := attribute.String("messaging.system", "aws_sqs")
	spans := f.spans.Ended()
	if len(spans) != 2 {
		t.Fatalf("%d spans; want those of the message and of the batch", len(spans))
	}
	for _, span := range spans {
		if span.Name() != "process payments" || span.SpanKind() != trace.SpanKindConsumer {
			t.Errorf("the span %s is of the kind %s", span.Name(), span.SpanKind())
		}
		has(t, span, system, attribute.String("messaging.destination.name", payments))
	}
	has(t, spans[0], attribute.String("messaging.message.id", "m-1"))
	for _, a := range spans[0].Attributes() {
		if a.Key == "messaging.kafka.offset" || a.Key == "messaging.destination.partition.id" {
			t.Errorf("the span of the message has the attribute %s", a.Key)
		}
	}
	f.ofSystem(system)
}

// ofSystem checks the messaging system of all metrics.
func (f *fixture) ofSystem(want attribute.KeyValue) {
	f.Helper()
	var all metricdata.ResourceMetrics
	if err := f.metrics.Collect(f.Context(), &all); err != nil {
		f.Fatal(err)
	}
	check := func(name string, set attribute.Set) {
		if got, _ := set.Value(want.Key); got != want.Value {
			f.Errorf("%s is of the messaging system %q; want %q", name, got.AsString(), want.Value.AsString())
		}
	}
	n := 0
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			n++
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				check(m.Name, data.DataPoints[0].Attributes)
			case metricdata.Sum[int64]:
				check(m.Name, data.DataPoints[0].Attributes)
			}
		}
	}
	if n == 0 {
		f.Error("no metrics")
	}
}
