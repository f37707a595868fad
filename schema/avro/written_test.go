package avro_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	lib "github.com/twmb/avro"

	"github.com/idemsk/idemsk/schema"
	"github.com/idemsk/idemsk/schema/avro"
)

// record is a schema of a record with fields.
func record(fields string) string {
	return `{"type":"record","name":"R","fields":[` + fields + `]}`
}

// writtenSchemas are schemas that registries hold, because Java's library and theirs read them, with the same
// without what decoding does not use, a value, and its JSON.
var writtenSchemas = map[string]struct {
	text, strict string
	value        any
	json         string
}{
	"Debezium: a server's name with hyphens": {
		`{"type":"record","name":"Envelope","namespace":"abc-123-efg-20231005.table.u_table_dbz","fields":[` +
			`{"name":"before","type":["null",{"type":"record","name":"Value","fields":[{"name":"id","type":"long"}],"connect.name":"abc-123-efg-20231005.table.u_table_dbz.Value"}],"default":null},` +
			`{"name":"after","type":["null","Value"],"default":null},{"name":"op","type":"string"}],"connect.version":1,"connect.name":"abc-123-efg-20231005.table.u_table_dbz.Envelope"}`,
		record(`{"name":"before","type":["null",{"type":"record","name":"Value","fields":[{"name":"id","type":"long"}]}]},{"name":"after","type":["null","Value"]},{"name":"op","type":"string"}`),
		map[string]any{"before": nil, "after": map[string]any{"id": int64(7)}, "op": "c"},
		`{"before":null,"after":{"id":7},"op":"c"}`,
	},
	"a namespace of Java's nested classes": {
		`{"type":"record","name":"Payment","namespace":"com.example.Ledger$","fields":[{"name":"to","type":{"type":"record","name":"Party","fields":[{"name":"iban","type":"string"}]}},{"name":"from","type":"com.example.Ledger$.Party"}]}`,
		record(`{"name":"to","type":{"type":"record","name":"P","fields":[{"name":"iban","type":"string"}]}},{"name":"from","type":"P"}`),
		map[string]any{"to": map[string]any{"iban": "DE"}, "from": map[string]any{"iban": "FR"}},
		`{"to":{"iban":"DE"},"from":{"iban":"FR"}}`,
	},
	"a namespace that is null": {
		`{"type":"record","name":"R","namespace":null,"fields":[{"name":"a","type":"int"}]}`,
		record(`{"name":"a","type":"int"}`), map[string]any{"a": 1}, `{"a":1}`,
	},
	"fields and symbols outside of the specification": {
		`{"type":"record","name":"my-event","fields":[{"name":"payment-id","type":"string"},{"name":"1st","type":"int"},{"name":"a.b","type":"int"},{"name":"größe","type":{"type":"enum","name":"größe","symbols":["1","très grand"]}}]}`,
		record(`{"name":"a","type":"string"},{"name":"b","type":"int"},{"name":"c","type":"int"},{"name":"d","type":{"type":"enum","name":"E","symbols":["x","y"]}}`),
		map[string]any{"a": "p-1", "b": 1, "c": 2, "d": "y"},
		`{"payment-id":"p-1","1st":1,"a.b":2,"größe":"très grand"}`,
	},
	"defaults that do not fit": {
		record(`{"name":"tx_frequency","type":"string","default":null},{"name":"field1","type":["string","null"],"default":null},{"name":"amount","type":"long","default":"0"},` +
			`{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"},"default":"1970-01-01T00:00:00Z"},{"name":"e","type":{"type":"enum","name":"E","symbols":["A"],"default":"B"},"default":"C"},` +
			`{"name":"tags","type":{"type":"array","items":"string"},"default":{}},{"name":"on","type":"boolean","default":"false"}`),
		record(`{"name":"tx_frequency","type":"string"},{"name":"field1","type":["string","null"]},{"name":"amount","type":"long"},{"name":"at","type":"long"},{"name":"e","type":{"type":"enum","name":"E","symbols":["A"]}},` +
			`{"name":"tags","type":{"type":"array","items":"string"}},{"name":"on","type":"boolean"}`),
		map[string]any{"tx_frequency": "w", "field1": nil, "amount": 12, "at": 5, "e": "A", "tags": []string{"x"}, "on": true},
		`{"tx_frequency":"w","field1":null,"amount":12,"at":5,"e":"A","tags":["x"],"on":true}`,
	},
	"Connect's JDBC source: a NUMBER of Oracle without precision": {
		record(`{"name":"AMOUNT","type":{"type":"bytes","scale":127,"precision":64,"connect.version":1,"connect.parameters":{"scale":"127"},"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}}`),
		record(`{"name":"AMOUNT","type":"bytes"}`), map[string]any{"AMOUNT": []byte{1, 2}}, `{"AMOUNT":"\u0001\u0002"}`,
	},
	"decimals that are none": {
		record(`{"name":"a","type":{"type":"string","logicalType":"decimal","precision":4,"scale":2}},{"name":"b","type":{"type":"bytes","logicalType":"decimal"}},` +
			`{"name":"c","type":{"type":"bytes","logicalType":"decimal","precision":4,"scale":-2}},{"name":"d","type":{"type":"fixed","name":"F","size":2,"logicalType":"decimal","precision":5}},` +
			`{"name":"e","type":"bytes","logicalType":"decimal","precision":2,"scale":3},{"name":"f","type":{"type":"bytes","logicalType":"decimal","precision":"4"}},` +
			`{"name":"g","type":["null","bytes"],"logicalType":"decimal","precision":0},{"name":"h","type":{"type":"bytes","logicalType":"decimal","precision":4,"scale":"2"}},{"name":"i","type":"F","logicalType":"decimal"}`),
		record(`{"name":"a","type":"string"},{"name":"b","type":"bytes"},{"name":"c","type":"bytes"},{"name":"d","type":{"type":"fixed","name":"F","size":2}},{"name":"e","type":"bytes"},{"name":"f","type":"bytes"},` +
			`{"name":"g","type":["null","bytes"]},{"name":"h","type":"bytes"},{"name":"i","type":"F"}`),
		map[string]any{"a": "1.50", "b": []byte("b"), "c": []byte("c"), "d": []byte("dd"), "e": []byte("e"), "f": []byte("f"), "g": []byte("g"), "h": []byte("h"), "i": []byte("ii")},
		`{"a":"1.50","b":"b","c":"c","d":"dd","e":"e","f":"f","g":"g","h":"h","i":"ii"}`,
	},
	"decimals": {
		record(`{"name":"a","type":{"type":"bytes","logicalType":"decimal","precision":4,"scale":4}},{"name":"b","type":{"type":"fixed","name":"F","size":2,"logicalType":"decimal","precision":4,"scale":0}},{"name":"c","type":["null","bytes"],"logicalType":"decimal","precision":4}`),
		record(`{"name":"a","type":"bytes"},{"name":"b","type":{"type":"fixed","name":"F","size":2}},{"name":"c","type":["null","bytes"]}`),
		map[string]any{"a": []byte{1}, "b": []byte{0, 2}, "c": []byte{3}}, `{"a":"\u0001","b":"\u0000\u0002","c":"\u0003"}`,
	},
	"logical types of other types, and unknown ones": {
		record(`{"name":"a","type":{"type":"int","logicalType":"timestamp-millis"}},{"name":"b","type":{"type":"long","logicalType":"date"}},{"name":"c","type":{"type":"bytes","logicalType":"uuid"}},` +
			`{"name":"d","type":{"type":"string","logicalType":"money"}},{"name":"e","type":{"type":"fixed","name":"F","size":2,"logicalType":"duration"}},{"name":"f","type":{"type":"string","logicalType":7}}`),
		record(`{"name":"a","type":"int"},{"name":"b","type":"long"},{"name":"c","type":"bytes"},{"name":"d","type":"string"},{"name":"e","type":{"type":"fixed","name":"F","size":2}},{"name":"f","type":"string"}`),
		map[string]any{"a": 1, "b": int64(2), "c": []byte("c"), "d": "d", "e": []byte("ee"), "f": "f"}, `{"a":1,"b":2,"c":"c","d":"d","e":"ee","f":"f"}`,
	},
	"attributes that the specification does not know, or for another type": {
		`{"type":"record","name":"R","size":3,"Doc":1,"fields":[{"name":"a","type":{"type":"array","name":"list","items":"int","values":"x"},"order":"ASCENDING","Default":"?","aliases":"none"},` +
			`{"name":"b","type":{"type":"map","name":"m","values":"int","Type":"int"},"aliases":["a"]}]}`,
		record(`{"name":"a","type":{"type":"array","items":"int"}},{"name":"b","type":{"type":"map","values":"int"}}`),
		map[string]any{"a": []int{1}, "b": map[string]int{"k": 2}}, `{"a":[1],"b":{"k":2}}`,
	},
	"comments": {
		"/* Licensed to \"the\" ASF */\n// a payment\n" + record(`{"name":"a//b","type":"string" /* of the bank */, "doc":"\"/* kept */"}`),
		record(`{"name":"a","type":"string"}`), map[string]any{"a": "x"}, `{"a//b":"x"}`,
	},
	"an attribute of the type at the field": {
		record(`{"name":"at","type":["null","long"],"logicalType":"timestamp-millis"},{"name":"e","type":"enum","symbols":["A"],"default":"B"}`),
		record(`{"name":"at","type":["null","long"]},{"name":"e","type":{"type":"enum","name":"e","symbols":["A"]}}`),
		map[string]any{"at": int64(5), "e": "A"}, `{"at":5,"e":"A"}`,
	},
}

