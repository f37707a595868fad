package schema_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/schema"
	"github.com/idemsk/idemsk/schema/internal/paymentpb"
)

func protoSchema(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("internal/paymentpb/payment.proto")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// books has the payments that were booked, in order, and the dead letters.
type books struct {
	testing.TB
	last chan struct{} // closed when the payment "last" was booked

	mu      sync.Mutex
	booked  []payment
	letters []kafka.DeadLetter
}

func newBooks(t testing.TB) *books { return &books{TB: t, last: make(chan struct{})} }

func (b *books) book(p payment) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.booked = append(b.booked, p)
	if p.PaymentID == "last" {
		close(b.last)
	}
	return "receipt of " + p.PaymentID, nil
}

// Send implements kafka.DeadLetters.
func (b *books) Send(_ context.Context, l kafka.DeadLetter) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.letters = append(b.letters, l)
	return nil
}

// want checks which payments were booked.
func (b *books) want(ids ...string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	want := make([]payment, len(ids))
	for i, id := range ids {
		want[i] = aPayment(id)
	}
	if !slices.Equal(b.booked, want) {
		b.Errorf("booked:\n%+v\nwant:\n%+v", b.booked, want)
	}
	for _, l := range b.letters {
		b.Errorf("a dead letter of %s: %+v", l.Source(), l.Error)
	}
}

// handler returns the handler of a format.
func (b *books) handler(d *schema.Decoder, format string) kafka.HandlerFunc {
	if format == schema.Protobuf {
		return schema.Handler(d, func(_ context.Context, m *paymentpb.Payment, _ kafka.Record) (string,
			error) {
			return b.book(paymentOf(m))
		})
	}
	return schema.Handler(d, func(_ context.Context, p payment, _ kafka.Record) (string,
		error) {
		return b.book(p)
	})
}

// records returns the configuration with a key and a fingerprint by path.
func (b *books) records(d *schema.Decoder) kafka.Config {
	b.Helper()
	key, err := kafka.JSONKey("$.paymentId")
	if err != nil {
		b.Fatal(err)
	}
	fingerprint, err := kafka.JSONFingerprint("$.amount", "$.to.iban")
	if err != nil {
		b.Fatal(err)
	}
	return kafka.Config{
		Namespace: "ledger", Key: kafka.OfValue(d.JSON, key), Fingerprint: kafka.OfValue(d.JSON, fingerprint),
		DeadLetters: b,
		Order:       kafka.ByPartition, Logger: slog.New(slog.DiscardHandler),
	}
}

// engine returns an engine on a store of its own.
func (b *books) engine() *idem.Engine {
	b.Helper()
	engine, err := idem.New(memstore.New(memstore.Config{BatchSize: 25}), idem.Config{MaxAttempts: 2})
	if err != nil {
		b.Fatal(err)
	}
	return engine
}

// eventRecord is a record as the event source delivers it.
type eventRecord struct {
	Topic       string        `json:"topic"`
	Offset      int           `json:"offset"`
	Value       []byte        `json:"value"`
	ValueSchema *kafka.Schema `json:"-"`
	Metadata    any           `json:"valueSchemaMetadata,omitempty"`
}

func eventOf(t testing.TB, records ...eventRecord) []byte {
	t.Helper()
	for i := range records {
		records[i].Topic, records[i].Offset = "payments", i
		if s := records[i].ValueSchema; s != nil {
			records[i].Metadata = map[string]string{"schemaId": s.ID, "dataFormat": s.DataFormat}
		}
	}
	event, err := json.Marshal(map[string]any{"eventSource": "aws:kafka",
		"records": map[string]any{"payments-0": records}})
	if err != nil {
		t.Fatal(err)
	}
	return event
}

// Two records of one payment, written with two versions of its schema, are one request, however they are
// delivered to a function.
func TestFunctionBooksEachPaymentOnce(t *testing.T) {
	sources := []struct {
		name, registry string
		source         bool
	}{
		{name: "event in JSON format", registry: "Confluent"},
		{name: "event in JSON format", registry: "Glue"},
		{name: "event in SOURCE format", registry: "Confluent", source: true},
		{name: "event in SOURCE format", registry: "Glue", source: true},
		{name: "raw", registry: "Confluent"},
		{name: "raw", registry: "Glue"},
	}
	r := newRegistries(t)
	for _, s := range sources {
		for _, format := range []string{schema.JSON, schema.Avro, schema.Protobuf} {
			t.Run(s.name+"/"+s.registry+"/"+format, func(t *testing.T) {
				record := func(version int, id string) eventRecord {
					p := aPayment(id)
					metadata := &kafka.Schema{ID: schemaID(s.registry, format, version), DataFormat: format}
					switch {
					case s.name == "raw":
						return eventRecord{Value: frame(t, s.registry, format, version, encode(t, format, p))}
					case s.source:
						return eventRecord{Value: indexed(s.registry, format, encode(t, format, p)),
							ValueSchema: metadata}
					}
					return eventRecord{Value: asJSON(t, format, p), ValueSchema: metadata}
				}
				b := newBooks(t)
				d := r.decoder(schema.Config{Registry: r.of(s.registry, ""), SourceEvents: s.source})
				f, err := msk.New(b.engine(), b.handler(d, format),
					eventsource.Config{Records: b.records(d), Failures: eventsource.FailPartial})
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					answer, err := f.Invoke(t.Context(),
						eventOf(t, record(0, "p-1"), record(0, "p-2"), record(1, "p-1")))
					if err != nil || string(answer) != `{"batchItemFailures":[]}` {
						t.Fatalf("%s, %v", answer, err)
					}
				}
				b.want("p-1", "p-2")
			})
		}
	}
}

