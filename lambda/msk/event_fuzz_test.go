package msk

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/kafka"
)

// requireAgreement fails t where the two decoders differ on payload. The first one's copy is overwritten
// before the comparison, so whatever it had left in place would differ.
func requireAgreement(t interface {
	Helper()
	Fatalf(string, ...any)
}, payload []byte) {
	t.Helper()
	want, accepted := reference(payload)
	lent := bytes.Clone(payload)
	got, err := Decode(lent)
	for i := range lent {
		lent[i] = 'x'
	}
	if (err == nil) != accepted {
		t.Fatalf("Decode's error is %v, the reference accepts: %v\n%s", err, accepted, payload)
	}
	if err != nil {
		return
	}
	if got, want := flatten(*got), flatten(want); !reflect.DeepEqual(got, want) {
		t.Fatalf("Decode got\n%+v\nthe reference\n%+v\n%s", got, want, payload)
	}
}

// flatten returns the parts of an event, with what it shows of its errors by its methods.
func flatten(e Event) []any {
	out := []any{e.Source, e.SourceARN, e.BootstrapServers}
	for _, p := range e.Partitions {
		out = append(out, len(p))
		for _, r := range p {
			if r.Undecodable != nil {
				out = append(out, r.Undecodable.Source, r.Undecodable.Field, string(r.Undecodable.Raw))
			}
			r.Undecodable = nil
			out = append(out, r)
		}
	}
	return out
}

// FuzzDecode holds Decode against the reference on any payload.
func FuzzDecode(f *testing.F) {
	for _, payload := range corpus(f) {
		if len(payload) < 1<<15 { // a mutation of a large one mostly is like any other
			f.Add(payload)
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte) { requireAgreement(t, payload) })
}

// corpus is every payload of this package's tests and of the sample events.
func corpus(t testing.TB) (payloads [][]byte) {
	for _, c := range refusedEvents {
		payloads = append(payloads, []byte(c.payload))
	}
	for _, c := range recordCases {
		payloads = append(payloads, eventOf(c.record))
	}
	for _, path := range sampleEvents(t) {
		payloads = append(payloads, readFile(t, path))
	}
	return append(payloads, []byte(documentedEvent), typicalEvent(3))
}

// sampleEvents are the paths of the project's sample events.
func sampleEvents(t testing.TB) []string {
	paths, err := filepath.Glob("../../events/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no sample events in ../../events: %v", err)
	}
	return paths
}

func readFile(t testing.TB, path string) []byte {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// FuzzAgreesWithAWSLambdaGo holds Decode against the event type of aws-lambda-go: what that writes, Decode
// reads back.
func FuzzAgreesWithAWSLambdaGo(f *testing.F) {
	f.Add("payments", int32(0), int64(15), int64(1545084650987), "CREATE_TIME", []byte("key"),
		[]byte("value"), "name", []byte{118, 220, 0, 127, 128})
	f.Add("a-b-1", int32(math.MaxInt32), int64(math.MaxInt64), int64(-2), "", []byte{}, []byte{}, "",
		[]byte{})
	f.Add("ü<&>\u2028\"\\/", int32(7), int64(0), int64(0), "\x00\u007f", []byte{0}, []byte{255}, "\n",
		[]byte("x"))
	f.Fuzz(func(t *testing.T, topic string, partition int32, offset, ms int64, kind string, key, value []byte,
		name string, header []byte) {
		const maxMillis = math.MaxInt64 / 1_000_000 // the type goes through nanoseconds
		topic, kind, name = strings.ToValidUTF8(topic, ""), strings.ToValidUTF8(kind,
			""), strings.ToValidUTF8(name, "")
		if topic == "" || partition < 0 || offset < 0 || ms == -1 || ms < -maxMillis || ms > maxMillis {
			return
		}
		in := events.KafkaRecord{
			Topic: topic, Partition: int64(partition), Offset: offset,
			Timestamp: events.MilliSecondsEpochTime{Time: time.UnixMilli(ms)}, TimestampType: kind,
			Key: base64.StdEncoding.EncodeToString(key), Value: base64.StdEncoding.EncodeToString(value),
			Headers: []map[string]events.JSONNumberBytes{{name: header}},
		}
		want := Record{
			Topic: topic, Partition: partition, Offset: offset, Timestamp: time.UnixMilli(ms).UTC(),
			TimestampType: kind,
			Headers:       []kafka.Header{{Key: name, Value: append([]byte{}, header...)}},
		}
		if len(key) > 0 { // the type leaves out the empty ones
			want.Key = key
		}
		if len(value) > 0 {
			want.Value = value
		}
		id := want.PartitionID()
		payload, err := json.Marshal(events.KafkaEvent{EventSource: "aws:kafka",
			Records: map[string][]events.KafkaRecord{id: {in}}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(payload)
		if err != nil {
			t.Fatalf("%v\n%s", err, payload)
		}
		if !reflect.DeepEqual(got.Partitions, [][]Record{{want}}) {
			t.Fatalf("got\n%+v\nwant\n%+v\n%s", got.Partitions, want, payload)
		}
	})
}

// TestAgreesWithReference tries events that are nearly right, more of them than a fuzzer finds in the same
// time.
func TestAgreesWithReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { requireAgreement(t, anyEvent(t)) })
}

// anyEvent draws an event: fields in any order, missing, twice, of another type, white space, at times a byte
// that is wrong.
func anyEvent(t *rapid.T) []byte {
	oneIn := func(n int, label string) bool {
		// not at an end of the range, which are drawn more often than the rest
		return rapid.IntRange(-n/2, n-n/2).Draw(t, label) == 1
	}
	object := func(label string, fields map[string][]string) string {
		var members []string
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(slices.Sorted(maps.Keys(fields))), 0,
			2*len(fields)).Draw(t, label) {
			members = append(members, fmt.Sprintf("%q:%s", name,
				rapid.SampledFrom(fields[name]).Draw(t, name)))
		}
		return "{" + strings.Join(members, rapid.SampledFrom([]string{",", " ,\n\t"}).Draw(t, "comma")) + "}"
	}
	record := func() string {
		if oneIn(40, "odd record") {
			return rapid.SampledFrom([]string{"null", "[]", "1", `"offset"`}).Draw(t, "record")
		}
		text := object("fields", recordLiterals)
		if !oneIn(20, "no offset") {
			text = strings.TrimSuffix(text, "}") +
				fmt.Sprintf(`,"offset":%d}`, rapid.IntRange(0, 5).Draw(t, "offset"))
			text = strings.Replace(text, "{,", "{ ", 1)
		}
		return text
	}
	var partitions []string
	for range rapid.IntRange(0, 4).Draw(t, "partitions") {
		var records []string
		for range rapid.IntRange(0, 4).Draw(t, "records") {
			records = append(records, record())
		}
		id := rapid.SampledFrom([]string{"a-0", "a-1", "a-2", "a-10", "a-b-0", "b-2", "a-b-7"}).Draw(t, "id")
		if oneIn(40, "odd id") {
			id = rapid.SampledFrom([]string{"-1", "a-01", "a", "a-2147483648"}).Draw(t, "id")
		}
		partitions = append(partitions, fmt.Sprintf("%q:[%s]", id, strings.Join(records, ",")))
	}
	top := object("envelope", envelopeLiterals)
	text := strings.TrimSuffix(top, "}") + `,"records":{` + strings.Join(partitions, ",") + "}}"
	payload := []byte(strings.Replace(text, "{,", "{ ", 1))
	if oneIn(5, "damage") {
		at := rapid.IntRange(0, len(payload)-1).Draw(t, "at")
		payload[at] = rapid.SampledFrom([]byte("\"\\{}[],:0-.eE nu\x00\xff\x80\t")).Draw(t, "byte")
	}
	return payload
}