// encoded encodes a value by a schema that the library takes.
func encoded(t *testing.T, strict string, value any) []byte {
	t.Helper()
	s, err := lib.Parse(strict)
	if err != nil {
		t.Fatal(err)
	}
	data, err := s.Encode(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func compile(t *testing.T, f avro.Format, s schema.Schema) schema.Type {
	t.Helper()
	typ, err := f.Compile(&s)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

// Data is decoded by any schema that Java's library reads: itself, as a reference, and when it is resolved to
// the schema of the program.
func TestSchemasOfRegistriesAreRead(t *testing.T) {
	t.Parallel()
	for name, tc := range writtenSchemas {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := encoded(t, tc.strict, tc.value)
			typ := compile(t, avro.Format{}, schema.Schema{Text: tc.text})
			if out, err := typ.ToJSON(data); err != nil || string(out) != tc.json {
				t.Errorf("it is %s, %v; want %s", out, err, tc.json)
			}
			var into any
			if err := typ.Decode(data, &into); err != nil {
				t.Error(err)
			}
			if err := typ.FromJSON([]byte(tc.json), &into); err != nil {
				t.Error(err)
			}
		})
	}
}

// JSON has each value as it is encoded, also if it is not one of its logical type, or Go's type does not hold it.
func TestJSONOfLogicalTypes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		logical, plain string
		value          any
		json           string
	}{
		{`{"type":"bytes","logicalType":"decimal","precision":2,"scale":1}`, `"bytes"`, []byte("\x7f\x01\x01"), `"\u007f\u0001\u0001"`},
		{`{"type":"fixed","name":"F","size":2,"logicalType":"decimal","precision":4}`, `{"type":"fixed","name":"F","size":2}`, []byte("\x7f\xff"), `"\u007f\u00ff"`},
		{`["string",{"type":"bytes","logicalType":"decimal","precision":2}]`, `["string","bytes"]`, []byte("\x7f\xff"), `"\u007f\u00ff"`},
		{`{"type":"bytes","logicalType":"big-decimal"}`, `"bytes"`, []byte("zz"), `"zz"`},
		{`{"type":"long","logicalType":"time-micros"}`, `"long"`, int64(math.MaxInt64), `9223372036854775807`},
		{`["double",{"type":"long","logicalType":"time-micros"}]`, `["double","long"]`, int64(math.MaxInt64), `9223372036854775807`},
		{`["float",{"type":"int","logicalType":"time-millis"}]`, `["float","int"]`, int32(math.MaxInt32), `2147483647`},
	} {
		text := record(`{"name":"at","type":` + tc.logical + `}`)
		reader, err := avro.Reader(text)
		if err != nil {
			t.Fatal(err)
		}
		data := encoded(t, record(`{"name":"at","type":`+tc.plain+`}`), map[string]any{"at": tc.value})
		for name, f := range map[string]avro.Format{"as written": {}, "resolved": reader} {
			out, err := compile(t, f, schema.Schema{Text: text}).ToJSON(data)
			if want := `{"at":` + tc.json + `}`; err != nil || string(out) != want {
				t.Errorf("%s, %s: %s, %v; want %s", tc.logical, name, out, err, want)
			}
		}
	}
}

