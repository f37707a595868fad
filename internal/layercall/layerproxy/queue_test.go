package layerproxy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
	"github.com/idemsk/idemsk/internal/mskevent/redriven"
	"github.com/idemsk/idemsk/kafka"
)

// messagesOf reads the messages of an SQS event as a function does.
func messagesOf(payload []byte) (records []record) {
	var event struct {
		Records []struct {
			MessageID         string
			Body              string
			EventSource       string
			Attributes        struct{ MessageGroupID string }
			MessageAttributes map[string]struct{ StringValue string }
		}
	}
	_ = json.Unmarshal(payload, &event) // another event has no such records
	for _, m := range event.Records {
		if m.EventSource != "aws:sqs" || m.MessageID == "" {
			continue
		}
		r := record{message: m.MessageID, key: m.Attributes.MessageGroupID, do: m.Body,
			headers: make(map[string]string)}
		for name, attribute := range m.MessageAttributes {
			r.headers[name] = attribute.StringValue
		}
		records = append(records, r)
	}
	return records
}

// queueEvent returns an event of a FIFO queue. Each message is KEY or KEY:DO, as in event. KEY is the group too,
// and the message ID is "m-" and KEY.
func queueEvent(messages ...string) []byte {
	var records []string
	for _, m := range messages {
		key, do, _ := strings.Cut(m, ":")
		records = append(records, `{"messageId":"m-`+key+`","receiptHandle":"h","body":"`+do+
			`","attributes":{"ApproximateReceiveCount":"1","SentTimestamp":"1700000000000","MessageGroupId":"`+key+
			`"},"messageAttributes":{"trace":{"stringValue":"<`+key+`>","stringListValues":[],"binaryListValues":[],`+
			`"dataType":"String"}},"eventSource":"aws:sqs",`+
			`"eventSourceARN":"arn:aws:sqs:us-east-1:000000000000:payments.fifo","awsRegion":"us-east-1"}`)
	}
	return []byte(`{"Records":[` + strings.Join(records, ",") + `]}`)
}

// The layer handles the messages of a queue as it handles records: the function gets those that must run, with
// their attempts as attributes, and its answer settles them by their IDs.
func TestQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", append(several, partial)...)
	batch := queueEvent("a", "b:fail", "c:result", "d:fail for good", "e:fail for an hour", "a")
	f.answers(batch, `{"batchItemFailures":[{"itemIdentifier":"m-b"},{"itemIdentifier":"m-e"}]}`)
	f.wantCalls("a#1 b#1 c#1 d#1 e#1")
	for key, want := range map[string]store.Status{"a": store.StatusCompleted, "c": store.StatusCompleted,
		"d": store.StatusFailed} {
		e, err := f.db.Get(t.Context(), "payments#payments.fifo#"+key)
		if err != nil || e.Status != want {
			t.Errorf("the key %s is %s, %v; want %s", key, e.Status, err, want)
		}
		if key == "c" && string(e.Result) != `{"booking":"c"}` {
			t.Errorf("the stored result is %q", e.Result)
		}
	}
	if letters := f.letters(); len(letters) != 1 || !strings.Contains(letters[0], "the account is closed") {
		t.Errorf("dead letters %q", letters)
	}
	first := f.received()[0].records[0]
	if first.headers["trace"] != "<a>" || first.headers["idemsk-token"] == "" {
		t.Errorf("attributes %v", first.headers)
	}
	f.answers(queueEvent("a", "b", "c"), complete)
	f.wantCalls("a#1 b#1 c#1 d#1 e#1", "b#2")
}

// The letter of a message is redriven to the function as the message that it was. The answer has its outcome.
func TestRedriveOfAMessage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", partial)
	f.answers(queueEvent("a:fail for good"), complete)
	l, err := kafka.ParseDeadLetter([]byte(f.letters()[0]))
	if err != nil {
		t.Fatal(err)
	}
	l.Value = []byte("well")
	answer, err := f.deliver(redriven.Event(&l))
	if err != nil {
		t.Fatal(err)
	}
	if what, err := redriven.Verdict(&l, []byte(answer)); err != nil || what != "executed" {
		t.Errorf("%q, %v; the answer is %s", what, err, answer)
	}
	f.wantCalls("a#1", "a#1")
	if got := f.received()[1].records[0]; got.message != "m-a" || got.do != "well" || got.headers["trace"] != "<a>" {
		t.Errorf("the function got %+v", got)
	}
}

// A call that fails as a whole, by an error or by an answer that names another message, is divided as that of
// Kafka's records is.
func TestFailedCallOfAQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", append(several, partial)...)
	f.answers(queueEvent("a", "b:raise"), `{"batchItemFailures":[{"itemIdentifier":"m-b"}]}`)
	f.wantCalls("a#1 b#1", "a#1", "b#1")
	f.answers(queueEvent("c:fail another"), `{"batchItemFailures":[{"itemIdentifier":"m-c"}]}`)
	f.stop()
	f.function = nil
	f.config.Env = append(f.config.Env, "IDEMSK_FAILURES=batch")
	e := fails[*runtimeapi.FunctionError](f, queueEvent("x:fail"))
	if e.Type != "BatchError" || !strings.Contains(e.Message, "payments.fifo/m-x") {
		t.Errorf("error %s: %s", e.Type, e.Message)
	}
	e = fails[*runtimeapi.FunctionError](f,
		[]byte(`{"Records":[{"eventSource":"aws:sqs","eventSourceARN":"arn:aws:sqs:us-east-1:0:q"}]}`))
	if e.Type != "InvalidEvent" || !strings.Contains(e.Message, "no messageId") {
		t.Errorf("error %s: %s", e.Type, e.Message)
	}
}
