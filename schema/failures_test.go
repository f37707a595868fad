package schema_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/schema"
	avroformat "github.com/idemsk/idemsk/schema/avro"
	"github.com/idemsk/idemsk/schema/internal/paymentpb"
	protoformat "github.com/idemsk/idemsk/schema/proto"
)

// What can never be decoded becomes a dead letter that names the schema and has the bytes of the topic.
func TestValueThatCanNotBeDecodedBecomesADeadLetter(t *testing.T) {
	r := newRegistries(t)
	r.confluent.SeedSchema("numbers", 1, 50, sr.Schema{Schema: `"long"`})
	r.confluent.SeedSchema("broken", 1, 51, sr.Schema{Schema: "message {", Type: sr.TypeProtobuf})
	r.confluent.SeedSchema("empty", 1, 52, sr.Schema{Schema: `syntax = "proto3";`, Type: sr.TypeProtobuf})
	reader, err := avroformat.Reader(selfContained)
	if err != nil {
		t.Fatal(err)
	}
	avroPayment := frame(t, "Confluent", schema.Avro, 0, encode(t, schema.Avro, aPayment("p-1")))
	inflated := compressed(t, frame(t, "Glue", schema.JSON, 0, []byte("{}")))
	of := func(number int, data ...byte) []byte { return append(header(t, "Confluent", number), data...) }
	for name, tc := range map[string]struct {
		registry, format string
		value            []byte
		source           *kafka.Schema
		says             []string
	}{
		"no framing": {value: []byte(`{"paymentId":"p-1"}`),
			says: []string{"19 bytes", "no framing", "zero byte"}},
		"too short": {value: []byte{0, 0, 0}, says: []string{"no framing"}},
		"unknown schema": {value: of(99),
			says: []string{"the schema 99 of the registry http", "no schema with this ID"}},
		"data cut off": {value: avroPayment[:len(avroPayment)-5],
			says: []string{"the schema 10 of"}},
		"data behind": {value: append(bytes.Clone(avroPayment), 0),
			says: []string{"the schema 10 of", "bytes behind"}},
		"incompatible schema": {value: of(50, 2), says: []string{"the schema 50 of", "(AVRO)"}},
		"not JSON": {value: frame(t, "Confluent", schema.JSON, 0, []byte("{")),
			says: []string{"the schema 30 of"}},
		"schema does not parse": {value: of(51, 0), says: []string{"the schema 51 of", "(PROTOBUF)"}},
		"schema without type":   {value: of(52, 0), says: []string{"the schema 52 of", "no message type"}},
		"unknown message type": {format: schema.Protobuf, value: of(20, 2, 20),
			says: []string{"the schema 20 of", "no message type [10]"}},
		"endless index": {format: schema.Protobuf,
			value: of(20, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
			says:  []string{"the schema 20 of", "indexes"}},
		"another message type": {format: schema.Protobuf, value: of(20, 0),
			says: []string{"the schema 20 of", "bank.Refund", "bank.Payment"}},
		"no Glue framing": {registry: "Glue", value: avroPayment, says: []string{"AWS Glue", "byte 3"}},
		"unknown compression": {registry: "Glue", value: append([]byte{3, 4}, make([]byte, 16)...),
			says: []string{"no framing of AWS Glue"}},
		"not zlib": {registry: "Glue", value: append([]byte{3, 5}, make([]byte, 20)...),
			says: []string{"decompressed"}},
		"zlib cut off": {registry: "Glue", value: inflated[:len(inflated)-3],
			says: []string{"decompressed"}},
		"bytes behind zlib": {registry: "Glue", value: append(bytes.Clone(inflated), "{}"...),
			says: []string{"2 bytes behind the compressed value"}},
		"unknown schema, Glue": {registry: "Glue", value: header(t, "Glue", 99),
			says: []string{"the schema " + glueID(99) + " of AWS Glue", "EntityNotFound"}},
		"unknown type, Glue": {registry: "Glue", format: schema.Protobuf,
			value: append(header(t, "Glue", 20), 9), says: []string{"no message type 9"}},
		"unknown in an event": {value: []byte{1}, source: &kafka.Schema{ID: "98", DataFormat: schema.Avro},
			says: []string{"the schema 98 of"}},
		"no ID in an event": {value: []byte{1}, source: &kafka.Schema{}, says: []string{"want a number"}},
		"bad data in an event": {value: []byte{1}, source: &kafka.Schema{ID: "10", DataFormat: schema.Avro},
			says: []string{"the schema 10 of"}},
		"tombstone": {says: []string{"tombstone"}},
	} {
		for by, keyed := range map[string]bool{"handler": false, "key by path": true} {
			if keyed && (tc.value == nil || name == "another message type") {
				continue // the key is missing, or can be read
			}
			t.Run(name+"/"+by, func(t *testing.T) {
				b := newBooks(t)
				d, err := schema.New(schema.Config{
					Registry: r.of(tc.registry, ""), SourceEvents: true,
					Formats: []schema.Format{reader, protoformat.Format{}},
				})
				if err != nil {
					t.Fatal(err)
				}
				records := b.records(d)
				if !keyed {
					records.Key, records.Fingerprint = kafka.OffsetKey, kafka.ValueFingerprint
				}
				f, err := msk.New(b.engine(), b.handler(d, tc.format),
					eventsource.Config{Records: records, Failures: eventsource.FailPartial})
				if err != nil {
					t.Fatal(err)
				}
				answer, err := f.Invoke(t.Context(),
					eventOf(t, eventRecord{Value: tc.value, ValueSchema: tc.source}))
				if err != nil || string(answer) != `{"batchItemFailures":[]}` || len(b.letters) != 1 {
					t.Fatalf("%s, %v, %d dead letters", answer, err, len(b.letters))
				}
				l := b.letters[0]
				for _, want := range tc.says {
					if !strings.Contains(l.Error.Message, want) {
						t.Errorf("the letter says %q, not %q", l.Error.Message, want)
					}
				}
				if !bytes.Equal(l.Value, tc.value) {
					t.Errorf("the letter has %q; want %q", l.Value, tc.value)
				}
			})
		}
	}
}

// A schema of a format that the program lacks is an error of the record, and named.
func TestFormatThatIsNotConfiguredIsNamed(t *testing.T) {
	r := newRegistries(t)
	d, err := schema.New(schema.Config{Registry: r.of("Confluent", "")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.JSON(t.Context(), &kafka.Record{Value: frame(t, "Confluent", schema.Avro, 0, nil)})
	if err == nil || idem.IsUnavailable(err) ||
		!strings.Contains(err.Error(), `"AVRO", which Config.Formats lacks`) {
		t.Error(err)
	}
	if _, err := schema.New(schema.Config{}); err == nil {
		t.Error("a configuration without a registry is taken")
	}
}

func TestCompressedValueIsDecoded(t *testing.T) {
	r := newRegistries(t)
	d := r.decoder(schema.Config{Registry: r.of("Glue", "")})
	var p payment
	value := compressed(t, frame(t, "Glue", schema.Avro, 0, encode(t, schema.Avro, aPayment("p-1"))))
	if err := d.Decode(t.Context(), &kafka.Record{Value: value}, &p); err != nil || p != aPayment("p-1") {
		t.Errorf("%+v, %v", p, err)
	}
}

// While a registry can't be reached, in any of the three ways of a network, records are delivered again and
// get no dead letter. When it can be reached, they are booked.
func TestRegistryThatIsDownCostsNoRecord(t *testing.T) {
	r := newRegistries(t)
	for _, registry := range []string{"Confluent", "Glue"} {
		for name, fault := range map[string]faultproxy.Fault{"refused": faultproxy.Refused,
			"reset": faultproxy.Reset, "silent": faultproxy.Silent} {
			for by, keyed := range map[string]bool{"handler": false, "key by path": true} {
				t.Run(registry+"/"+name+"/"+by, func(t *testing.T) {
					address := map[string]string{"Confluent": r.confluent.URL(), "Glue": r.glueURL}[registry]
					proxy, proxied := faultproxy.StartURL(t, address)
					proxy.New(fault)
					b := newBooks(t)
					d := r.decoder(schema.Config{Registry: r.of(registry, proxied),
						Timeout: 100 * time.Millisecond, RetryAfter: time.Millisecond})
					records := b.records(d)
					if !keyed {
						records.Key, records.Fingerprint = kafka.OffsetKey, kafka.ValueFingerprint
					}
					f, err := msk.New(b.engine(), b.handler(d, schema.Avro),
						eventsource.Config{Records: records, Failures: eventsource.FailPartial})
					if err != nil {
						t.Fatal(err)
					}
					event := eventOf(t, eventRecord{Value: frame(t, registry, schema.Avro, 0,
						encode(t, schema.Avro, aPayment("p-1")))})
					const done = `{"batchItemFailures":[]}`
					for range 3 { // more than the attempts
						if answer, err := f.Invoke(t.Context(), event); err != nil || string(answer) == done {
							t.Fatalf("%s, %v; want the record to be reported", answer, err)
						}
					}
					b.want()
					proxy.New(faultproxy.None)
					for answer := ""; answer != done; { // a machine under load can exceed the timeout
						out, err := f.Invoke(t.Context(), event)
						if err != nil {
							t.Fatal(err)
						}
						answer = string(out)
					}
					b.want("p-1")
				})
			}
		}
	}
}

// An answer that does not say that the schema is unknown is no reason to give a record up.
func TestOtherAnswersOfARegistryAreUnavailability(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusOK} {
		r := newRegistries(t)
		r.confluent.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			_, _ = w.Write([]byte("<html>"))
			return true
		})
		d := r.decoder(schema.Config{Registry: r.of("Confluent", "")})
		_, err := d.JSON(t.Context(), &kafka.Record{Value: header(t, "Confluent", 10)})
		if !idem.IsUnavailable(err) || !strings.Contains(err.Error(), "the schema 10 of the registry http") {
			t.Errorf("status %d: %v", status, err)
		}
	}
}

