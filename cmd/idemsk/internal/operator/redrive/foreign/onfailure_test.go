package foreign_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive/foreign"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

const (
	cluster  = "arn:aws:kafka:us-east-1:123456789012:cluster/demo/751d2973"
	function = "arn:aws:lambda:us-east-1:123456789012:function:pay"
)

// document returns an on-failure record as AWS documents it, with the fields of KafkaBatchInfo about its
// records, and a payload if it is not empty.
func document(info, payload string) string {
	if payload != "" {
		payload = `,"payload":` + payload
	}
	return fmt.Sprintf(`{"requestContext":{"requestId":"316aa6d0","functionArn":%q,"condition":"RetryAttemptsExhausted",
		"approximateInvokeCount":3},"responseContext":{"statusCode":200,"executedVersion":"$LATEST","functionError":"Unhandled"},
		"version":"1.0","timestamp":"2019-11-14T00:38:06.021Z","KafkaBatchInfo":{"batchSize":4,"eventSourceArn":%q,
		"bootstrapServers":"b-1:9098","payloadSize":2039086%s}%s}`, function, cluster, info, payload)
}

const places = `,"recordsInfo":{
	"my-topic-1":{"firstRecordOffset":"7","lastRecordOffset":"9","firstRecordTimestamp":"2019-11-14T00:38:04.835Z","lastRecordTimestamp":"2019-11-14T00:38:05.580Z"},
	"my-topic-0":{"firstRecordOffset":"5","lastRecordOffset":"5","firstRecordTimestamp":"2019-11-14T00:38:04.835Z","lastRecordTimestamp":"2019-11-14T00:38:05.580Z"}}`

const event = `{"bootstrapServers":"b-1:9098","eventSource":"aws:kafka","eventSourceArn":"arn","records":{"my-topic-0":[
	{"headers":[{"h":[118,-1]}],"key":"a2V5","offset":100,"partition":0,"timestamp":1749116692330,"timestampType":"CREATE_TIME","topic":"my-topic","value":"dmFsdWU="},
	{"key":"a2V5","offset":101,"value":"eyJhIjoxfQ==","valueSchemaMetadata":{"dataFormat":"AVRO","schemaId":"1"}},
	{"offset":102,"value":42}]}}`

// about is what the letters of the documents have in common.
func about() kafka.DeadLetter {
	return kafka.DeadLetter{Function: function, Cluster: cluster, Attempts: 3, Error: store.Failure{
		Code: "RetryAttemptsExhausted", Message: "Unhandled, invocations: 3",
		At: time.Date(2019, 11, 14, 0, 38, 6, 21_000_000, time.UTC),
	}}
}

func mustParse(t *testing.T, body string) *foreign.OnFailure {
	t.Helper()
	f, ok, err := foreign.ParseOnFailure([]byte(body))
	if err != nil || !ok {
		t.Fatalf("%v, %v: %s", ok, err, body)
	}
	return f
}

// A queue gets the places of the records, and an SNS topic the same in an envelope if a queue subscribes to it.
func TestPlaces(t *testing.T) {
	at := time.Date(2019, 11, 14, 0, 38, 4, 835_000_000, time.UTC).UnixMilli()
	want := &foreign.OnFailure{About: about(), Size: 4, Ranges: []foreign.Range{
		{Topic: "my-topic", Partition: 0, First: 5, Last: 5, Time: at},
		{Topic: "my-topic", Partition: 1, First: 7, Last: 9, Time: at},
	}}
	body := document(places, "")
	notification, err := json.Marshal(map[string]string{"Type": "Notification", "MessageId": "1", "Message": body})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{body, string(notification), document(places, "null")} {
		if got := mustParse(t, body); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", body, got, want)
		}
	}
	if text := want.String(); text != "AWS's on-failure record of 4 records (RetryAttemptsExhausted)" {
		t.Error(text)
	}
}

// A bucket gets the event as a string, and a topic as an object.
func TestPayload(t *testing.T) {
	text, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{document(places, string(text)),
		document(`,"recordInfo":{"offset":"100","timestamp":"2019-11-14T18:16:04.835Z"}`, event)} {
		f := mustParse(t, body)
		if len(f.Letters) != 3 || len(f.Ranges) != 0 {
			t.Fatalf("%+v", f)
		}
		want := about()
		want.Topic, want.Offset, want.Timestamp, want.TimestampType = "my-topic", 100, 1749116692330, "CREATE_TIME"
		want.Key, want.Value = []byte("key"), []byte("value")
		want.Headers = []kafka.DeadHeader{{Key: "h", Value: []byte("v\xff")}}
		if !reflect.DeepEqual(f.Letters[0], want) {
			t.Errorf("got  %+v\nwant %+v", f.Letters[0], want)
		}
		// The producer's bytes are in Kafka alone.
		if l := f.Letters[1]; l.Value != nil || l.Key != nil || fmt.Sprint(l.Omitted) != "[key value]" {
			t.Errorf("a value that the event source converted: %+v", l)
		}
		if l := f.Letters[2]; string(l.Undecoded) != `{"offset":102,"value":42}` {
			t.Errorf("a record that can't be decoded: %+v", l)
		}
	}
}

// Without an invocation there is no response. A self-managed cluster has no ARN.
func TestRecordsThatWereNotDelivered(t *testing.T) {
	f := mustParse(t, `{"responseContext":null,"KafkaBatchInfo":{"bootstrapServers":"b:9092",
		"recordsInfo":{"t-0":{"firstRecordOffset":1,"lastRecordOffset":2}}}}`)
	if f.About.Error.Message != "the function was not invoked" || f.About.Error.Code != "given up" ||
		f.About.Cluster != "b:9092" || f.Ranges[0].Last != 2 || f.Ranges[0].Time != 0 {
		t.Errorf("%+v", f)
	}
}

func TestOtherDocuments(t *testing.T) {
	for _, body := range []string{"hello", "{}", "[]", `{"topic":"payments"}`, `{"Type":"Notification","Message":"hello"}`,
		`{"Type":"Other","Message":"{}"}`, `{"requestContext":{},"requestPayload":{}}`} {
		if _, ok, err := foreign.ParseOnFailure([]byte(body)); ok || err != nil {
			t.Errorf("%s: %v, %v", body, ok, err)
		}
	}
	place := func(id, first, last string) string {
		return document(`,"recordsInfo":{"`+id+`":{"firstRecordOffset":"`+first+`","lastRecordOffset":"`+last+`"}}`, "")
	}
	for body, says := range map[string]string{
		document("", ""):                                 "it names no records",
		document("", `"{"`):                              "its payload",
		document("", `{"records":{}}`):                   "it names no records",
		document("", `{"Records":[]}`):                   "its payload",
		place("t", "1", "2"):                             "want <topic>-<partition>",
		place("-1", "1", "2"):                            "want <topic>-<partition>",
		place("t-x", "1", "2"):                           "want <topic>-<partition>",
		place("t-1", "3", "2"):                           "ascending offsets",
		place("t-1", "496011896584223593788362985", "2"): "out of range",
	} {
		_, ok, err := foreign.ParseOnFailure([]byte(body))
		if !ok || err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), "on-failure record") {
			t.Errorf("%s: %v, %v; want %q", body, ok, err, says)
		}
	}
}