// The same in a consumer process, which always gets what is in the topic.
func TestProcessBooksEachPaymentOnce(t *testing.T) {
	r := newRegistries(t)
	for _, registry := range []string{"Confluent", "Glue"} {
		for _, format := range []string{schema.JSON, schema.Avro, schema.Protobuf} {
			t.Run(registry+"/"+format, func(t *testing.T) {
				cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "payments"))
				if err != nil {
					t.Fatal(err)
				}
				defer cluster.Close()
				var records []*kgo.Record
				for i, id := range []string{"p-1", "p-2", "p-1", "last"} {
					records = append(records,
						&kgo.Record{Topic: "payments",
							Value: frame(t, registry, format, i/2, encode(t, format, aPayment(id)))})
				}
				client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
					t.Fatal(err)
				}
				b := newBooks(t)
				d := r.decoder(schema.Config{Registry: r.of(registry, "")})
				c, err := consumer.New(b.engine(), b.handler(d, format), consumer.Config{
					Brokers: cluster.ListenAddrs(), Topics: []string{"payments"}, Group: "ledger",
					Records: b.records(d), Logger: slog.New(slog.DiscardHandler),
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- c.Run(ctx) }()
				select {
				case <-b.last: // the records of the partition are handled one after another
				case <-t.Context().Done():
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				b.want("p-1", "p-2", "last")
			})
		}
	}
}

// Keys of records are decoded too: the key does not depend on the version of its schema.
func TestRecordKeyIsDecoded(t *testing.T) {
	r := newRegistries(t)
	r.confluent.SeedSchema("text", 1, 40, sr.Schema{Schema: `"string"`})
	r.confluent.SeedSchema("number", 1, 41, sr.Schema{Schema: `"long"`})
	d := r.decoder(schema.Config{Registry: r.of("Confluent", "")})
	party := func(version int) []byte {
		return frame(t, "Confluent", schema.JSON, version, []byte(`{"no":7,"bank":"b"}`))
	}
	for name, tc := range map[string]struct {
		key  []byte
		meta *kafka.Schema
		want string
	}{
		"text":          {key: append(header(t, "Confluent", 40), 6, 'p', '-', '1'), want: "p-1"},
		"number":        {key: append(header(t, "Confluent", 41), 14), want: "7"},
		"object":        {key: party(0), want: `{"bank":"b","no":7}`},
		"later version": {key: party(1), want: `{"bank":"b","no":7}`},
		"event, in JSON": {key: []byte(`"p-1"`), meta: &kafka.Schema{ID: "40", DataFormat: schema.Avro},
			want: "p-1"},
	} {
		if got, err := d.RecordKey(t.Context(), &kafka.Record{Key: tc.key, KeySchema: tc.meta}); err != nil ||
			got != tc.want {
			t.Errorf("%s: the key is %q, %v; want %s", name, got, err, tc.want)
		}
	}
	r.confluent.SeedSchema("json", 1, 42, sr.Schema{Schema: `{}`, Type: sr.TypeJSON})
	for id, keys := range map[int][]string{40: {"\x02\xfc"}, 42: {`"\ud800"`, "\"\xfc\"", `{"id":"\ud800"}`, `1 2`}} { // several keys would be one
		for _, key := range keys {
			if got, err := d.RecordKey(t.Context(), &kafka.Record{Key: append(header(t, "Confluent", id), key...)}); err == nil {
				t.Errorf("%q is the key %q", key, got)
			}
		}
	}
	if got, err := d.RecordKey(t.Context(), &kafka.Record{}); err == nil ||
		!strings.Contains(err.Error(), kafka.ErrNoKey.Error()) {
		t.Errorf("a null key is %q, %v", got, err)
	}
	var key string
	if err := d.DecodeKey(t.Context(), &kafka.Record{Key: append(header(t, "Confluent", 40), 6, 'p', '-',
		'1')}, &key); err != nil || key != "p-1" {
		t.Errorf("the decoded key is %q, %v", key, err)
	}
}

// A value can be decoded without a type that was generated for it.
func TestValueIsDecodedIntoAnyType(t *testing.T) {
	r := newRegistries(t)
	d := r.decoder(schema.Config{Registry: r.of("Confluent", "")})
	for _, format := range []string{schema.JSON, schema.Avro, schema.Protobuf} {
		record := &kafka.Record{Value: frame(t, "Confluent", format, 0, encode(t, format, aPayment("p-1")))}
		var value map[string]any
		if err := d.Decode(t.Context(), record, &value); err != nil || value["paymentId"] != "p-1" ||
			fmt.Sprint(value["amount"]) != "1250" {
			t.Errorf("%s: %v, %v", format, value, err)
		}
		if format != schema.Protobuf {
			continue
		}
		var message proto.Message
		if err := d.Decode(t.Context(), record, &message); err != nil ||
			message.ProtoReflect().Descriptor().FullName() != "bank.Payment" {
			t.Errorf("proto.Message: %v, %v", message, err)
		}
		var dynamic *dynamicpb.Message
		if err := d.Decode(t.Context(), record, &dynamic); err != nil || !proto.Equal(dynamic, message) {
			t.Errorf("a dynamic message: %v, %v", dynamic, err)
		}
		var own paymentpb.Payment
		if err := d.Decode(t.Context(), record, &own); err != nil || paymentOf(&own) != aPayment("p-1") {
			t.Errorf("a message that is there: %v, %v", &own, err)
		}
		var p payment
		if err := d.Decode(t.Context(), record, &p); err != nil || !reflect.DeepEqual(p, aPayment("p-1")) {
			t.Errorf("a struct of its own: %+v, %v", p, err)
		}
	}
}
