package telemetry_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/relay"
	"github.com/idemsk/idemsk/telemetry"
)

const (
	payments = "payments"
	credited = "credited"
)

// fixture is an SDK that keeps what is recorded, and a Telemetry.
type fixture struct {
	*testing.T
	*telemetry.Telemetry
	spans   *tracetest.SpanRecorder
	tracer  trace.Tracer
	metrics *sdkmetric.ManualReader
	letters letters
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, spans: tracetest.NewSpanRecorder(), metrics: sdkmetric.NewManualReader()}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(f.spans))
	f.tracer = provider.Tracer("test")
	var err error
	f.Telemetry, err = telemetry.New(telemetry.Config{
		TracerProvider: provider, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(f.metrics)),
		Group: "ledger", RecordSpans: true, PollSpans: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// engine returns an engine on a new store.
func (f *fixture) engine() *idem.Engine {
	f.Helper()
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{Observer: f})
	if err != nil {
		f.Fatal(err)
	}
	return engine
}

// invoke handles records as a function does, with the options of a Telemetry.
func (f *fixture) invoke(handler kafka.HandlerFunc, records ...kafka.Record) {
	f.Helper()
	f.invokeOn(f.engine(), handler, records...)
}

// invokeOn is invoke with an engine.
func (f *fixture) invokeOn(engine *idem.Engine, handler kafka.HandlerFunc, records ...kafka.Record) {
	f.Helper()
	function, err := msk.New(engine, f.Handler(handler),
		eventsource.Config{Failures: eventsource.FailPartial, Records: kafka.Config{
			Namespace: "ledger", Batch: f.Batch, DeadLetters: &f.letters,
			Logger: slog.New(slog.DiscardHandler),
		}})
	if err != nil {
		f.Fatal(err)
	}
	event := &msk.Event{Partitions: [][]kafka.Record{records}}
	if _, err := function.Process(f.Context(), event); err != nil {
		f.Fatal(err)
	}
}

// span returns the only span of a name.
func (f *fixture) span(name string, kind trace.SpanKind) sdktrace.ReadOnlySpan {
	f.Helper()
	var found []sdktrace.ReadOnlySpan
	for _, s := range f.spans.Ended() {
		if s.Name() == name && s.SpanKind() == kind {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		f.Fatalf("%d spans %q of %d", len(found), name, len(f.spans.Ended()))
	}
	return found[0]
}

// letters keeps dead letters.
type letters struct {
	mu  sync.Mutex
	all []kafka.DeadLetter
}

// Send implements kafka.DeadLetters.
func (l *letters) Send(_ context.Context, letter kafka.DeadLetter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, letter)
	return nil
}

// record returns a record that was sent in a span.
func record(ctx context.Context, topic, key string) kafka.Record {
	r := kafka.Record{Topic: topic, Value: []byte("{}"),
		Headers: []kafka.Header{{Key: "idempotency-key", Value: []byte(key)}}}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for name, value := range carrier {
		r.Headers = append(r.Headers, kafka.Header{Key: name, Value: []byte(value)})
	}
	return r
}

// has checks attributes of a span.
func has(t *testing.T, s sdktrace.ReadOnlySpan, want ...attribute.KeyValue) {
	t.Helper()
	for _, a := range want {
		if !slices.Contains(s.Attributes(), a) {
			t.Errorf("span %q has not %v: %v", s.Name(), a, s.Attributes())
		}
	}
}

// written keeps the events of a transaction.
type written struct{ events []outbox.Event }

// Record implements outbox.Recorder.
func (w *written) Record(_ context.Context, events []outbox.Event) error {
	w.events = append(w.events, events...)
	return nil
}

