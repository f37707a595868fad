package proto_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	protolib "google.golang.org/protobuf/proto"

	"github.com/idemsk/idemsk/schema"
	"github.com/idemsk/idemsk/schema/proto"
)

// first is the index of the first message type, without any bytes in the data.
func first(data []byte) (schema.Index, []byte, error) { return schema.Index{Path: []int{0}}, data, nil }

func compile(t *testing.T, s schema.Schema) schema.Type {
	t.Helper()
	s.Index = first
	typ, err := proto.Format{}.Compile(&s)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

// wantJSON checks the JSON of a message in hexadecimal.
func wantJSON(t *testing.T, typ schema.Type, message, want string) {
	t.Helper()
	data, err := hex.DecodeString(strings.ReplaceAll(message, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := typ.ToJSON(data); err != nil || string(out) != want {
		t.Errorf("%s is %s, %v; want %s", message, out, err, want)
	}
}

// Messages are decoded by the schemas that registries hold: with imports that have no reference because a
// registry has the files, and with options that are defined nowhere.
func TestSchemasOfRegistriesAreRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, message, json string }{
		"Debezium with Connect's converter: options without their import": {
			`syntax = "proto3";
package test.db_test.dbo.User_Setup;

import "confluent/type/decimal.proto";

message Value {
  string User_ID = 2;
  int32 Register_Time = 5 [(confluent.field_meta) = {
    params: [
      {
        key: "connect.type",
        value: "int16"
      }
    ]
  }];
  confluent.type.Decimal Max_Auto_Value = 6 [(confluent.field_meta) = {
    params: [
      { value: "38", key: "precision" },
      { value: "20", key: "scale" }
    ]
  }];
}`, "12 01 61 28 07 32 07 0a 01 05 10 26 18 14", `{"UserID":"a","RegisterTime":7,"MaxAutoValue":{"value":"BQ==","precision":38,"scale":20}}`,
		},
		"Connect: dates and times": {
			`syntax = "proto3";
import "google/type/date.proto";
import "google/type/timeofday.proto";
import "google/protobuf/timestamp.proto";
import "confluent/meta.proto";
message ConnectDefault1 {
  option (confluent.message_meta) = { doc: "a [row];", params: [ { value: "x", key: "y" } ] };
  .google.type.Date day = 1;
  google.type.TimeOfDay time = 2;
  google.protobuf.Timestamp at = 3;
}`, "0a 07 08 ea 0f 10 01 18 02 12 02 08 0a 1a 02 08 01", `{"day":{"year":2026,"month":1,"day":2},"time":{"hours":10,"minutes":0,"seconds":0,"nanos":0},"at":"1970-01-01T00:00:01Z"}`,
		},
		"all files of registries": {
			`syntax = "proto3"; import public "confluent/types/decimal.proto"; import "confluent/types/variant.proto"; import "confluent/type/variant.proto"; ` +
				imports("calendar_period", "color", "date", "datetime", "dayofweek", "decimal", "expr", "fraction", "interval", "latlng", "localized_text", "money", "month",
					"phone_number", "postal_address", "quaternion", "timeofday") +
				`import "confluent/meta.proto"; message M { confluent.type.Decimal d = 1; confluent.type.Variant v = 2; google.type.Money m = 3; confluent.Meta meta = 4; google.type.Month month = 5; google.type.DateTime t = 6; }`,
			"0a 00 12 00 1a 07 0a 03 45 55 52 10 05 28 02", `{"d":{"value":"","precision":0,"scale":0},"v":{"metadata":"","value":""},"m":{"currencyCode":"EUR","units":"5","nanos":0},"month":"FEBRUARY"}`,
		},
		"values of options that protoc does not admit": {
			`syntax = "proto3"; option (.confluent.file_meta).tags = ["PII", "PRI]VATE"]; option (com.custom.map).compatibility_mode = FULL; option go_package = "x"; option objc = x;
message M { int32 a = 1 [(confluent.field_meta).tags = "foo", (confluent.field_meta).tags = ["bar"], json_name = "id", (x) = { y: "]" }, deprecated = maybe];
  oneof o { option (o) = 1; /* ; */ option (p) = 'it\'s'; string option = 2 [ctype = 5]; string s = 3 [(a) = 1]; } // [ the end
  enum E { option (e) = { a: [1] }; option allow_alias = true; A = 0; B = 0 [(v) = 1]; } E e = 4; repeated int32 n = 5 [/* x */ packed = false, (z) = 1]; }`,
			"08 01 12 01 61 28 01 28 02", `{"id":1,"option":"a","e":"A","n":[1,2]}`,
		},
		"imports for options and services alone": {
			`syntax = "proto3"; import "validate/validate.proto"; import weak "a.proto"; import public "google/protobuf/empty.proto"; import "google/api/annotations.proto"; import public "b.proto";
message M { string id = 1 [(validate.rules).string = { min_len: 1 }]; google.protobuf.Empty e = 2; }
service S { option (google.api.default_host) = "x"; rpc Get(M) returns (other.N) { option (google.api.http) = { get: "/x/{id}" additional_bindings { get: "/y" } }; } }`,
			"0a 01 61", `{"id":"a"}`,
		},
		"options of its own": {
			`syntax = "proto3"; import "google/protobuf/descriptor.proto"; extend google.protobuf.FieldOptions { M x = 50000; } message M { string id = 1 [(x) = {id: "a"}]; }`,
			"0a 01 61", `{"id":"a"}`,
		},
		"proto2": {
			`option java_package = "x"; message M { required string id = 1; optional int32 n = 2 [default = 7, (x) = 1]; repeated int32 p = 3 [packed = true]; extensions 100 to 199 [declaration = { number: 100 }]; }`,
			"0a 01 61 1a 02 01 02", `{"id":"a","p":[1,2]}`,
		},
		"extensions": {
			`syntax = "proto2"; message M { optional int32 a = 1; extensions 100 to 199; } extend M { optional int32 amount = 100; } message X { extend M { repeated X x = 101; } optional int32 y = 1; }`,
			"08 01 a0 06 05 aa 06 02 08 02", `{"a":1,"[X.x]":[{"y":2}],"[amount]":5}`,
		},
		"editions": {
			`edition = "2023"; option features.field_presence = IMPLICIT; option features.(pb.go).api_level = API_OPAQUE; message M { string a = 1; string b = 2 [features.field_presence = EXPLICIT]; }`,
			"", `{"a":""}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantJSON(t, compile(t, schema.Schema{Text: tc.text}), tc.message, tc.json)
			reference := schema.Reference{Name: "r.proto", Text: tc.text}
			wantJSON(t, compile(t, schema.Schema{Text: `syntax = "proto3"; import "r.proto"; message Main { int32 z = 1; }`,
				References: []schema.Reference{reference}}), "", `{"z":0}`)
		})
	}
}

func imports(names ...string) (text string) {
	for _, name := range names {
		text += fmt.Sprintf("import \"google/type/%s.proto\"; ", name)
	}
	return text
}

// What a registry has itself replaces the files that are known here.
func TestReferencesReplaceKnownFiles(t *testing.T) {
	t.Parallel()
	typ := compile(t, schema.Schema{
		Text: `syntax = "proto3"; import "confluent/type/decimal.proto"; import "google/type/money.proto"; message M { confluent.type.Decimal d = 1; google.type.Money m = 2; }`,
		References: []schema.Reference{
			{Name: "confluent/type/decimal.proto", Text: `syntax = "proto3"; package confluent.type; message Decimal { string own = 1; }`},
			{Name: "google/type/money.proto", Text: `syntax = "proto3"; package google.type; message Money { string own = 1; }`},
		},
	})
	wantJSON(t, typ, "0a 03 0a 01 61 12 00", `{"d":{"own":"a"},"m":{"own":""}}`)
}

// A type that is nowhere is an error, which names the imports that are.
func TestSchemasThatDoNotCompile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`syntax = "proto3"; import "bank/party.proto"; message M { bank.Party p = 1; }`: "unknown type bank.Party (not among the references of the schema in the registry: bank/party.proto)",
		`syntax = "proto3"; message M { string a = 1 [(x) = }`:                          "syntax error",
		`syntax = "proto3"; message M { string a = 1 [`:                                 "syntax error",
		`syntax = "proto3"; option (`:                                                   "it has no message type",
		`syntax = "proto3"; message M { string a = "`:                                   "unexpected EOF",
		`syntax = "proto3"; /* message M { }`:                                           "comment",
		"syntax = \"proto3\";\noption (x) = {\n a: 1 };\nmessage M { strin a = 1; }":    "4:13",
		`syntax = "proto3";`:                                                            "it has no message type",
	} {
		_, err := proto.Format{}.Compile(&schema.Schema{Text: text})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

// Whether JSON has a field depends on the schema: a field that can't be absent has its default.
func TestPresenceIsThatOfTheSchema(t *testing.T) {
	t.Parallel()
	const proto3 = `syntax = "proto3"; message M { int64 n = 1; optional int64 o = 2; string s = 3; bool b = 4; double d = 5; bytes y = 6; E e = 7; repeated string l = 8; map<string, int32> m = 9; ` +
		`oneof x { int32 x1 = 10; string x2 = 11; } N c = 12; repeated N r = 13; enum E { ZERO = 0; ONE = 1; } message N { uint32 u = 1; } }`
	const zero = `{"n":"0","s":"","b":false,"d":0,"y":"","e":"ZERO","l":[],"m":{},"r":[]}`
	const proto2 = `message M { required int64 n = 1; optional int64 o = 2 [default = 7]; repeated int32 l = 3; }`
	for _, tc := range []struct{ text, message, json string }{
		{proto3, "", zero},
		{proto3, "08 00 1a 00 20 00 29 0000000000000000 32 00 38 00", zero},
		{proto3, "10 00 50 00 62 00", `{"n":"0","o":"0","s":"","b":false,"d":0,"y":"","e":"ZERO","l":[],"m":{},"x1":0,"c":{"u":0},"r":[]}`},
		{proto3, "5a 00 6a 00 6a 02 08 05 4a 03 0a 01 62 4a 03 0a 01 61", `{"n":"0","s":"","b":false,"d":0,"y":"","e":"ZERO","l":[],"m":{"a":0,"b":0},"x2":"","r":[{"u":0},{"u":5}]}`},
		{proto2, "08 00", `{"n":"0","l":[]}`},
		{proto2, "08 00 10 07", `{"n":"0","o":"7","l":[]}`},
	} {
		wantJSON(t, compile(t, schema.Schema{Text: tc.text}), tc.message, tc.json)
	}
}

// What JSON has more than the message counts for the limits: for its bytes, and for a handler of JSON, but not
// for one of messages.
func TestDefaultsCountAsElements(t *testing.T) {
	t.Parallel()
	typ := compile(t, schema.Schema{Text: `syntax = "proto3"; message M { repeated N r = 1; } message N { int32 a = 1; int32 b = 2; optional int32 c = 3; }`,
		Limits: schema.Limits{MaxElements: 14}})
	for messages, fits := range map[int]bool{3: true, 4: false} {
		// the message, its list, and for each item an element of the list, a message and two fields
		data := []byte(strings.Repeat("\x0a\x02\x08\x01", messages))
		_, err := typ.ToJSON(data)
		var decoded map[string]any
		json := typ.Decode(data, &decoded)
		if (err == nil) != fits || (json == nil) != fits {
			t.Errorf("%d messages: %v, %v", messages, err, json)
		}
		var message protolib.Message
		if err := typ.Decode(data, &message); err != nil {
			t.Errorf("%d messages: %v", messages, err)
		}
	}
}
