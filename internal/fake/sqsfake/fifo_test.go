package sqsfake_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

func newFIFO(t *testing.T, client *sqs.Client) *string {
	t.Helper()
	out, err := client.CreateQueue(t.Context(),
		&sqs.CreateQueueInput{QueueName: aws.String("letters.fifo"),
			Attributes: map[string]string{"FifoQueue": "true"}})
	if err != nil {
		t.Fatal(err)
	}
	return out.QueueUrl
}

func sendGrouped(t *testing.T, client *sqs.Client, queue *string, body, group, id string) error {
	t.Helper()
	_, err := client.SendMessage(t.Context(),
		&sqs.SendMessageInput{QueueUrl: queue, MessageBody: &body, MessageGroupId: &group,
			MessageDeduplicationId: &id})
	return err
}

func mustSend(t *testing.T, client *sqs.Client, queue *string, body, group, id string) {
	t.Helper()
	if err := sendGrouped(t, client, queue, body, group, id); err != nil {
		t.Fatal(err)
	}
}

func bodies(messages []types.Message) string {
	var all []string
	for _, m := range messages {
		all = append(all, *m.Body)
	}
	return strings.Join(all, " ")
}

// A deduplication ID is kept for five minutes, even if its message was deleted.
func TestFIFODropsDuplicates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient(newServer(t))
		queue := newFIFO(t, client)
		mustSend(t, client, queue, "first", "g", "1")
		mustSend(t, client, queue, "other", "g", "2")
		mustSend(t, client, queue, "copy", "another", "1")
		got := receive(t, client, sqs.ReceiveMessageInput{QueueUrl: queue, MaxNumberOfMessages: 10})
		if bodies(got) != "first other" {
			t.Fatalf("received %q", bodies(got))
		}
		for _, m := range got {
			if _, err := client.DeleteMessage(t.Context(),
				&sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: m.ReceiptHandle}); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(5*time.Minute - 1)
		mustSend(t, client, queue, "copy", "g", "1")
		if got := receive(t, client, sqs.ReceiveMessageInput{QueueUrl: queue}); len(got) != 0 {
			t.Errorf("received %q within five minutes", bodies(got))
		}
		<-time.After(1)
		mustSend(t, client, queue, "later", "g", "1")
		if got := receive(t, client, sqs.ReceiveMessageInput{QueueUrl: queue}); bodies(got) != "later" {
			t.Errorf("received %q after five minutes", bodies(got))
		}
	})
}

// A receiver gets the attributes that it names: the producer's, and those of a group.
func TestAttributes(t *testing.T) {
	t.Parallel()
	client := newClient(newServer(t))
	queue := newFIFO(t, client)
	own := map[string]types.MessageAttributeValue{
		"text":  {DataType: aws.String("String"), StringValue: aws.String("t")},
		"bytes": {DataType: aws.String("Binary"), BinaryValue: []byte{0, 255}},
	}
	sent, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("x"),
		MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String("1"), MessageAttributes: own})
	if err != nil {
		t.Fatal(err)
	}
	for names, want := range map[string]int{"All": 2, "text": 1, "other": 0} {
		m := receive(t, client, sqs.ReceiveMessageInput{QueueUrl: queue, VisibilityTimeout: 1,
			MessageAttributeNames:       []string{names},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll}})[0]
		if len(m.MessageAttributes) != want || names == "All" &&
			(*m.MessageAttributes["text"].StringValue != "t" ||
				string(m.MessageAttributes["bytes"].BinaryValue) != "\x00\xff") {
			t.Errorf("%s: attributes %v", names, m.MessageAttributes)
		}
		if a := m.Attributes; a["MessageGroupId"] != "g" || a["MessageDeduplicationId"] != "1" ||
			a["SequenceNumber"] != *sent.SequenceNumber {
			t.Errorf("system attributes %v", a)
		}
		if _, err := client.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{
			QueueUrl: queue, ReceiptHandle: m.ReceiptHandle}); err != nil {
			t.Fatal(err)
		}
	}
}

// Messages of a group are received in order, and wait while one of them is in flight.
func TestFIFOGroups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient(newServer(t))
		queue := newFIFO(t, client)
		for _, m := range []string{"a1", "b1", "a2", "a3", "b2"} {
			mustSend(t, client, queue, m, m[:1], m)
		}
		first := receive(t, client, sqs.ReceiveMessageInput{QueueUrl: queue, MaxNumberOfMessages: 1})
		if got := receive(t, client, sqs.ReceiveMessageInput{QueueUrl: queue,
			MaxNumberOfMessages: 10}); bodies(first) != "a1" || bodies(got) != "b1 b2" {
			t.Fatalf("received %q, then %q", bodies(first), bodies(got))
		}
		if got := receive(t, client, sqs.ReceiveMessageInput{QueueUrl: queue, WaitTimeSeconds: 20}); len(
			got) != 0 {
			t.Errorf("received %q while the groups are held", bodies(got))
		}
		begun := time.Now()
		got := receive(t, client, sqs.ReceiveMessageInput{QueueUrl: queue, MaxNumberOfMessages: 10,
			WaitTimeSeconds: 20})
		if waited := time.Since(begun); bodies(got) != "a1 b1 a2 a3 b2" || waited != 10*time.Second {
			t.Errorf("received %q after %v, want all when their 30 s are over", bodies(got), waited)
		}
		if _, err := client.DeleteMessage(t.Context(),
			&sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: first[0].ReceiptHandle}); err == nil ||
			codeOf(err) != "InvalidParameterValue" || !strings.Contains(err.Error(), "expired") {
			t.Errorf("an old receipt deleted: %v", err)
		}
		if _, err := client.DeleteMessage(t.Context(),
			&sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: got[0].ReceiptHandle}); err != nil {
			t.Error(err)
		}
	})
}