// An answer of success that has no schema is not one of the registry, for a schema and for one that it refers
// to.
func TestAnswersWithoutASchemaAreUnavailability(t *testing.T) {
	for _, of := range []string{"/schemas/ids/10", "/subjects/party/versions/1"} {
		for _, body := range []string{"", "null", "[]", "{}", `{"status":"maintenance"}`, `{"schema":""}`,
			`{"schema":" "}`} {
			r := newRegistries(t)
			r.confluent.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
				if request.URL.Path != of {
					return false
				}
				_, _ = w.Write([]byte(body))
				return true
			})
			_, err := r.decoder(schema.Config{Registry: r.of("Confluent", "")}).JSON(t.Context(),
				&kafka.Record{Value: header(t, "Confluent", 10)})
			if !idem.IsUnavailable(err) ||
				!strings.Contains(err.Error(), "the schema 10 of the registry http") {
				t.Errorf("%s: %q: %v", of, body, err)
			}
		}
	}
	server := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	defer server.Close()
	r := newRegistries(t)
	_, err := r.decoder(schema.Config{Registry: r.of("Glue", server.URL)}).JSON(t.Context(),
		&kafka.Record{Value: header(t, "Glue", 10)})
	if !idem.IsUnavailable(err) || !errors.Is(err, schema.ErrNoSchema) {
		t.Errorf("Glue: %v", err)
	}
}

func TestPasswordOfTheRegistryIsNotNamed(t *testing.T) {
	r := newRegistries(t)
	u, err := url.Parse(r.confluent.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("me", "secret")
	if name := r.of("Confluent", u.String()).String(); strings.Contains(name, "secret") {
		t.Error(name)
	}
}

// A waiting caller whose context ends gets an error that is marked as unavailability, and the schema is
// fetched nevertheless.
func TestDecodeEndsWithItsContext(t *testing.T) {
	r := newRegistries(t)
	d := r.decoder(schema.Config{Registry: r.of("Confluent", "")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	record := &kafka.Record{Value: frame(t, "Confluent", schema.Protobuf, 0, nil)}
	var m paymentpb.Payment
	err := d.Decode(ctx, record, &m)
	if err != nil && !idem.IsUnavailable(err) {
		t.Error(err)
	}
	if err := d.Decode(t.Context(), record, &m); err != nil {
		t.Error(err)
	}
}
