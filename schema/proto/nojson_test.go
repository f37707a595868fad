package proto_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	gproto "google.golang.org/protobuf/proto"

	"github.com/idemsk/idemsk/schema"
)

// field returns a field that has a length.
func field(number protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), bytes.Join(parts, nil))
}

// number returns a field that is a number of a variable length.
func number(at protowire.Number, n int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, at, protowire.VarintType), uint64(n))
}

// packed returns an Any.
func packed(typ string, message []byte) []byte {
	return append(field(1, []byte("type.example.com/"+typ)), field(2, message)...)
}

const ofAll = `syntax = "proto2"; package p; import "google/protobuf/any.proto"; import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto"; import "google/protobuf/struct.proto"; import "google/protobuf/field_mask.proto"; import "r.proto";
message M { optional google.protobuf.Any any = 1; optional google.protobuf.Timestamp at = 2; optional google.protobuf.Duration took = 3;
  optional google.protobuf.Struct free = 4; optional google.protobuf.Value one = 5; optional google.protobuf.FieldMask mask = 6;
  optional string text = 7; repeated M list = 8; map<string, M> named = 9; repeated string texts = 10; optional group G = 11 { optional string in = 12; } }
message N { optional int32 n = 1; optional M m = 2; repeated int32 many = 3; }`

func ofAllReference() schema.Reference {
	return schema.Reference{Name: "r.proto", Text: `syntax = "proto3"; package r; message Referred { string s = 1; }`}
}

// The message in an Any is of a type of its schema: of the file itself, of a reference or of another import.
func TestAnyOfATypeOfItsSchema(t *testing.T) {
	t.Parallel()
	typ := compile(t, schema.Schema{Text: ofAll, References: []schema.Reference{ofAllReference()}})
	const rest = `,"list":[],"named":{},"texts":[]}`
	for want, message := range map[string][]byte{
		`{"any":{}` + rest: field(1),
		`{"any":{"@type":"type.example.com/p.N","n":5,"many":[]}` + rest: field(1, packed("p.N", number(1, 5))),
		`{"any":{"@type":"type.example.com/r.Referred","s":"x"}` + rest:  field(1, packed("r.Referred", field(1, []byte("x")))),
		`{"any":{"@type":"type.example.com/google.protobuf.Duration","value":"5s"}` + rest: field(1, packed("google.protobuf.Duration",
			number(1, 5))),
		`{"any":{"@type":"type.example.com/p.M","any":{"@type":"type.example.com/p.N","many":[]}` + rest + rest: field(1,
			packed("p.M", field(1, packed("p.N", nil)))),
	} {
		wantJSON(t, typ, hex.EncodeToString(message), want)
	}
}