// A schema that names a type of another schema is read as well, also if the other is there twice.
func TestReferencesOfRegistriesAreRead(t *testing.T) {
	t.Parallel()
	party := `{"type":"record","name":"a-party","namespace":"a-bank","fields":[{"name":"i-ban","type":"string","default":null}]}`
	typ := compile(t, avro.Format{}, schema.Schema{
		Text:       `{"type":"array","items":"a-bank.a-party"}`,
		References: []schema.Reference{{Name: "a-bank.a-party", Text: party}, {Name: "party.avsc", Text: " " + party}},
	})
	data := encoded(t, `{"type":"array","items":"string"}`, []string{"DE"})
	if out, err := typ.ToJSON(data); err != nil || string(out) != `[{"i-ban":"DE"}]` {
		t.Errorf("%s, %v", out, err)
	}
}

// Data that was written with such a schema is resolved to the schema of the program, whose defaults count.
func TestWrittenSchemaIsResolved(t *testing.T) {
	t.Parallel()
	f, err := avro.Reader(`{"type":"record","name":"Payment","aliases":["a-bank.a-payment"],"fields":[{"name":"id","aliases":["payment-id"],"type":"string"},{"name":"at","type":"long","default":9},{"name":"tags","type":{"type":"map","values":"int"},"default":{"b":1,"a":2}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	typ := compile(t, f, schema.Schema{Text: `{"type":"record","name":"a-payment","namespace":"a-bank","fields":[{"name":"payment-id","type":"string","default":5},{"name":"x","type":"int","default":""}]}`})
	data := encoded(t, record(`{"name":"a","type":"string"},{"name":"b","type":"int"}`), map[string]any{"a": "p-1", "b": 3})
	if out, err := typ.ToJSON(data); err != nil || string(out) != `{"id":"p-1","at":9,"tags":{"a":2,"b":1}}` {
		t.Errorf("%s, %v", out, err)
	}
}

// The schema of the program must keep to the specification.
func TestSchemaOfTheProgramIsStrict(t *testing.T) {
	t.Parallel()
	for name, tc := range writtenSchemas {
		_, err := avro.Reader(tc.text)
		if _, strict := avro.Reader(tc.strict); strict != nil {
			t.Errorf("%s: %v", name, strict)
		}
		if accepted := strings.HasPrefix(name, "decimals") && !strings.Contains(name, "none") ||
			strings.HasPrefix(name, "logical types"); accepted != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A schema that says nothing of use is an error that says why.
func TestSchemasThatAreNone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{`: "it is not JSON", `"string" "int"`: "text behind it", `/*`: "it is not JSON", `"`: "it is not JSON", "//": "it is not JSON",
		`7`: "", `{"type":"record","name":"R","fields":[{"name":"a","type":"Missing"}]}`: "Missing",
		`{"type":"record","name":"R","fields":[{"type":"int"}]}`: "name", `{"type":"record","name":"R","fields":7}`: "fields",
		`{"type":"enum","name":"E"}`: "symbols", `["int",["int"]]`: "union", `{"type":["int"]}`: "type",
	} {
		if _, err := (avro.Format{}).Compile(&schema.Schema{Text: text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

// One value has one text, whatever its maps are in.
func TestMapsAreSorted(t *testing.T) {
	t.Parallel()
	numbers := make(map[string]any)
	var want []string
	for i := range 40 {
		numbers[fmt.Sprintf("k%02d", i)] = int64(i)
		want = append(want, fmt.Sprintf(`"k%02d":%d`, i, i))
	}
	text := "{" + strings.Join(want, ",") + "}"
	const longs = `{"type":"map","values":"long"}`
	for _, tc := range []struct {
		schema string
		value  any
		json   string
	}{
		{longs, numbers, text},
		{`["null",` + longs + `]`, numbers, text},
		{`{"type":"array","items":` + longs + `}`, []any{numbers, numbers}, "[" + text + "," + text + "]"},
		{record(`{"name":"z","type":` + longs + `},{"name":"a","type":"string"}`), map[string]any{"z": numbers, "a": "x"}, `{"z":` + text + `,"a":"x"}`},
		{`{"type":"map","values":{"type":"map","values":["null","string","double"]}}`,
			map[string]any{"b": map[string]any{"\"}": "1", "\u00e9<": 1.5, "": nil}, "a": map[string]any{}}, `{"a":{},"b":{"":null,"\"}":"1","é<":1.5}}`},
		{`{"type":"record","name":"N","fields":[{"name":"next","type":["null","N"]},{"name":"m","type":{"type":"map","values":"N"}}]}`,
			map[string]any{"next": nil, "m": map[string]any{"y": map[string]any{"next": nil, "m": map[string]any{}}, "x": map[string]any{"next": nil, "m": map[string]any{}}}},
			`{"next":null,"m":{"x":{"next":null,"m":{}},"y":{"next":null,"m":{}}}}`},
	} {
		typ := compile(t, avro.Format{}, schema.Schema{Text: tc.schema})
		data := encoded(t, tc.schema, tc.value)
		for range 20 {
			if out, err := typ.ToJSON(data); err != nil || string(out) != tc.json {
				t.Fatalf("%s: %s, %v; want %s", tc.schema, out, err, tc.json)
			}
		}
	}
	typ := compile(t, avro.Format{}, schema.Schema{Text: longs})
	if out, err := typ.ToJSON([]byte("\x04\x02\xfe\x02\x02\xff\x04\x00")); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
		t.Errorf("two keys that are one in JSON: %s, %v", out, err)
	}
}

// The JSON of a union's value is that of its branch, and is read as this branch. (Of an array and a fixed, or of two
// numbers, JSON does not tell which.)
func TestUnionsKeepTheirBranch(t *testing.T) {
	t.Parallel()
	const a, b = `{"type":"record","name":"n.A","fields":[{"name":"a","type":"int"}]}`, `{"type":"record","name":"m.B","fields":[{"name":"a","type":"int"},{"name":"b","type":"long"}]}`
	const date, millis = `{"type":"int","logicalType":"date"}`, `{"type":"long","logicalType":"timestamp-millis"}`
	const fixed, ids = `{"type":"fixed","name":"F","size":2}`, `{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}`
	for _, of := range []struct{ schema, data, json string }{
		{`[` + a + `,` + b + `]`, "\x02\x02\x04", `{"a":1,"b":2}`},
		{`[` + b + `,` + a + `]`, "\x02\x02", `{"a":1}`},
		{`[` + a + `,{"type":"map","values":"int"}]`, "\x02\x04\x02z\x04\x02a\x02\x00", `{"a":1,"z":2}`},
		{`[{"type":"map","values":["null",` + a + `,` + b + `]},"null"]`, "\x00\x02\x02z\x04\x02\x04\x00", `{"z":{"a":1,"b":2}}`},
		{`{"type":"array","items":["null",` + a + `,` + b + `]}`, "\x06\x02\x02\x04\x02\x04\x00\x00", `[{"a":1},{"a":1,"b":2},null]`},
		{`["null",{"type":"array","items":[` + a + `,` + b + `]}]`, "\x02\x02\x02\x02\x04\x00", `[{"a":1,"b":2}]`},
		{`["null",` + date + `,` + millis + `]`, "\x04\x82\xf7\xe5\xf6\xee\x66", `1767235173825`},
		{`["null",` + millis + `,` + date + `]`, "\x04\xc0\xb8\x02", `20000`},
		{`["null","string",` + millis + `]`, "\x04\x02", `1`},
		{`["null","string",` + fixed + `]`, "\x04\xc1\xc2", `"\u00c1\u00c2"`},
		{`[{"type":"array","items":"int"},` + fixed + `]`, "\x02\xc1\xc2", `"\u00c1\u00c2"`},
		{`["string",` + ids + `]`, "\x02\xc1" + "234567890123456", `"\u00c1234567890123456"`},
		{`["double","long"]`, "\x02\x82\x80\x80\x80\x80\x80\x80\x20", `9007199254740993`},
		{`["float","double"]`, "\x02\x9a\x99\x99\x99\x99\x99\xb9\x3f", `0.1`},
	} {
		typ := compile(t, avro.Format{}, schema.Schema{Text: of.schema})
		out, err := typ.ToJSON([]byte(of.data))
		if err != nil || string(out) != of.json {
			t.Errorf("%s: %s, %v; want %s", of.schema, out, err, of.json)
		}
		if !strings.HasPrefix(strings.TrimLeft(of.json, "["), "{") {
			continue
		}
		var written, read any
		if err := errors.Join(typ.Decode([]byte(of.data), &written), typ.FromJSON(out, &read)); err != nil || !reflect.DeepEqual(written, read) {
			t.Errorf("%s: read as %v, %v; want %v", of.schema, read, err, written)
		}
	}
}

// JSON of the writer's schema is resolved to that of the program, as its binary form is.
func TestJSONIsResolved(t *testing.T) {
	t.Parallel()
	const a = `{"type":"record","name":"A","fields":[{"name":"a","type":"int"}]}`
	const written = `[` + a + `,{"type":"record","name":"B","fields":[{"name":"a","type":"int"},{"name":"b","type":"int"}]}]`
	for _, fields := range []string{
		`{"name":"a","type":"int"},{"name":"b","type":"int"},{"name":"c","type":"int","default":9}`,
		`{"name":"b","type":"long"}`, `{"name":"bb","aliases":["b"],"type":"int"}`,
	} {
		f, err := avro.Reader(`[` + a + `,{"type":"record","name":"B","fields":[` + fields + `]}]`)
		if err != nil {
			t.Fatal(err)
		}
		typ := compile(t, f, schema.Schema{Text: written})
		var binary, read any
		err = errors.Join(typ.Decode([]byte{2, 2, 4}, &binary), typ.FromJSON([]byte(`{"a":1,"b":2}`), &read))
		if err != nil || !reflect.DeepEqual(binary, read) {
			t.Errorf("%s: read as %v, %v; want %v", fields, read, err, binary)
		}
	}
}

// The fields of records are in the order of the schema.
func TestFieldsAreInTheOrderOfTheSchema(t *testing.T) {
	t.Parallel()
	text := record(`{"name":"z","type":"int"},{"name":"a","type":"int"}`)
	if out, err := compile(t, avro.Format{}, schema.Schema{Text: text}).ToJSON([]byte{2, 4}); err != nil || string(out) != `{"z":1,"a":2}` {
		t.Errorf("%s, %v", out, err)
	}
}