// One trace leads from the producer through a consumer process, its outbox, the relay and Kafka to a function
// that gets the event in a batch.
func TestOneTraceFromTheProducerToTheNextConsumer(t *testing.T) {
	f := newFixture(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, payments, credited))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	brokers := kgo.SeedBrokers(cluster.ListenAddrs()...)

	ctx, sending := f.tracer.Start(t.Context(), "send payments", trace.WithSpanKind(trace.SpanKindProducer))
	sent := record(ctx, payments, "p-17")
	f.produce(brokers, sent)
	sending.End()

	tx := &written{}
	f.consume(cluster.ListenAddrs(), func(ctx context.Context, _ kafka.Record) ([]byte, error) {
		return nil, outbox.Publish(outbox.NewContext(ctx, tx, 0),
			outbox.Event{Topic: credited, Value: []byte("{}")})
	})
	first := f.span("process payments", trace.SpanKindConsumer)

	sender, err := relay.New(relay.Config{Options: []kgo.Opt{brokers}})
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	for _, err := range sender.Send(t.Context(), tx.events) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var inside trace.SpanContext
	f.invoke(func(ctx context.Context, _ kafka.Record) ([]byte, error) {
		inside = trace.SpanContextFromContext(ctx)
		return nil, nil
	}, f.fetch(brokers, credited))

	var second, batch sdktrace.ReadOnlySpan
	for _, s := range f.spans.Ended() {
		switch {
		case s.Name() == "process credited" && len(s.Attributes()) > 0 &&
			slices.Contains(s.Attributes(), attribute.Int("messaging.batch.message_count", 1)):
			batch = s
		case s.Name() == "process credited":
			second = s
		}
	}
	if first == nil || second == nil || batch == nil {
		t.Fatalf("spans: %v", f.spans.Ended())
	}
	for _, link := range []struct {
		what        string
		child       sdktrace.ReadOnlySpan
		wantsParent trace.SpanContext
	}{{"the first consumer's", first, sending.SpanContext()},
		{"the second consumer's", second, first.SpanContext()}} {
		if link.child.SpanContext().TraceID() != sending.SpanContext().TraceID() ||
			link.child.Parent().SpanID() != link.wantsParent.SpanID() {
			t.Errorf("the parent of %s span is %v; want %v", link.what, link.child.Parent(), link.wantsParent)
		}
	}
	if inside.SpanID() != second.SpanContext().SpanID() {
		t.Errorf("the handler ran in %v; want %v", inside, second.SpanContext())
	}
	if len(batch.Links()) != 1 || batch.Links()[0].SpanContext.SpanID() != first.SpanContext().SpanID() {
		t.Errorf("the batch has the links %v; want one to %v", batch.Links(), first.SpanContext())
	}
	if len(second.Links()) != 1 || second.Links()[0].SpanContext.SpanID() != batch.SpanContext().SpanID() {
		t.Errorf("the record has the links %v; want one to its batch %v", second.Links(), batch.SpanContext())
	}
	poll := f.span("poll payments", trace.SpanKindClient)
	if len(poll.Links()) != 1 || poll.Links()[0].SpanContext.SpanID() != sending.SpanContext().SpanID() ||
		!poll.StartTime().Before(poll.EndTime()) {
		t.Errorf("the poll has the links %v and took %v; want a link to %v", poll.Links(),
			poll.EndTime().Sub(poll.StartTime()), sending.SpanContext())
	}
	if len(first.Links()) != 1 || first.Links()[0].SpanContext.SpanID() != poll.SpanContext().SpanID() {
		t.Errorf("the first record has the links %v; want one to its poll %v", first.Links(),
			poll.SpanContext())
	}
	has(t, poll, attribute.String("messaging.system", "kafka"),
		attribute.String("messaging.operation.name", "poll"),
		attribute.String("messaging.operation.type", "receive"),
		attribute.String("messaging.destination.name", payments),
		attribute.Int("messaging.batch.message_count", 1),
		attribute.String("messaging.consumer.group.name", "ledger"))
	has(t, first, attribute.String("messaging.system", "kafka"),
		attribute.String("messaging.operation.name", "process"),
		attribute.String("messaging.operation.type", "process"),
		attribute.String("messaging.destination.name", payments),
		attribute.String("messaging.destination.partition.id", "0"),
		attribute.Int("messaging.kafka.offset", 0),
		attribute.String("messaging.consumer.group.name", "ledger"), attribute.Int("idemsk.attempt", 1))
}

// produce sends a record.
func (f *fixture) produce(brokers kgo.Opt, r kafka.Record) {
	f.Helper()
	client, err := kgo.NewClient(brokers)
	if err != nil {
		f.Fatal(err)
	}
	defer client.Close()
	out := &kgo.Record{Topic: r.Topic, Value: r.Value}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader(h))
	}
	if err := client.ProduceSync(f.Context(), out).FirstErr(); err != nil {
		f.Fatal(err)
	}
}

// fetch returns the first record of a topic.
func (f *fixture) fetch(brokers kgo.Opt, topic string) kafka.Record {
	f.Helper()
	client, err := kgo.NewClient(brokers, kgo.ConsumeTopics(topic))
	if err != nil {
		f.Fatal(err)
	}
	defer client.Close()
	fetches := client.PollFetches(f.Context())
	if fetches.Err() != nil || fetches.NumRecords() != 1 {
		f.Fatalf("%d records: %v", fetches.NumRecords(), fetches.Err())
	}
	got := fetches.Records()[0]
	r := kafka.Record{Topic: got.Topic, Partition: got.Partition, Offset: got.Offset, Value: got.Value}
	for _, h := range got.Headers {
		r.Headers = append(r.Headers, kafka.Header(h))
	}
	return r
}

// both is two observers as one.
type both [2]idem.Observer

func (b both) Observe(ctx context.Context, e idem.Event) {
	b[0].Observe(ctx, e)
	b[1].Observe(ctx, e)
}