// The error of a message that has no JSON form names the field, and quotes no value.
func TestFieldWithoutJSONIsNamed(t *testing.T) {
	t.Parallel()
	typ := compile(t, schema.Schema{Text: ofAll, References: []schema.Reference{ofAllReference()}})
	late := field(2, number(1, 253402300800)) // the year 10000
	text := field(7, []byte("alice\xff"))
	nan := protowire.AppendFixed64(protowire.AppendTag(nil, 2, protowire.Fixed64Type), math.Float64bits(math.NaN()))
	entry := func(key string, value []byte) []byte { return append(field(1, []byte(key)), field(2, value)...) }
	for name, tc := range map[string]struct {
		message []byte
		says    string
	}{
		"a type that is unknown":   {field(1, packed("alice.N", nil)), ".any: a google.protobuf.Any"},
		"no type":                  {field(1, field(2, []byte("alice"))), ".any: a google.protobuf.Any"},
		"what is in an Any":        {field(1, packed("p.M", late)), ".any: a google.protobuf.Any"},
		"a late time":              {late, ".at: a google.protobuf.Timestamp"},
		"negative nanoseconds":     {field(2, number(2, -1)), ".at: a google.protobuf.Timestamp"},
		"a long duration":          {field(3, number(1, math.MaxInt64)), ".took: a google.protobuf.Duration"},
		"a value that is not set":  {field(5), ".one: a google.protobuf.Value"},
		"NaN":                      {field(5, nan), ".one: a google.protobuf.Value"},
		"NaN in a struct":          {field(4, field(1, entry("alice", nan))), ".free.fields{}: a google.protobuf.Value"},
		"a mask":                   {field(6, field(1, []byte("alice_1"))), ".mask: a google.protobuf.FieldMask"},
		"a text":                   {text, ".text: a string that is not UTF-8"},
		"the second text":          {append(field(10, []byte("a")), field(10, []byte("alice\xff"))...), ".texts[1]: a string that is not UTF-8"},
		"in a list":                {append(field(8), field(8, late)...), ".list[1].at: a google.protobuf.Timestamp"},
		"in a map":                 {field(9, entry("alice", late)), ".named{}.at: a google.protobuf.Timestamp"},
		"a key":                    {field(9, entry("alice\xff", nil)), ".named{}: a string that is not UTF-8"},
		"in a list of a map":       {field(9, entry("alice", field(8, late))), ".named{}.list[0].at: a google.protobuf.Timestamp"},
		"the first one of several": {append(bytes.Clone(text), late...), ".at: a google.protobuf.Timestamp"},
	} {
		const begin = "it is a p.M that has no JSON form"
		if out, err := typ.ToJSON(tc.message); err == nil || err.Error() != begin+tc.says || strings.Contains(err.Error(), "alice") {
			t.Errorf("%s: %s, %v; want %s%s", name, out, err, begin, tc.says)
		}
	}
}

// The limits hold also for the message in an Any.
func TestLimitsCountTheMessageInAnAny(t *testing.T) {
	t.Parallel()
	many := bytes.Repeat(number(3, 1), 20)
	deep := packed("p.N", nil)
	for range 1100 {
		deep = packed("google.protobuf.Any", deep)
	}
	for name, message := range map[string][]byte{
		"elements":      field(1, packed("p.N", many)),
		"in a list":     field(8, field(1, packed("p.N", many))),
		"in each other": field(1, packed("google.protobuf.Any", packed("p.N", many))),
	} {
		for limit, fits := range map[int]bool{20: false, 60: true} {
			typ := compile(t, schema.Schema{Text: ofAll, References: []schema.Reference{ofAllReference()},
				Limits: schema.Limits{MaxElements: limit}})
			_, err := typ.ToJSON(message)
			if (err == nil) != fits || err != nil && !strings.Contains(err.Error(), "more than 20 elements") {
				t.Errorf("%s, at most %d elements: %v", name, limit, err)
			}
		}
	}
	typ := compile(t, schema.Schema{Text: ofAll, References: []schema.Reference{ofAllReference()}})
	if _, err := typ.ToJSON(field(1, deep)); err == nil || !strings.Contains(err.Error(), "in each other") {
		t.Errorf("deep: %v", err)
	}
}

// The elements of an extension count, as those of a field.
func TestLimitsCountExtensions(t *testing.T) {
	t.Parallel()
	for name, definition := range map[string]string{
		"a field":      `message M { repeated int32 x = 100 [packed = true]; }`,
		"an extension": `message M { extensions 100 to 199; } extend M { repeated int32 x = 100 [packed = true]; }`,
	} {
		typ := compile(t, schema.Schema{Text: `syntax = "proto2"; ` + definition, Limits: schema.Limits{MaxElements: 1000}})
		for items, fits := range map[int]bool{900: true, 1100: false} {
			message := field(100, make([]byte, items))
			var dynamic gproto.Message
			_, asJSON := typ.ToJSON(message)
			if asMessage := typ.Decode(message, &dynamic); (asJSON == nil) != fits || (asMessage == nil) != fits {
				t.Errorf("%s of %d items: %v, %v", name, items, asJSON, asMessage)
			}
		}
	}
}
