package mskevent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

func parse(t *testing.T, payload string) *mskevent.Batch {
	t.Helper()
	b, err := mskevent.Parse("test", []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const two = `{"eventSource":"aws:kafka", "records":{
	"t-10":[{"offset":7,"topic":"t","partition":10},{"offset":5, "value":42,"topic":"t","partition":10}],
	"t-2":[{"offset":1}]}, "bootstrapServers":"b"}`

// An event comes from the cluster that it is said to: the ARN of one in MSK, or the bootstrap servers of another.
func TestTheClusterOfAnEvent(t *testing.T) {
	t.Parallel()
	for cluster, want := range map[string]msk.Event{
		"arn:aws:kafka:eu-central-1:1:cluster/a/1": {Source: "aws:kafka", SourceARN: "arn:aws:kafka:eu-central-1:1:cluster/a/1"},
		"b-1:9092,b-2:9092":                        {Source: "SelfManagedKafka", BootstrapServers: "b-1:9092,b-2:9092"},
	} {
		b, err := mskevent.New("test", []mskevent.Message{{Topic: "t"}})
		if err != nil {
			t.Fatal(err)
		}
		b.SetCluster(cluster)
		got, err := msk.Decode(b.Payload())
		if err != nil || got.Source != want.Source || got.SourceARN != want.SourceARN || got.BootstrapServers != want.BootstrapServers {
			t.Errorf("%s: %+v, %v", cluster, got, err)
		}
	}
}

func TestFrom(t *testing.T) {
	t.Parallel()
	b := parse(t, two)
	if b.Len() != 3 || string(b.Payload()) != two {
		t.Errorf("%d records, payload %s", b.Len(), b.Payload())
	}
	cut := b.From(map[string]int64{"t-10": 6})
	want := `{"eventSource":"aws:kafka","bootstrapServers":"b","records":{"t-10":[{"offset":7,"topic":"t","partition":10}]}}`
	if got := string(cut.Payload()); got != want || cut.Len() != 1 {
		t.Errorf("from t-10@6:\n got %s\nwant %s", got, want)
	}
	if !b.Has("t-10", 5) || b.Has("t-10", 6) || b.Has("t", 5) || cut.Has("t-2", 1) {
		t.Error("Has is wrong")
	}
	if again := cut.From(map[string]int64{"t-10": 7}); string(again.Payload()) != want {
		t.Errorf("cut twice: %s", again.Payload())
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for payload, says := range map[string]string{
		``:                                "not a JSON object",
		`[]`:                              "not a JSON object",
		`{"records":{}`:                   "too early",
		`{"records":{}} {}`:               "follows",
		`{"Records":[]}`:                  `no "records"`,
		`{"records":[]}`:                  "not a JSON object",
		`{"records":{"t-0":{}}}`:          `records["t-0"]`,
		`{"records":{"t-0":[{}]}}`:        `records["t-0"][0] has no whole number`,
		`{"records":{},"records":{}}`:     "twice",
		`{"records":{"t":[{"offset":1}}}`: "invalid character",
	} {
		if _, err := mskevent.Parse("test.json", []byte(payload)); err == nil || !strings.Contains(err.Error(), says) ||
			!strings.HasPrefix(err.Error(), "test.json ") {
			t.Errorf("%s: %v; want an error that names the file and says %q", payload, err, says)
		}
	}
}

// What is made here has to be what the function reads.
func TestNewIsReadByTheFunction(t *testing.T) {
	t.Parallel()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	b, err := mskevent.New("test", []mskevent.Message{
		{Topic: "a-b", Partition: 3, Offset: 1 << 60, Timestamp: -1, TimestampType: "CREATE_TIME", Key: []byte{}, Value: all, Headers: []mskevent.Header{
			{Key: "h\"\n", Value: all}, {Key: "h\"\n", Value: []byte{}}, {Key: "null"},
		}},
		{Topic: "a-b", Partition: 0, Offset: 2, Timestamp: 1000},
		{Topic: "a-b", Partition: 3, Offset: 1<<60 + 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b.Payload()), ",126,127,-128,-127,") {
		t.Error("the bytes of headers are not signed, as Lambda's are")
	}
	if m, err := b.Partitions[0].Records[0].Message(); err != nil || !reflect.DeepEqual(m.Value, all) || len(m.Headers) != 3 ||
		!reflect.DeepEqual(m.Headers[0].Value, all) || m.Headers[2].Value != nil || m.Key == nil || m.Offset != 1<<60 {
		t.Errorf("read back: %+v, %v", m, err)
	}
	event, err := msk.Decode(b.Payload())
	if err != nil {
		t.Fatal(err)
	}
	if len(event.Partitions) != 2 || len(event.Partitions[1].Records) != 2 {
		t.Fatalf("decoded %+v", event)
	}
	r := event.Partitions[1].Records[0]
	if r.Undecodable != nil || r.Source() != "a-b-3@1152921504606846976" || !r.Timestamp.IsZero() || r.Key == nil || string(r.Value) != string(all) {
		t.Errorf("decoded %+v, %v", r, r.Undecodable)
	}
	want := []kafka.Header{{Key: "h\"\n", Value: all}, {Key: "h\"\n", Value: []byte{}}, {Key: "null"}}
	if !reflect.DeepEqual(r.Headers, want) {
		t.Errorf("headers %+v", r.Headers)
	}
	if tombstone := event.Partitions[0].Records[0]; !tombstone.Tombstone() || tombstone.Key != nil {
		t.Errorf("decoded %+v, want nulls", tombstone)
	}
}

func TestSamplesKeepTheirBytes(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "events", "*.json"))
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
		offsets := make(map[string]int64)
		for _, p := range b.Partitions {
			offsets[p.ID] = 0
		}
		var before, after any
		if err := json.Unmarshal(payload, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b.From(offsets).Payload(), &after); err != nil {
			t.Fatalf("%s, delivered again, is no JSON: %v", path, err)
		}
		x, _ := json.Marshal(before)
		y, _ := json.Marshal(after)
		if string(x) != string(y) {
			t.Errorf("%s changes when it is delivered again", path)
		}
	}
}
