package sqs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/sqs"
)

const id = "059f36b4-87a3-44ab-83d2-661975830a7d"

func TestDecode(t *testing.T) {
	m := message{queue: fifo, id: id, group: "acc-1", body: `{"amount":1}`, raw: map[string]any{
		"messageAttributes": map[string]any{
			"n": map[string]any{"stringValue": "7", "dataType": "Number"},
			"b": map[string]any{"binaryValue": "AP8=", "dataType": "Binary"},
		}}}
	e, err := sqs.Decode(event(m, message{queue: fifo, id: "other", group: "acc-2"}))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "ARN", e.ARN, "arn:aws:sqs:us-east-1:123456789012:payments.fifo")
	equal(t, "records", len(e.Records), 2)
	r := &e.Records[0]
	equal(t, "topic", r.Topic, fifo)
	equal(t, "partition", r.Partition, 0)
	equal(t, "key", string(r.Key), "acc-1")
	equal(t, "value", string(r.Value), `{"amount":1}`)
	equal(t, "timestamp", r.Timestamp.Format(time.RFC3339), "2026-01-01T00:00:00Z")
	equal(t, "undecodable", r.Undecodable == nil, true)
	equal(t, "ID", sqs.MessageID(r), id)
	var headers []string
	for _, h := range r.Headers {
		headers = append(headers, h.Key+"="+string(h.Value))
	}
	equalSlices(t, "headers", headers, "b=\x00\xff", "n=7",
		"AWS.DataType.b=Binary", "AWS.DataType.n=Number", "AWS.MessageId="+id,
		"AWS.ApproximateFirstReceiveTimestamp=1767225600001", "AWS.ApproximateReceiveCount=1",
		"AWS.MessageDeduplicationId="+id, "AWS.MessageGroupId=acc-1", "AWS.SenderId=AIDA",
		"AWS.SentTimestamp=1767225600000", "AWS.SequenceNumber=18849496460467696128")
	equal(t, "ID of a record of Kafka", sqs.MessageID(&kafka.Record{}), "")

	again, err := sqs.Decode(event(m))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "place in the next delivery", again.Records[0].Source(), r.Source())
	equal(t, "place of another message", e.Records[1].Source() == r.Source(), false)
	equal(t, "its offset is one", r.Offset >= 0 && e.Records[1].Offset >= 0, true)
}

// A message that can't be decoded has its ID, so that it can be reported, and its group, so that it has its
// place in the order.
func TestUndecodableMessages(t *testing.T) {
	for field, raw := range map[string]map[string]any{
		"body":                     {"body": nil},
		"attributes.SentTimestamp": {"attributes": map[string]any{"SentTimestamp": "soon", "MessageGroupId": "g"}},
		"messageAttributes":        {"messageAttributes": map[string]any{"b": map[string]any{"binaryValue": "!"}}},
		"messageAttributes.stringValue": {"messageAttributes": map[string]any{
			"a": map[string]any{"stringValue": 4711}}},
	} {
		e, err := sqs.Decode(event(message{queue: fifo, id: id, group: "g", raw: raw}))
		if err != nil {
			t.Errorf("%s: %v", field, err)
			continue
		}
		r := &e.Records[0]
		if r.Undecodable == nil {
			t.Errorf("%s: it was decoded: %+v", field, r)
			continue
		}
		equal(t, "field", r.Undecodable.Field, field)
		equal(t, field+": ID", sqs.MessageID(r), id)
		equal(t, field+": group", string(r.Key), "g")
		wantContains(t, string(r.Undecodable.Raw), `"receiptHandle":"handle"`)
		equal(t, field+": the error quotes a value", strings.Contains(r.Undecodable.Error(), "4711"), false)
	}
}

func TestDecodeRefusesEvents(t *testing.T) {
	ok := message{queue: standard, id: "1"}
	for want, payload := range map[string][]byte{
		"unexpected end":      []byte(`{"Records":[`),
		`it has no "Records"`: []byte(`{"Records":[]}`),
		"Records[0]: json":    []byte(`{"Records":[1]}`),
		`Records[0]: its eventSource is "aws:s3": check which trigger invokes this function`: event(message{
			queue: standard, id: "1", raw: map[string]any{"eventSource": "aws:s3"}}),
		"Records[1]: it has no messageId":      event(ok, message{queue: standard}),
		"Records[1]: it is of the queue arn:":  event(ok, message{queue: "refunds", id: "2"}),
		`Records[0]: its eventSourceARN is ""`: event(message{id: "1", raw: map[string]any{"eventSourceARN": ""}}),
		`:pay#ments", not that of a queue`:     event(message{queue: "pay#ments", id: "1"}),
	} {
		_, err := sqs.Decode(payload)
		if !errors.Is(err, sqs.ErrNotSQS) {
			t.Errorf("%s: error %v", payload, err)
			continue
		}
		wantContains(t, err.Error(), want)
	}
	if _, err := newFixture(t).invoke(context.Background(), nil); !errors.Is(err, sqs.ErrNotSQS) {
		t.Errorf("the consumer's error is %v", err)
	}
}

func TestIsEvent(t *testing.T) {
	for payload, want := range map[string]bool{
		string(event(message{queue: standard, id: "1"})):       true,
		`{"Records":[{"eventSource":"aws:s3"}]}`:               false,
		`{"Records":[]}`:                                       false,
		`{"Records":[1]}`:                                      false,
		`{"Records":{}}`:                                       false,
		`{"eventSource":"aws:kafka","records":{"payments-0":[`: false,
		`["Records"]`:                                          false,
		``:                                                     false,
	} {
		equal(t, payload, sqs.IsEvent([]byte(payload)), want)
	}
}
