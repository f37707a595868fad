package layercall_test

import (
	"testing"

	"github.com/idemsk/idemsk/internal/layercall"
)

// Events with records that are not those of an event source mapping are recognised, and no others.
func TestEventsThatAreNotProtected(t *testing.T) {
	t.Parallel()
	const record = `{"topic":"t","partition":0,"offset":1,"value":"YQ=="}`
	const message = `{"messageId":"m","receiptHandle":"h","body":"a"}`
	for event, want := range map[string]bool{
		`[` + record + `,`: true, // the rest is not read
		`[{"eventSource":"aws:kafka","eventSourceArn":"a","topic":"t","partition":0,"offset":1}]`: true,
		`[` + message + `]`: true,
		`[{"eventSource":"aws:sqs","messageId":"m","body":"a"}]`:                                true,
		`{"records":{"t-0":[` + record + `]}}`:                                                  true,
		`{"bootstrapServers":{"b":[1]},"records":{"t-0":[],"t-1":[` + record + `]}}`:            true,
		`{"Records":[` + message + `]}`:                                                         true,
		`{"a":1,"Records":[{"eventSource":"aws:sqs","messageId":"m","receiptHandle":"h"}]}`:     true,
		`{"eventSource":"mine","records":{"t-0":[` + record + `]}}`:                             true,
		`{"records":[` + record + `]}`:                                                          true,
		`{"Records":[{"eventSource":"aws:s3","s3":{"object":{"key":"k"}}}]}`:                    false,
		`{"Records":[{"EventSource":"aws:sns","Sns":{"MessageId":"m","Message":"a"}}]}`:         false,
		`{"Records":[{"eventSource":"aws:kinesis","kinesis":{"data":"YQ=="}}]}`:                 false,
		`[{"eventSource":"aws:kinesis","partitionKey":"p","sequenceNumber":"1","data":"YQ=="}]`: false,
		`{"records":[{"recordId":"1","data":"YQ=="}],"deliveryStreamArn":"a"}`:                  false,
		`{"eventSource":"aws:mq","messages":[{"messageID":"m"}]}`:                               false,
		`{"body":"{\"records\":{}}","detail":` + record + `}`:                                   false,
		`{"records":{}}`: false, `{"records":{"t-0":[]}}`: false, `{"Records":[]}`: false, `{"records":`: false,
		`{"records":{"t-0":{}}}`: false, `[]`: false, `[1]`: false, `{}`: false, ``: false, `"records"`: false, `{"a`: false,
	} {
		if layercall.IsProtected([]byte(event)) {
			t.Errorf("%s is protected", event)
		}
		if got := layercall.HasRecords([]byte(event)); got != want {
			t.Errorf("%s: %t, want %t", event, got, want)
		}
	}
}

func FuzzHasRecords(f *testing.F) {
	f.Add([]byte(`{"records":{"t-0":[{"topic":"t","partition":0,"offset":1}]}}`))
	f.Fuzz(func(_ *testing.T, event []byte) { layercall.HasRecords(event) }) // it ends
}
