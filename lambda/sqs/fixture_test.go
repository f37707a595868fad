package sqs_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/sqs"
)

var errBoom = errors.New("boom")

const (
	standard = "payments"
	fifo     = "payments.fifo"
)

// fixture is a consumer with its surroundings. A test sets engine and cfg before the first delivery.
type fixture struct {
	testing.TB
	engine   idem.Config
	cfg      eventsource.Config
	store    *memstore.Store
	log      bytes.Buffer
	reports  []kafka.Report
	consumer *sqs.Consumer

	mu      sync.Mutex
	letters []kafka.DeadLetter
	calls   []string                                        // the bodies, in the order of the calls
	handle  func(ctx context.Context, r kafka.Record) error // after the call was noted
}

func newFixture(t testing.TB) *fixture {
	f := &fixture{TB: t, store: memstore.New(memstore.Config{}), engine: idem.Config{RetryDelay: -1}}
	f.handle = func(context.Context, kafka.Record) error { return nil }
	f.cfg = eventsource.Config{
		Records: kafka.Config{Namespace: "ledger", DeadLetters: f,
			Logger: slog.New(slog.NewJSONHandler(&f.log, nil))},
		Failures: eventsource.FailPartial,
		Report:   func(_ context.Context, r kafka.Report) { f.reports = append(f.reports, r) },
	}
	return f
}

// Send implements kafka.DeadLetters.
func (f *fixture) Send(_ context.Context, l kafka.DeadLetter) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.letters = append(f.letters, l)
	return nil
}

func (f *fixture) each(ctx context.Context, r kafka.Record) ([]byte, error) {
	f.mu.Lock()
	f.calls = append(f.calls, string(r.Value))
	f.mu.Unlock()
	return nil, f.handle(ctx, r)
}

// start creates the consumer of a new process.
func (f *fixture) start() {
	f.Helper()
	engine, err := idem.New(f.store, f.engine)
	if err != nil {
		f.Fatal(err)
	}
	if f.consumer, err = sqs.New(engine, kafka.HandlerFunc(f.each), f.cfg); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) invoke(ctx context.Context, payload []byte) ([]string, error) {
	f.Helper()
	if f.consumer == nil {
		f.start()
	}
	out, err := f.consumer.Invoke(ctx, payload)
	if err != nil {
		return nil, err
	}
	return named(f, out), nil
}

// deliver delivers messages, and returns the IDs that the answer names.
func (f *fixture) deliver(messages ...message) []string {
	f.Helper()
	ids, err := f.invoke(context.Background(), event(messages...))
	if err != nil {
		f.Fatal(err)
	}
	return ids
}

// named reads an answer as the event source does.
func named(t testing.TB, answer []byte) (ids []string) {
	t.Helper()
	var fields struct {
		BatchItemFailures []struct{ ItemIdentifier string }
	}
	if err := json.Unmarshal(answer, &fields); err != nil || fields.BatchItemFailures == nil {
		t.Fatalf("the answer %s has no list: %v", answer, err)
	}
	for _, failure := range fields.BatchItemFailures {
		ids = append(ids, failure.ItemIdentifier)
	}
	return ids
}

// message is a message of a queue. Its body is its ID if it has none.
type message struct {
	queue, id, key, group, body string
	raw                         map[string]any // replaces fields of the JSON
}

// event returns the event of messages as Lambda writes it.
func event(messages ...message) []byte {
	records := make([]map[string]any, len(messages))
	for i, m := range messages {
		attributes := map[string]string{"ApproximateReceiveCount": "1", "SentTimestamp": "1767225600000",
			"SenderId": "AIDA", "ApproximateFirstReceiveTimestamp": "1767225600001"}
		if m.group != "" {
			attributes["MessageGroupId"] = m.group
			attributes["SequenceNumber"], attributes["MessageDeduplicationId"] = "18849496460467696128", m.id
		}
		own := map[string]any{}
		if m.key != "" {
			own["idempotency-key"] = map[string]any{"stringValue": m.key, "stringListValues": []string{},
				"binaryListValues": []string{}, "dataType": "String"}
		}
		records[i] = map[string]any{"messageId": m.id, "receiptHandle": "handle", "body": cmp.Or(m.body, m.id),
			"attributes": attributes, "messageAttributes": own, "md5OfBody": "", "eventSource": "aws:sqs",
			"eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:" + m.queue, "awsRegion": "us-east-1"}
		for name, value := range m.raw {
			records[i][name] = value
		}
	}
	out, err := json.Marshal(map[string]any{"Records": records})
	if err != nil {
		panic(err)
	}
	return out
}

// lines returns the lines of the log that contain a text.
func (f *fixture) lines(text string) []string {
	return slices.DeleteFunc(slices.Collect(strings.Lines(f.log.String())),
		func(line string) bool { return !strings.Contains(line, text) })
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v; want %v", what, got, want)
	}
}

func equalSlices[T comparable](t testing.TB, what string, got []T, want ...T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s are %v; want %v", what, got, want)
	}
}

func wantContains(t testing.TB, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not contain %q", text, want)
		}
	}
}
