package esm_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/schema"
	"github.com/idemsk/idemsk/schema/avro"
	"github.com/idemsk/idemsk/schema/confluent"
)

// registry is a schema registry in this process, with Avro schemas: 7 is a record with an ID, and 8 a string.
func registry(t *testing.T) *srfake.Registry {
	t.Helper()
	r := srfake.New()
	t.Cleanup(r.Close)
	r.SeedSchema("payments-value", 1, 7,
		sr.Schema{Schema: `{"type":"record","name":"P","fields":[{"name":"id","type":"string"}]}`})
	r.SeedSchema("payments-key", 1, 8, sr.Schema{Schema: `"string"`})
	return r
}

func decoder(t *testing.T, url string) *schema.Decoder {
	t.Helper()
	found, err := confluent.New([]string{url})
	if err != nil {
		t.Fatal(err)
	}
	d, err := schema.New(schema.Config{Registry: found, Formats: []schema.Format{avro.Format{}},
		RetryAfter: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// framed returns a text in Avro with a schema's ID.
func framed(id byte, text string) []byte {
	return append([]byte{0, 0, 0, 0, id, byte(2 * len(text))}, text...)
}

// reader is an invoker that records what a function reads, as "<offset> <key> <schema> <value> <schema>".
type reader struct {
	mu   sync.Mutex
	read []string
}

func (r *reader) Invoke(_ context.Context, inv *esm.Invocation) (esm.Answer, error) {
	e, err := msk.Decode(inv.Payload)
	if err != nil {
		return esm.Answer{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range e.Partitions {
		for _, record := range p {
			r.read = append(r.read, fmt.Sprintf("%d %q %v %q %v", record.Offset, record.Key, record.KeySchema,
				record.Value, record.ValueSchema))
		}
	}
	return esm.Answer{Payload: []byte("null")}, nil
}

func (r *reader) Close(context.Context) {}

func (r *reader) invoker(context.Context, int) (esm.Invoker, error) { return r, nil }

// The function gets validated records in the format that is configured. Invalid records go to the on-failure
// destination, and filters apply to the JSON of a value.
func TestRecordsAreValidatedAndConverted(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		esm.FormatJSON:   `0 "\"k\"" &{8 AVRO} "{\"id\":\"p-1\"}" &{7 AVRO}`,
		esm.FormatSource: `0 "\x02k" &{8 AVRO} "\x06p-1" &{7 AVRO}`,
	} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 1)
			write(t, c,
				&kgo.Record{Topic: topic, Key: framed(8, "k"), Value: framed(7, "p-1")},
				&kgo.Record{Topic: topic, Value: framed(9, "p-2")},
				&kgo.Record{Topic: topic, Value: []byte(`{"id":"p-1"}`)},
				&kgo.Record{Topic: topic, Value: framed(7, "dropped")},
				&kgo.Record{Topic: topic, Key: framed(7, "p-1")[:5], Value: framed(7, "p-1")},
				&kgo.Record{Topic: topic, Key: framed(8, "k")},
				&kgo.Record{Topic: topic, Value: framed(7, "p-1"), Headers: []kgo.RecordHeader{
					{Key: "__value_schema_id", Value: []byte("\x00\x00\x00\x00\x08")}}},
			)
			f, l, w := new(reader), new(letters), new(watcher)
			cfg := config()
			cfg.OnFailure, cfg.FilterCriteria = "arn",
				`{"Filters":[{"Pattern":"{\"value\":{\"id\":[\"p-1\"]}}"}]}`
			cfg.SchemaRegistry = &esm.SchemaRegistry{EventRecordFormat: format,
				Attributes: []string{esm.AttributeKey, esm.AttributeValue}}
			p := parts(c, f.invoker)
			p.Destination, p.Observe, p.Schemas = l, w.Observe, decoder(t, registry(t).URL())
			mustRun(t, cfg, p)
			key := map[string]string{esm.FormatJSON: `"\"k\""`, esm.FormatSource: `"\x02k"`}[format]
			check(t, "read", f.read, []string{want, `5 ` + key + ` &{8 AVRO} "" <nil>`})
			var given []string
			for _, failure := range l.failures {
				for i := range failure.Records {
					given = append(given, failure.Condition+" "+failure.Records[i].Place().String())
				}
			}
			slices.Sort(given)
			check(t, "given up", given, []string{"DESERIALIZATION_ERROR payments-0@2",
				"DESERIALIZATION_ERROR payments-0@4", "DESERIALIZATION_ERROR payments-0@6", "SCHEMA_NOT_FOUND payments-0@1"})
			if _, filtered := w.of(esm.Filtered); filtered != 1 {
				t.Errorf("%d records filtered", filtered)
			}
		})
	}
}

// While the registry can't be reached, nothing is delivered and nothing is given up.
func TestRegistryThatIsDownIsRetried(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	write(t, c, &kgo.Record{Topic: topic, Key: []byte("plain"), Value: framed(7, "p-1")})
	proxy, proxied := faultproxy.StartURL(t, registry(t).URL())
	proxy.New(faultproxy.Refused)
	f, w := new(reader), new(watcher)
	var once sync.Once
	w.seen = func(e esm.Event) {
		if e.Kind == esm.Unavailable {
			once.Do(func() { proxy.New(faultproxy.None) })
		}
	}
	cfg := config()
	cfg.SchemaRegistry = &esm.SchemaRegistry{EventRecordFormat: esm.FormatJSON,
		Attributes: []string{esm.AttributeValue}}
	p := parts(c, f.invoker)
	p.Observe, p.Schemas = w.Observe, decoder(t, proxied)
	mustRun(t, cfg, p)
	check(t, "read", f.read, []string{`0 "plain" <nil> "{\"id\":\"p-1\"}" &{7 AVRO}`})
	if n, _ := w.of(esm.GivenUp); n > 0 {
		t.Error("records were given up")
	}
	if n, _ := w.of(esm.Unavailable); n == 0 {
		t.Error("the failure was not observed")
	}
}
