package mskevent_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

const two = `{"eventSource":"aws:kafka", "records":{
	"t-10":[{"offset":7,"topic":"t","partition":10},{"offset":5, "value":42,"topic":"t","partition":10}],
	"t-2":[{"offset":1}]}, "bootstrapServers":"b"}`

// An event names its cluster: the ARN of an MSK cluster, or the bootstrap servers of another.
func TestEventNamesItsCluster(t *testing.T) {
	t.Parallel()
	for cluster, want := range map[string]msk.Event{
		"arn:aws:kafka:eu-central-1:1:cluster/a/1": {Source: "aws:kafka",
			SourceARN: "arn:aws:kafka:eu-central-1:1:cluster/a/1"},
		"b-1:9092,b-2:9092": {Source: "SelfManagedKafka",
			BootstrapServers: "b-1:9092,b-2:9092"},
		"": {Source: "aws:kafka"},
	} {
		got, err := msk.Decode(mskevent.Cluster(cluster).Messages(mskevent.Message{Topic: "t"}))
		if err != nil || got.Source != want.Source || got.SourceARN != want.SourceARN ||
			got.BootstrapServers != want.BootstrapServers {
			t.Errorf("%s: %+v, %v", cluster, got, err)
		}
	}
}

func TestPartOfAnEvent(t *testing.T) {
	t.Parallel()
	e, err := mskevent.Parse("test", []byte(two))
	if err != nil || len(e.Records) != 3 || string(e.Payload) != two {
		t.Fatalf("%d records, payload %s, %v", len(e.Records), e.Payload, err)
	}
	want := `{"eventSource":"aws:kafka","bootstrapServers":"b","records":{"t-10":[{"offset":7,"topic":"t","partition":10}]}}`
	got := e.Envelope.Event(1, func(int) *mskevent.Record { return &e.Records[0] })
	size := e.Envelope.Size()
	if string(got) != want || size.With(&e.Records[0]).Bytes != len(want) {
		t.Errorf("of %d bytes\n got %s\nwant %s", size.With(&e.Records[0]).Bytes, got, want)
	}
	if id, topic := e.Records[2].PartitionID, e.Records[2].Topic(); id != "t-2" || topic != "t" ||
		e.Records[2].Offset != 1 {
		t.Errorf("the last record is at %s@%d of the topic %s", id, e.Records[2].Offset, topic)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for payload, says := range map[string]string{
		``:                                "unexpected end of JSON input",
		`[]`:                              "not a JSON object",
		`{"records":{}`:                   "unexpected end of JSON input",
		`{"records":{}} {}`:               "after top-level value",
		`{"Records":[]}`:                  `no "records"`,
		`{"records":[]}`:                  "not a JSON object",
		`{"records":{"t-0":{}}}`:          `records["t-0"]`,
		`{"records":{"t-0":[{}]}}`:        `records["t-0"][0] has no whole number`,
		`{"records":{},"records":{}}`:     "twice",
		`{"records":{"t":[{"offset":1}}}`: "invalid character",
	} {
		if _, err := mskevent.Parse("test.json", []byte(payload)); err == nil ||
			!strings.Contains(err.Error(), says) ||
			!strings.HasPrefix(err.Error(), "test.json ") {
			t.Errorf("%s: %v; want an error that names the file and says %q", payload, err, says)
		}
	}
}

// The function can read the events that this package writes.
func TestMessagesAreReadByTheFunction(t *testing.T) {
	t.Parallel()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	payload := mskevent.MSK("arn", "b:1").Messages(
		mskevent.Message{Topic: "a-b", Partition: 3, Offset: 1 << 60, Timestamp: -1,
			TimestampType: "CREATE_TIME", Key: []byte{}, Value: all, Headers: []mskevent.Header{
				{Key: "h\"\n", Value: all}, {Key: "h\"\n", Value: []byte{}}, {Key: "null"},
			}},
		mskevent.Message{Topic: "a-b", Partition: 0, Offset: 2, Timestamp: 1000},
		mskevent.Message{Topic: "a-b", Partition: 3, Offset: 1<<60 + 1},
	)
	if !strings.Contains(string(payload), ",126,127,-128,-127,") {
		t.Error("the bytes of headers are not signed, as Lambda's are")
	}
	event, err := msk.Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	if len(event.Partitions) != 2 || len(event.Partitions[1]) != 2 {
		t.Fatalf("decoded %+v", event)
	}
	r := event.Partitions[1][0]
	if r.Undecodable != nil || r.Source() != "a-b-3@1152921504606846976" || !r.Timestamp.IsZero() ||
		r.Key == nil || string(r.Value) != string(all) {
		t.Errorf("decoded %+v, %v", r, r.Undecodable)
	}
	want := []kafka.Header{{Key: "h\"\n", Value: all}, {Key: "h\"\n", Value: []byte{}}, {Key: "null"}}
	if !reflect.DeepEqual(r.Headers, want) {
		t.Errorf("headers %+v", r.Headers)
	}
	if tombstone := event.Partitions[0][0]; !tombstone.Tombstone() || tombstone.Key != nil {
		t.Errorf("decoded %+v, want nulls", tombstone)
	}
}

func TestSamplesKeepTheirBytes(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join("..", "..", "events", "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no sample events", err)
	}
	for _, path := range paths {
		payload, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := mskevent.Parse(path, payload)
		if err != nil {
			t.Error(err)
			continue
		}
		again := b.Envelope.Event(len(b.Records), func(i int) *mskevent.Record { return &b.Records[i] })
		var before, after map[string]any
		if err := errors.Join(json.Unmarshal(payload, &before), json.Unmarshal(again, &after)); err != nil {
			t.Fatalf("%s, or what is delivered again of it, is no JSON: %v", path, err)
		}
		maps.DeleteFunc(before["records"].(map[string]any),
			func(_ string, records any) bool { return len(records.([]any)) == 0 })
		x, _ := json.Marshal(before)
		y, _ := json.Marshal(after)
		if string(x) != string(y) {
			t.Errorf("%s changes when it is delivered again", path)
		}
	}
}