var envelopeLiterals = map[string][]string{
	"eventSource": {`"aws:kafka"`, `"aws:kafka"`, `"SelfManagedKafka"`, `"aws:SelfManagedKafka"`, `null`,
		`"\u0061ws:kafka"`},
	"eventSourceArn":   {`"arn:aws:kafka"`, `null`, `"\ud83d\ude00\ud83d"`},
	"bootstrapServers": {`"b-1:9098,b-2:9098"`, `""`},
	"Records":          {`[]`, `{"a":[{}]}`, `[[[]]]`},
}

var recordLiterals = map[string][]string{
	"topic":     {`"a"`, `"a"`, `"a-b"`, `"\u0061"`, `null`, `""`, `1`},
	"partition": {`0`, `1`, `2`, `10`, `-0`, `null`, `"0"`, `0.0`, `4294967296`},
	"offset": {`7`, `0`, `-0`, `-1`, `9223372036854775807`, `9223372036854775808`, `1e3`, `1.0`,
		`null`, `"1"`, `{}`},
	"Offset": {`1`},
	"timestamp": {`1545084650987`, `-1`, `-2`, `0`, `9223372036854775807`, `1e3`, `"1"`, `null`,
		`[]`},
	"timestampType":       {`"CREATE_TIME"`, `"LOG_APPEND_TIME"`, `"\u0043"`, "\"\xff\"", `null`, `1`},
	"key":                 {`"a2V5"`, `""`, `null`, `"a2V"`, `"\/\/8="`, `"a2\nV5"`, `"a2V\u0035"`, `true`},
	"value":               {`"dmFsdWU="`, `""`, `null`, `"%%%%"`, `"dmFsdWU"`, `[1]`, `{}`, `"ü==="`},
	"headers":             headerLiterals,
	"keySchemaMetadata":   schemaLiterals,
	"valueSchemaMetadata": schemaLiterals,
	"other":               {`{"offset":[1,{"a":null}]}`, `"\"\\\/\b\f\n\r\t"`, `-1.5E+10`, `true`, `false`},
}

var headerLiterals = []string{
	`[{"h":[104,-1,255]}]`, `[{"h":[1]},{"h":[2]}]`, `[{"h":[1],"h":[2],"i":[]}]`, `[]`, `null`,
	`[null,{"h":null}]`,
	`[{"h":[256]}]`, `[{"h":[-129]}]`, `[{"h":[1.0]}]`, `[{"h":[01]}]`, `[{"h":[1,]}]`,
	`[{"h":[ -128 , 127 ]}]`, `[{"h":[null]}]`,
	`[{"h":"aGk="}]`, `[{"h":[1,[2]]}]`, `["h"]`, `{}`, `1`, `[{"\u0068\ud800":[-0,0,00]}]`, `[{}]`,
}

var schemaLiterals = []string{
	`{"schemaId":"5f3a","dataFormat":"AVRO"}`, `{"schemaId":17,"dataFormat":"JSON"}`,
	`{"dataFormat":"PROTOBUF"}`, `{}`, `null`,
	`{"schemaId":null,"schemaId":"b","other":[]}`, `{"schemaId":true}`, `{"dataFormat":1}`, `"AVRO"`, `[]`,
}
