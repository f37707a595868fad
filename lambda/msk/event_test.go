package msk

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/kafka"
)

// documentedEvent is the example of AWS's page on Amazon MSK event sources.
const documentedEvent = `{
   "eventSource":"aws:kafka",
   "eventSourceArn":"arn:aws:kafka:us-east-1:123456789012:cluster/vpc-2priv-2pub/751d2973-a626-431c-9d4e-d7975eb44dd7-2",
   "bootstrapServers":"b-2.demo-cluster-1.a1bcde.c1.kafka.us-east-1.amazonaws.com:9092,b-1.demo-cluster-1.a1bcde.c1.kafka.us-east-1.amazonaws.com:9092",
   "records":{
      "mytopic-0":[
         {
            "topic":"mytopic",
            "partition":0,
            "offset":15,
            "timestamp":1545084650987,
            "timestampType":"CREATE_TIME",
            "key":"abcDEFghiJKLmnoPQRstuVWXyz1234==",
            "value":"SGVsbG8sIHRoaXMgaXMgYSB0ZXN0Lg==",
            "headers":[
               {
                  "headerKey":[ 104, 101, 97, 100, 101, 114, 86, 97, 108, 117, 101 ]
               }
            ]
         }
      ]
   }
}`

func TestDecodesTheDocumentedEvent(t *testing.T) {
	got, err := Decode([]byte(documentedEvent))
	if err != nil {
		t.Fatal(err)
	}
	key, err := base64.StdEncoding.DecodeString("abcDEFghiJKLmnoPQRstuVWXyz1234==")
	if err != nil {
		t.Fatal(err)
	}
	record := Record{
		Topic: "mytopic", Partition: 0, Offset: 15,
		Timestamp: time.Date(2018, 12, 17, 22, 10, 50, 987_000_000, time.UTC), TimestampType: "CREATE_TIME",
		Key:     key,
		Value:   []byte("Hello, this is a test."),
		Headers: []kafka.Header{{Key: "headerKey", Value: []byte("headerValue")}},
	}
	want := &Event{
		Source:           "aws:kafka",
		SourceARN:        "arn:aws:kafka:us-east-1:123456789012:cluster/vpc-2priv-2pub/751d2973-a626-431c-9d4e-d7975eb44dd7-2",
		BootstrapServers: "b-2.demo-cluster-1.a1bcde.c1.kafka.us-east-1.amazonaws.com:9092,b-1.demo-cluster-1.a1bcde.c1.kafka.us-east-1.amazonaws.com:9092",
		Partitions:       [][]Record{{record}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// eventOf wraps one record as the only one of partition 3 of the topic "orders".
func eventOf(record string) []byte {
	return []byte(`{"eventSource":"aws:kafka","records":{"orders-3":[` + record + `]}}`)
}

// ofOrders is the record 7 of that partition, with what set changes.
func ofOrders(set func(*Record)) Record {
	r := Record{Topic: "orders", Partition: 3, Offset: 7}
	set(&r)
	return r
}

var recordCases = []struct {
	name   string
	record string
	want   Record
	field  string // of the error; none if empty
	cause  string // part of its message
}{
	{name: "topic and partition come from the map key", record: `{"offset":7}`,
		want: ofOrders(func(*Record) {})},
	{name: "null fields are absent ones", want: ofOrders(func(*Record) {}), record: `{"offset":7,"topic":null,"partition":null,"timestamp":null,
		"timestampType":null,"key":null,"value":null,"headers":null,"keySchemaMetadata":null,"valueSchemaMetadata":null}`},
	{name: "empty is not null", record: `{"offset":7,"key":"","value":""}`,
		want: ofOrders(func(r *Record) { r.Key, r.Value = []byte{}, []byte{} })},
	{name: "the last field of a name counts",
		record: `{"offset":-1,"value":"%","value":"aGk=","offset":7,"headers":1,"headers":[]}`,
		want:   ofOrders(func(r *Record) { r.Value = []byte("hi") })},
	{name: "names are case sensitive", record: `{"offset":7,"Offset":8,"VALUE":"aGk="}`,
		want: ofOrders(func(*Record) {})},
	{name: "names may be escaped", record: `{"\u006f\u0066fset":7,"\u0076alue":"aG\u006B="}`,
		want: ofOrders(func(r *Record) { r.Value = []byte("hi") })},
	{name: "unknown fields are ignored",
		record: `{"a":{"offset":[{}]},"offset":7,"b":[1,[2,{"c":null}]],"d":-1.5e-7,"e":true,"f":false}`,
		want:   ofOrders(func(*Record) {})},
	{name: "white space of every kind", record: "{ \t\r\n\"offset\" \t\r\n: \t\r\n7 \t\r\n, \"headers\" : [ { \"h\" : [ 1 ,\r\n\t 2 ] } ] }",
		want: ofOrders(func(r *Record) { r.Headers = []kafka.Header{{Key: "h", Value: []byte{1, 2}}} })},
	{name: "slashes may be escaped", record: `{"offset":7,"value":"\/\/8="}`,
		want: ofOrders(func(r *Record) { r.Value = []byte{0xff, 0xff} })},
	{name: "no timestamp", record: `{"offset":7,"timestamp":-1,"timestampType":"NO_TIMESTAMP_TYPE"}`,
		want: ofOrders(func(r *Record) { r.TimestampType = "NO_TIMESTAMP_TYPE" })},
	{name: "timestamp in microseconds", record: `{"offset":7,"timestamp":1545084650987000}`,
		want: ofOrders(func(r *Record) { r.Timestamp = time.UnixMilli(1545084650987000).UTC() })},
	{name: "header bytes are signed, or not",
		record: `{"offset":7,"headers":[{"h":[118,-36,0,127,-128,255]}]}`,
		want: ofOrders(func(r *Record) {
			r.Headers = []kafka.Header{{Key: "h",
				Value: []byte{118, 220, 0, 127, 128, 255}}}
		})},
	{name: "headers keep their order and copies",
		record: `{"offset":7,"headers":[{"b":[1]},{"a":[2]},null,{"b":[1],"c":null},{"b":[]},{}]}`,
		want: ofOrders(func(r *Record) {
			r.Headers = []kafka.Header{{Key: "b", Value: []byte{1}}, {Key: "a", Value: []byte{2}},
				{Key: "b", Value: []byte{1}}, {Key: "c", Value: nil}, {Key: "b", Value: []byte{}}}
		})},
	{name: "header names are any text", record: `{"offset":7,"headers":[{"":[1]},{"\ud83d\ude00\ud83d\"":[2]},{"ü` + "\xff" + `":[3]}]}`,
		want: ofOrders(func(r *Record) {
			r.Headers = []kafka.Header{{Key: "", Value: []byte{1}}, {Key: "😀\ufffd\"", Value: []byte{2}},
				{Key: "ü\ufffd", Value: []byte{3}}}
		})},
	{name: "schema metadata", record: `{"offset":7,"keySchemaMetadata":{"dataFormat":"AVRO","schemaId":"a1d0"},"valueSchemaMetadata":{"schemaId":17,"x":1}}`,
		want: ofOrders(func(r *Record) {
			r.KeySchema, r.ValueSchema = &kafka.Schema{ID: "a1d0",
				DataFormat: "AVRO"}, &kafka.Schema{ID: "17"}
		})},

	{name: "another topic", record: `{"offset":7,"topic":"payments"}`, want: ofOrders(func(*Record) {}),
		field: "topic", cause: `it is "payments", but the record is under "orders"`},
	{name: "another partition", record: `{"offset":7,"partition":4}`, want: ofOrders(func(*Record) {}),
		field: "partition", cause: "it is 4, but the record is under partition 3"},
	{name: "a partition as text", record: `{"offset":7,"partition":"3"}`, want: ofOrders(func(*Record) {}),
		field: "partition", cause: `it is "3"`},
	{name: "a timestamp as text", record: `{"offset":7,"timestamp":"now"}`, want: ofOrders(func(*Record) {}),
		field: "timestamp", cause: `it is "now", not a whole number of milliseconds`},
	{name: "a timestamp with a fraction", record: `{"offset":7,"timestamp":1.5}`,
		want: ofOrders(func(*Record) {}), field: "timestamp", cause: "it is 1.5"},
	{name: "bad base64 in the value", record: `{"offset":7,"key":"a2V5","value":"not base64!"}`,
		want:  ofOrders(func(r *Record) { r.Key = []byte("key") }),
		field: "value", cause: "illegal base64 data at input byte 3"},
	{name: "bad base64 in the key", record: `{"offset":7,"key":"a2V5a2V","value":"aGk="}`,
		want:  ofOrders(func(r *Record) { r.Value = []byte("hi") }),
		field: "key", cause: "illegal base64 data at input byte 4"},
	{name: "a value as a number", record: `{"offset":7,"value":42}`, want: ofOrders(func(*Record) {}),
		field: "value", cause: "it is a number, not base64"},
	{name: "a header byte too large", record: `{"offset":7,"headers":[{"a":[1]},{"h":[1,2,256]}]}`,
		want: ofOrders(func(*Record) {}), field: "headers", cause: `"h" has a number at 2`},
	{name: "a header byte too large before another", record: `{"offset":7,"headers":[{"h":[256,1]}]}`,
		want: ofOrders(func(*Record) {}), field: "headers", cause: `"h" has a number at 0`},
	{name: "a header byte with a fraction", record: `{"offset":7,"headers":[{"h":[1.5,1]}]}`,
		want: ofOrders(func(*Record) {}), field: "headers", cause: `"h" has a number at 0`},
	{name: "a header byte too small", record: `{"offset":7,"headers":[{"h":[-129,1]}]}`,
		want: ofOrders(func(*Record) {}), field: "headers", cause: `"h" has a number at 0`},
	{name: "a header value as text", record: `{"offset":7,"headers":[{"h":"aGk="}]}`,
		want: ofOrders(func(*Record) {}), field: "headers", cause: `"h" is a string, not an array of bytes`},
	{name: "headers as an object", record: `{"offset":7,"headers":{"h":[1]}}`,
		want: ofOrders(func(*Record) {}), field: "headers", cause: "they are an object"},
	{name: "a header as an array", record: `{"offset":7,"headers":[[1]]}`, want: ofOrders(func(*Record) {}),
		field: "headers", cause: "one of them is an array"},
	{name: "a schema as text", record: `{"offset":7,"valueSchemaMetadata":"AVRO"}`,
		want: ofOrders(func(*Record) {}), field: "valueSchemaMetadata", cause: "not an object"},
	{name: "a schema id as an array", record: `{"offset":7,"keySchemaMetadata":{"schemaId":[1]}}`,
		want: ofOrders(func(*Record) {}), field: "keySchemaMetadata", cause: "not a string"},
	{name: "all of it wrong", record: `{"offset":7,"topic":1,"partition":1.5,"timestamp":{},"timestampType":[],"key":"%","value":1,"headers":[{"h":[999]}],"keySchemaMetadata":0,"valueSchemaMetadata":{"dataFormat":1}}`,
		want: ofOrders(func(*Record) {}), field: "topic", cause: "it is 1"},
}

func TestDecodesRecords(t *testing.T) {
	for _, c := range recordCases {
		t.Run(c.name, func(t *testing.T) {
			payload := eventOf(c.record + `,{"offset":8,"value":"aGk="}`)
			event, err := Decode(payload)
			if err != nil {
				t.Fatal(err)
			}
			got := event.Partitions[0]
			requireCause(t, &got[0], c.field, c.cause, c.record)
			got[0].Undecodable = nil
			if want := ofOrders(func(r *Record) { r.Offset, r.Value = 8, []byte("hi") }); !reflect.DeepEqual(
				got, []Record{c.want, want}) {
				t.Errorf("got\n%+v\nwant\n%+v", got, []Record{c.want, want})
			}
			requireAgreement(t, payload)
		})
	}
}

// requireCause checks what a record says of why it can't be decoded.
func requireCause(t *testing.T, r *Record, field, cause, raw string) {
	t.Helper()
	if field == "" {
		if r.Undecodable != nil {
			t.Errorf("unexpected error %v", r.Undecodable)
		}
		return
	}
	decodeErr := r.Undecodable
	if decodeErr == nil || errors.Unwrap(decodeErr) == nil {
		t.Fatalf("the error is %v, want a DecodeError with a cause", r.Undecodable)
	}
	if decodeErr.Field != field || !strings.Contains(decodeErr.Err.Error(), cause) ||
		decodeErr.Source != r.Source() {
		t.Errorf("the error is of %s in %s: %v; want %q in %s: %s", decodeErr.Field, decodeErr.Source,
			decodeErr.Err, cause, r.Source(), field)
	}
	if want := fmt.Sprintf("record orders-3@7 can't be decoded: %s: ",
		field); !strings.HasPrefix(r.Undecodable.Error(), want) {
		t.Errorf("the message is %q, want it to start with %q", r.Undecodable, want)
	}
	if string(r.Undecodable.Raw) != raw {
		t.Errorf("raw is %s, want %s", r.Undecodable.Raw, raw)
	}
	if r.Tombstone() {
		t.Error("a record that can't be decoded passes for a tombstone")
	}
}

var refusedEvents = []struct {
	name, payload, message string
}{
	{"nothing", ``, "ends after 0 bytes"},
	{"white space", " \n", "ends after 2 bytes"},
	{"no JSON", `hello`, `byte 0 is 'h'`},
	{"null", `null`, "the payload is null, not an object"},
	{"an array", `[{"records":{}}]`, "the payload is an array"},
	{"a string", `"records"`, "the payload is a string"},
	{"a byte order mark", "\xef\xbb\xbf" + `{"records":{}}`, "byte 0 is"},
	{"cut short", `{"records":{"a-0":[{"offset":1`, "ends after 30 bytes, where a comma or } is expected"},
	{"cut short in a name", `{"records":{},"a`, "where the end of a string is expected"},
	{"cut short in a string", `{"records":{"a-0":[{"offset":1,"value":"aGVsbG8`,
		"where the end of a string is expected"},
	{"two payloads", `{"records":{}}{}`, "byte 14 is '{', where the end is expected"},
	{"a comma too many", `{"records":{"a-0":[{"offset":1},]}}`, "where a value is expected"},
	{"a comma too many after a member", `{"records":{"a-0":[]},}`, "where a name in quotes is expected"},
	{"no comma", `{"records":{} "a":1}`, "where a comma or } is expected"},
	{"no colon", `{"records" {}}`, "where a colon is expected"},
	{"the wrong bracket", `{"records":{"a-0":[{"offset":1]}}}`, "where a comma or } is expected"},
	{"a control character", "{\"records\":{},\"a\":\"\n\"}", "where no control character is expected"},
	{"a bad escape", `{"records":{},"a":"\x"}`, "where a character that can be escaped is expected"},
	{"cut short in an escape", `{"records":{},"a":"\`, "where the end of a string is expected"},
	{"a bad unicode escape", `{"records":{},"a":"\u123g"}`, "where a hexadecimal digit is expected"},
	{"a leading zero", `{"records":{},"a":01}`, "byte 19 is '1'"},
	{"a number without digits", `{"records":{},"a":-}`, "where a digit is expected"},
	{"a fraction without digits", `{"records":{},"a":1.}`, "where a digit is expected"},
	{"an exponent without digits", `{"records":{},"a":1e+}`, "where a digit is expected"},
	{"a bad literal", `{"records":{},"a":nul}`, "where null is expected"},
	{"a header with a comma too many", `{"records":{"a-0":[{"offset":1,"headers":[{"h":[1,]}]}]}}`,
		"where a value is expected"},
	{"a header byte with a leading zero", `{"records":{"a-0":[{"offset":1,"headers":[{"h":[01,2]}]}]}}`,
		"where a comma or ] is expected"},
	{"too deep", `{"records":{},"a":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`,
		"nests deeper than 10000 levels"},
	{"hostile depth", strings.Repeat(`{"a":`, 500_000), "nests deeper than 10000 levels"},

	{"an SQS event", `{"Records":[{"eventSource":"aws:sqs","messageId":"1"}]}`, `no "records"`},
	{"another source", `{"eventSource":"aws:mq","records":{}}`, `its eventSource is "aws:mq"`},
	{"a source that is no string", `{"eventSource":1,"records":{}}`, "its eventSource is 1, not a string"},
	{"an ARN that is no string", `{"eventSourceArn":{},"records":{}}`, "its eventSourceArn is an object"},
	{"no records", `{"eventSource":"aws:kafka"}`, `no "records"`},
	{"null records", `{"eventSource":"aws:kafka","records":null}`, `its "records" are null`},
	{"an array of records", `{"records":[{"offset":1}]}`, `its "records" are an array`},
	{"records twice", `{"records":{"a-0":[]},"records":{"b-0":[]}}`, `it has "records" twice`},
	{"a partition twice", `{"records":{"a-0":[{"offset":1}],"b-0":[],"a-0":[{"offset":2}]}}`,
		`it has the partition "a-0" twice`},
	{"null for a partition", `{"records":{"a-0":null}}`, `records["a-0"] is null, not an array`},
	{"no partition number", `{"records":{"orders":[]}}`, `the key "orders"`},
	{"no topic", `{"records":{"-1":[]}}`, `the key "-1"`},
	{"a partition number with a leading zero", `{"records":{"a-01":[]}}`, `the key "a-01"`},
	{"a partition number with a sign", `{"records":{"a-+1":[]}}`, `the key "a-+1"`},
	{"a partition number too large", `{"records":{"a-2147483648":[]}}`, `the key "a-2147483648"`},
	{"null for a record", `{"records":{"a-0":[null]}}`, `records["a-0"][0] is null, not an object`},
	{"a record that is no object", `{"records":{"a-0":[{"offset":1},"x"]}}`,
		`records["a-0"][1] is a string, not an object`},
	{"no offset", `{"records":{"a-0":[{"value":"aGk="}]}}`,
		`records["a-0"][0].offset, at byte 19, is absent`},
	{"a null offset", `{"records":{"a-0":[{"offset":1},{"offset":null}]}}`,
		`records["a-0"][1].offset, at byte 32, is null`},
	{"a negative offset", `{"records":{"a-0":[{"offset":-1}]}}`, "is -1, not a whole number"},
	{"an offset as text", `{"records":{"a-0":[{"offset":"1"}]}}`, `is "1", not a whole number`},
	{"an offset with a fraction", `{"records":{"a-0":[{"offset":1.0}]}}`, "is 1.0, not a whole number"},
	{"an offset with an exponent", `{"records":{"a-0":[{"offset":1e3}]}}`, "is 1e3, not a whole number"},
	{"an offset that would wrap around", `{"records":{"a-0":[{"offset":18446744073709551617}]}}`,
		"is 18446744073709551617, not a whole number"},
	{"an offset too large", `{"records":{"a-0":[{"offset":9223372036854775808}]}}`,
		"is 9223372036854775808, not a whole number"},
}

func TestRefusesWholeEvents(t *testing.T) {
	for _, c := range refusedEvents {
		t.Run(c.name, func(t *testing.T) {
			event, err := Decode([]byte(c.payload))
			if event != nil || !errors.Is(err, ErrNotKafka) {
				t.Fatalf("got %+v and error %v, want ErrNotKafka alone", event, err)
			}
			if !strings.Contains(err.Error(), c.message) {
				t.Errorf("the message is %q, want %q in it", err, c.message)
			}
			requireAgreement(t, []byte(c.payload))
		})
	}
}

func TestAcceptsTheDeepestOfEncodingJSON(t *testing.T) {
	requireAgreement(t, []byte(`{"records":{},"a":`+strings.Repeat("[", 9_999)+strings.Repeat("]", 9_999)+
		`}`))
}

func TestAcceptsEverySource(t *testing.T) {
	for _, source := range []string{`"aws:kafka"`, `"SelfManagedKafka"`, `"aws:SelfManagedKafka"`, `null`,
		`""`} {
		event, err := Decode([]byte(`{"eventSource":` + source + `,"records":{}}`))
		if err != nil || len(event.Partitions) != 0 {
			t.Errorf("%s: %+v, %v", source, event, err)
		}
	}
}

func TestSortsPartitionsAndRecords(t *testing.T) {
	event, err := Decode([]byte(`{"records":{
		"b-0":[],
		"a-10":[{"offset":1}],
		"a-2":[{"offset":3,"key":"MQ=="},{"offset":1},{"offset":3,"key":"Mg=="},{"offset":2},{"offset":3,"key":"Mw=="}],
		"a-1-0":[{"offset":9007199254740993}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range event.Partitions {
		got = append(got, fmt.Sprintf("%s is %s and %d:", p[0].PartitionID(), p[0].Topic, p[0].Partition))
		for _, r := range p {
			got = append(got, r.Source()+string(r.Key))
		}
	}
	want := []string{
		"a-2 is a and 2:", "a-2@1", "a-2@2", "a-2@31", "a-2@32", "a-2@33",
		"a-10 is a and 10:", "a-10@1",
		"a-1-0 is a-1 and 0:", "a-1-0@9007199254740993",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

func TestKeepsTheOrderOfEqualOffsets(t *testing.T) {
	var records []string
	for i := range 50 { // more than a sort treats like a handful
		records = append(records, fmt.Sprintf(`{"offset":%d,"timestamp":%d}`, 9-i%10, i))
	}
	got := mustDecode(t, eventOf(strings.Join(records, ","))).Partitions[0]
	for i := 1; i < len(got); i++ {
		if a, b := got[i-1], got[i]; a.Offset > b.Offset || a.Offset == b.Offset &&
			!a.Timestamp.Before(b.Timestamp) {
			t.Errorf("%s of %s stands before %s of %s", a.Source(), a.Timestamp, b.Source(), b.Timestamp)
		}
	}
}

func TestTombstone(t *testing.T) {
	for record, want := range map[string]bool{
		`{"offset":7}`:                         true,
		`{"offset":7,"value":null}`:            true,
		`{"offset":7,"value":""}`:              false,
		`{"offset":7,"value":"aGk="}`:          false,
		`{"offset":7,"value":"%"}`:             false,
		`{"offset":7,"key":"%","value":"%"}`:   false,
		`{"offset":7,"value":null,"key":"%%"}`: false,
	} {
		if got := mustDecode(t, eventOf(record)).Partitions[0][0].Tombstone(); got != want {
			t.Errorf("%s: %v, want %v", record, got, want)
		}
	}
}

func TestHeaderYieldsEveryValueOfAName(t *testing.T) {
	record := mustDecode(t, eventOf(`{"offset":7,"headers":[{"a":[1]},{"b":[2]},{"a":null},{"A":[3]},{"a":[]}]}`)).Partitions[0][0]
	if got, want := slices.Collect(record.Header("a")), [][]byte{{1}, nil, {}}; !reflect.DeepEqual(got,
		want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := slices.Collect(record.Header("c")); got != nil {
		t.Errorf("got %v for a header that is not there", got)
	}
	for value := range record.Header("a") { // to stop early must stop
		if !bytes.Equal(value, []byte{1}) {
			t.Errorf("the loop went on to %v", value)
		}
		break
	}
}

func mustDecode(t testing.TB, payload []byte) *Event {
	t.Helper()
	event, err := Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	return event
}