// The records of an event are those that encoding/json reads, byte for byte, and an event of them is a valid
// one.
func FuzzRecords(f *testing.F) {
	f.Add(two)
	f.Add(` { "a\u0062": [ 1.5e3 , { "x" : "\\\"}]" } ] , "records" : { "t-0" : [ { "offset" : 1 , "v" : "\\" } , {"offset":2,"headers":[]} ] , "t-1":null } } `)
	f.Fuzz(func(t *testing.T, payload string) {
		e, err := mskevent.Parse("fuzz", []byte(payload))
		if err != nil {
			return
		}
		var want struct {
			Records map[string][]json.RawMessage `json:"records"`
		}
		var fields map[string]json.RawMessage // the names of an event are case-sensitive
		if err := errors.Join(json.Unmarshal([]byte(payload), &fields),
			json.Unmarshal(fields["records"], &want.Records)); err != nil {
			t.Fatalf("%q: %v", payload, err)
		}
		got := make(map[string][]json.RawMessage)
		for _, r := range e.Records {
			got[r.PartitionID] = append(got[r.PartitionID], r.JSON)
			if out, err := r.WithHeaders(isTest, mskevent.Header{Key: "a", Value: []byte("b")}); err == nil &&
				!json.Valid(out) {
				t.Errorf("%s with a header: %s", r.JSON, out)
			}
		}
		for id, records := range want.Records {
			if len(records) > 0 && len(got[id]) == len(records) && !reflect.DeepEqual(got[id], records) {
				t.Errorf("%q: %s has %q, want %q", payload, id, got[id], records)
			}
		}
		if again := e.Envelope.Event(len(e.Records),
			func(i int) *mskevent.Record { return &e.Records[i] }); !json.Valid(again) {
			t.Errorf("%q: %s", payload, again)
		}
	})
}
