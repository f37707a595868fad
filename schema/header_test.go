package schema_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/schema"
)

const (
	valueHeader = "__value_schema_id"
	keyHeader   = "__key_schema_id"
)

// headerIDs returns the header values by which a serializer of Confluent Platform 8 names a version of the
// schema of payments: its GUID, or its ID. Behind it is the index of the message type Payment.
func headerIDs(t *testing.T, r *registries, format string, version int) map[string][]byte {
	t.Helper()
	client, err := sr.NewClient(sr.URLs(r.confluent.URL()))
	if err != nil {
		t.Fatal(err)
	}
	found, err := client.SchemaByVersion(t.Context(), "payments-"+format, version+1)
	if err != nil {
		t.Fatal(err)
	}
	guid, err := hex.DecodeString(strings.ReplaceAll(found.GUID, "-", ""))
	if err != nil {
		t.Fatal(err)
	}
	index := indexed("Confluent", format, nil)
	return map[string][]byte{
		found.GUID: slices.Concat([]byte{1}, guid, index),
		schemaID("Confluent", format, version): append(header(t, "Confluent", confluentIDs[format][version]),
			index...),
	}
}

// misleadingID is the ID of another schema. misleading is a payment whose bytes in Avro begin like its framing.
const misleadingID = 0x20000

func misleading() payment { return payment{From: party{IBAN: "DE02120300"}, Text: "an invoice"} }

// A value or a key whose schema is named in a header is decoded, and its first bytes are not taken for a
// framing.
func TestSchemaIsNamedInAHeader(t *testing.T) {
	r := newRegistries(t)
	d := r.decoder(schema.Config{Registry: r.of("Confluent", "")})
	r.confluent.SeedSchema("other", 1, misleadingID, sr.Schema{Schema: `{"type":"array","items":"int"}`})
	if data := encode(t, schema.Avro, misleading()); !bytes.HasPrefix(data, header(t, "Confluent", misleadingID)) {
		t.Fatalf("%x does not mislead", data)
	}
	for _, format := range []string{schema.JSON, schema.Avro, schema.Protobuf} {
		for id, named := range headerIDs(t, r, format, 1) {
			want := misleading()
			if format == schema.JSON { // whose schema wants an ID and a currency
				want = aPayment("p-1")
			}
			data := encode(t, format, want)
			record := &kafka.Record{Key: data, Value: data, Headers: []kafka.Header{
				{Key: valueHeader, Value: []byte("an older one")}, {Key: valueHeader, Value: named},
				{Key: keyHeader, Value: named}, {Key: "__VALUE_SCHEMA_ID"},
			}}
			var value, key payment
			err1, err2 := d.Decode(t.Context(), record, &value), d.DecodeKey(t.Context(), record, &key)
			if err1 != nil || err2 != nil || value != want || key != want {
				t.Errorf("%s, %s: the value is %+v, %v, the key %+v, %v", format, id, value, err1, key, err2)
			}
			converted := *record
			if err := d.ConvertValue(t.Context(), &converted); err != nil || converted.ValueSchema.ID != id ||
				!strings.Contains(string(converted.Value), `"iban":"`+want.From.IBAN) {
				t.Errorf("%s, %s: it is converted to %s, %+v, %v", format, id, converted.Value,
					converted.ValueSchema, err)
			}
			if key, err := d.RecordKey(t.Context(), record); err != nil || !strings.Contains(key, want.From.IBAN) {
				t.Errorf("%s, %s: the idempotency key is %s, %v", format, id, key, err)
			}
		}
	}
}

// A header without a value says nothing, nor does that of the key about the value.
func TestHeaderThatNamesNoSchema(t *testing.T) {
	r := newRegistries(t)
	d := r.decoder(schema.Config{Registry: r.of("Confluent", "")})
	framed := frame(t, "Confluent", schema.Avro, 0, encode(t, schema.Avro, aPayment("p-1")))
	var p payment
	if err := d.Decode(t.Context(), &kafka.Record{Value: framed, Headers: []kafka.Header{{Key: valueHeader},
		{Key: keyHeader, Value: []byte("x")}}}, &p); err != nil || p != aPayment("p-1") {
		t.Errorf("%+v, %v", p, err)
	}
}

