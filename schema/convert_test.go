package schema_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/schema"
)

// A value or a key is replaced by what an event source with a schema registry delivers in the format JSON.
func TestRecordIsConvertedAsByAnEventSource(t *testing.T) {
	r := newRegistries(t)
	for _, registry := range []string{"Confluent", "Glue"} {
		for _, format := range []string{schema.JSON, schema.Avro, schema.Protobuf} {
			d := r.decoder(schema.Config{Registry: r.of(registry, "")})
			framed := frame(t, registry, format, 1, encode(t, format, aPayment("p-1")))
			in := kafka.Record{Topic: "payments", Key: framed, Value: framed}
			value, key := in, in
			if err := d.ConvertValue(t.Context(), &value); err != nil {
				t.Fatal(err)
			}
			if err := d.ConvertKey(t.Context(), &key); err != nil {
				t.Fatal(err)
			}
			want := &kafka.Schema{ID: schemaID(registry, format, 1), DataFormat: format}
			if !sameJSON(t, value.Value, asJSON(t, format, aPayment("p-1"))) || *value.ValueSchema != *want ||
				!bytes.Equal(value.Key, framed) || value.KeySchema != nil {
				t.Errorf("%s, %s: the value is %s, %+v", registry, format, value.Value, value.ValueSchema)
			}
			if !bytes.Equal(key.Key, value.Value) || *key.KeySchema != *want || !bytes.Equal(key.Value, framed) {
				t.Errorf("%s, %s: the key is %s, %+v", registry, format, key.Key, key.KeySchema)
			}
		}
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}

// A tombstone, and a value that an event source has converted, stay as they are. So does a record that can't
// be converted.
func TestRecordThatIsNotConverted(t *testing.T) {
	r := newRegistries(t)
	d := r.decoder(schema.Config{Registry: r.of("Confluent", "")})
	for _, in := range []kafka.Record{
		{}, {Value: []byte("{}"), ValueSchema: &kafka.Schema{ID: "10", DataFormat: schema.Avro}},
	} {
		out := in
		if err := d.ConvertValue(t.Context(), &out); err != nil || !reflect.DeepEqual(out, in) {
			t.Errorf("%+v, %v; want %+v", out, err, in)
		}
	}
	out := kafka.Record{Value: []byte("{}")}
	if err := d.ConvertValue(t.Context(), &out); err == nil || idem.IsUnavailable(err) ||
		string(out.Value) != "{}" || out.ValueSchema != nil {
		t.Errorf("%+v, %v", out, err)
	}
}
