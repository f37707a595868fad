package foreign_test

import (
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive/foreign"
)

// What people have saved of dead letters is recognised, and they are told how to get what is wanted.
func TestDumpsAreExplained(t *testing.T) {
	t.Parallel()
	for body, says := range map[string]string{
		`{"Messages":[{"MessageId":"1","ReceiptHandle":"r","MD5OfBody":"0","Body":"{}"}]}`: "jq -r '.Messages[].Body'",
		`{"MessageId":"1","ReceiptHandle":"r","MD5OfBody":"0","Body":"{}"}`:                "jq -r .Body",
		`{"Records":[{"messageId":"1","body":"{}","eventSource":"aws:sqs"}]}`:              "an event of Lambda",
		`{"eventSource":"aws:kafka","records":{"payments-0":[]}}`:                          "an event of Lambda",
		// kcat -J
		`{"topic":"dead","partition":0,"offset":1,"tstype":"create","ts":1767225600000,"broker":1,"headers":["a","b"],"key":"k","payload":"v"}`: "kcat -J",
		`{"topic":"dead","partition":0,"offset":1,"tstype":"create","ts":1767225600000,"broker":1,"key":null,"payload":null}`:                   "kcat -J",
		// kafka-ui, Redpanda Console, AKHQ
		`{"Value":"v","Offset":1,"Key":"k","Partition":0,"Headers":{"a":"b"},"Timestamp":"2026-01-01T00:00:00Z"}`:                           "a tool for Kafka",
		`{"partition":0,"offset":1,"timestamp":"2026-01-01T00:00:00Z","key":"k","content":"v","headers":{}}`:                                "a tool for Kafka",
		`{"partitionID":0,"offset":1,"timestamp":1767225600000,"headers":[],"key":{"payload":"k"},"value":{"payload":"v"}}`:                 "a tool for Kafka",
		`{"key":"k","value":"v","timestamp":1767225600000,"partition":0,"keySchemaId":null,"offset":1,"headers":[{"key":"a","value":"b"}]}`: "a tool for Kafka",
		"\n[{\"topic\":\"payments\"}]": "jq -c '.[]'",
		`{"an":"order"}`:               "", `hello`: "", ``: "", `17`: "", `[1`: "",
		`{"topic":"payments","partition":1,"offset":2,"value":"!","error":{"code":"permanent"}}`: "", // a letter
	} {
		if got := foreign.Explain([]byte(body)); (got == "") != (says == "") || !strings.Contains(got, says) {
			t.Errorf("%s: %q; want %q", body, got, says)
		}
	}
}