// A header that can't be read, or names no schema that is known, is a permanent error that names it.
func TestHeadersThatCanNotBeRead(t *testing.T) {
	r := newRegistries(t)
	guid := strings.Repeat("\x07", 16)
	for name, tc := range map[string]struct{ registry, header, says string }{
		"empty":                    {"Confluent", "", valueHeader + " (0 bytes)"},
		"cut off":                  {"Confluent", "\x00\x00\x00\x00", valueHeader + " (4 bytes): want a zero byte"},
		"GUID cut off":             {"Confluent", "\x01" + guid[1:], "a byte 1 and its GUID in 16 bytes"},
		"another magic byte":       {"Confluent", "\x02" + guid, "a byte 1 and its GUID in 16 bytes"},
		"unknown GUID":             {"Confluent", "\x01" + guid, "the schema 07070707-0707-0707-0707-070707070707 of the registry"},
		"unknown ID":               {"Confluent", "\x00\x00\x00\x00\x63", "the schema 99 of the registry"},
		"Protobuf without index":   {"Confluent", "\x00\x00\x00\x00\x14", "no index of the message type"},
		"index cut off":            {"Confluent", "\x00\x00\x00\x00\x14\x04\x02", "indexes of the message type"},
		"bytes behind the index":   {"Confluent", "\x00\x00\x00\x00\x14\x02\x02\x00", "1 bytes are behind"},
		"a registry that has none": {"Glue", "\x01" + guid, valueHeader + " is of a serializer of Confluent's registry"},
	} {
		d := r.decoder(schema.Config{Registry: r.of(tc.registry, "")})
		record := &kafka.Record{Value: encode(t, schema.Avro, misleading()),
			Headers: []kafka.Header{{Key: valueHeader, Value: []byte(tc.header)}}}
		if out, err := d.JSON(t.Context(), record); out != nil || !idem.IsPermanent(err) ||
			!strings.Contains(fmt.Sprint(err), tc.says) {
			t.Errorf("%s: %s, %v; want %q", name, out, err, tc.says)
		}
	}
}

// Data of Apicurio's serializers, whose headers have other IDs, is not taken for framed either.
func TestHeadersOfApicurio(t *testing.T) {
	r := newRegistries(t)
	d := r.decoder(schema.Config{Registry: r.of("Confluent", "")})
	for _, name := range []string{"globalId", "contentId"} {
		record := &kafka.Record{Key: header(t, "Confluent", 10), Value: header(t, "Confluent", 10), Headers: []kafka.Header{
			{Key: "apicurio.key." + name, Value: make([]byte, 8)}, {Key: "apicurio.value." + name, Value: make([]byte, 8)}}}
		_, value := d.JSON(t.Context(), record)
		_, key := d.RecordKey(t.Context(), record)
		for part, err := range map[string]error{"value": value, "key": key} {
			if !idem.IsPermanent(err) || !strings.Contains(err.Error(), "apicurio."+part+"."+name) {
				t.Errorf("the %s: %v", part, err)
			}
		}
	}
}

// AWS Glue's framing is that of the data, whatever the headers of a forwarded record are.
func TestFramingOfGlueIsInTheData(t *testing.T) {
	r := newRegistries(t)
	d := r.decoder(schema.Config{Registry: r.of("Glue", "")})
	var p payment
	if err := d.Decode(t.Context(), &kafka.Record{
		Value:   frame(t, "Glue", schema.Avro, 0, encode(t, schema.Avro, aPayment("p-1"))),
		Headers: []kafka.Header{{Key: valueHeader, Value: []byte("\x00\x00\x00\x00\x14")}},
	}, &p); err != nil || p != aPayment("p-1") {
		t.Errorf("%+v, %v", p, err)
	}
}