// consume runs a consumer process until one record is settled.
func (f *fixture) consume(brokers []string, handler kafka.HandlerFunc) {
	f.Helper()
	ended := make(chan struct{})
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{Observer: both{f, ends(ended)}})
	if err != nil {
		f.Fatal(err)
	}
	c, err := consumer.New(engine, f.Handler(handler), consumer.Config{
		Brokers: brokers, Topics: []string{payments}, Group: "ledger", Logger: slog.New(slog.DiscardHandler),
		Records: kafka.Config{Poll: f.Poll},
	})
	if err != nil {
		f.Fatal(err)
	}
	ctx, stop := context.WithCancel(f.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	<-ended
	stop()
	if err := <-done; err != nil {
		f.Fatal(err)
	}
}

// ends is closed at the first end of a task.
type ends chan struct{}

// Observe implements idem.Observer.
func (e ends) Observe(_ context.Context, event idem.Event) {
	if event.Step == observe.End {
		close(e)
	}
}

// A failed record is an error of its span and of its batch. Its dead letter has the trace of the producer.
func TestTraceOfAFailure(t *testing.T) {
	f := newFixture(t)
	ctx, sending := f.tracer.Start(t.Context(), "send payments")
	bad, later := record(ctx, payments, "bad"), record(ctx, payments, "later")
	later.Offset = 1
	f.invoke(func(_ context.Context, r kafka.Record) ([]byte, error) {
		if r.Offset == 0 {
			return nil, idem.Permanent(errors.New("no such account"))
		}
		return nil, errors.New("try again")
	}, bad, later)
	want := map[string]codes.Code{"0": codes.Error, "1": codes.Error, "batch": codes.Error}
	types := map[string]string{}
	for _, s := range f.spans.Ended() {
		at := "batch"
		for _, a := range s.Attributes() {
			switch a.Key {
			case "messaging.kafka.offset":
				at = a.Value.String()
			case "error.type":
				types[s.SpanContext().SpanID().String()] = a.Value.AsString()
			}
		}
		if s.Status().Code != want[at] {
			t.Errorf("the span of %s has the status %v; want %v", at, s.Status(), want[at])
		}
		delete(want, at)
	}
	if len(want) > 0 || len(types) != 3 {
		t.Errorf("without a span: %v; error types %v", want, types)
	}
	if len(f.letters.all) != 1 || !slices.ContainsFunc(f.letters.all[0].Headers,
		func(h kafka.DeadHeader) bool {
			return h.Key == "traceparent" && len(h.Value) == 55 &&
				string(h.Value[3:35]) == sending.SpanContext().TraceID().String()
		}) {
		t.Errorf("dead letters: %+v", f.letters.all)
	}
}

// Without an SDK nothing is recorded, and the events of the outbox have the trace of the producer.
func TestTraceIsPassedOnWithoutAnSDK(t *testing.T) {
	tel, err := telemetry.New(telemetry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, _ := newFixture(t).tracer.Start(t.Context(), "send payments")
	r := record(ctx, payments, "p-17")
	tx := &written{}
	_, err = tel.Handler(func(ctx context.Context, _ kafka.Record) ([]byte, error) {
		return nil, outbox.Publish(outbox.NewContext(ctx, tx, 0), outbox.Event{Topic: credited})
	})(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	want := r.Headers[len(r.Headers)-1]
	if got := tx.events[0].Headers; len(got) != 1 || got[0].Key != "traceparent" ||
		string(got[0].Value) != string(want.Value) {
		t.Errorf("%q; want %q", got, want)
	}
}

// A batch has one link to each span of a producer, 128 at most.
func TestBatchLinksEachProducerOnce(t *testing.T) {
	f := newFixture(t)
	var records []kafka.Record
	for range 200 {
		ctx, _ := f.tracer.Start(t.Context(), "send")
		records = append(records, record(ctx, payments, "a"), record(ctx, credited, "b"))
	}
	records = append(records, kafka.Record{Topic: payments})
	_, end := f.Batch(t.Context(), [][]kafka.Record{records[:3], records[3:]})
	end(&kafka.Batch{})
	batch := f.span("process", trace.SpanKindConsumer)
	if len(batch.Links()) != 128 {
		t.Errorf("%d links; want 128", len(batch.Links()))
	}
	has(t, batch, attribute.Int("messaging.batch.message_count", 401))
}

// The options of a host trace batches, and polls if they are asked for.
func TestOptions(t *testing.T) {
	for _, polls := range []bool{false, true} {
		tel, err := telemetry.New(telemetry.Config{PollSpans: polls})
		if err != nil {
			t.Fatal(err)
		}
		base := app.NewBase(app.NewVars(func(string) (string, bool) { return "", false }), app.Config{},
			io.Discard, tel.Option())
		records := base.Config.Records
		if records.Batch == nil || (records.Poll != nil) != polls || base.Config.Engine.Observer == nil {
			t.Errorf("with PollSpans %v: %+v", polls, records)
		}
	}
}
