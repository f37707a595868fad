package sqsfake_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

func batchOf(bodies ...string) (all []types.SendMessageBatchRequestEntry) {
	for i, body := range bodies {
		all = append(all, types.SendMessageBatchRequestEntry{Id: aws.String(string(rune('a' + i))), MessageBody: &body})
	}
	return all
}

// Each message of a batch is sent or refused by itself.
func TestBatch(t *testing.T) {
	t.Parallel()
	client := newClient(newServer(t))
	queue := newQueue(t, client, nil)
	entries := batchOf("1", "\x1b", "3")
	entries[2].MessageAttributes = map[string]types.MessageAttributeValue{
		"n": {DataType: aws.String("Number"), StringValue: aws.String("7")}}
	out, err := client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: queue, Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Successful) != 2 || *out.Successful[1].Id != "c" || len(out.Failed) != 1 || *out.Failed[0].Id != "b" ||
		*out.Failed[0].Code != "InvalidMessageContents" || !out.Failed[0].SenderFault {
		t.Errorf("%+v", out)
	}
	got := receive(t, client, sqs.ReceiveMessageInput{QueueUrl: queue, MaxNumberOfMessages: 10,
		MessageAttributeNames: []string{"All"}})
	if bodies(got) != "1 3" || *got[1].MessageAttributes["n"].StringValue != "7" ||
		*got[1].MessageId != *out.Successful[1].MessageId {
		t.Errorf("received %+v", got)
	}
}

func TestBatchesThatAreRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	client := newClient(newServer(t))
	queue := newQueue(t, client, nil)
	twice := batchOf("1", "2")
	twice[1].Id = twice[0].Id
	for code, entries := range map[string][]types.SendMessageBatchRequestEntry{
		"EmptyBatchRequest":            {},
		"TooManyEntriesInBatchRequest": batchOf(strings.Split("0123456789x", "")...),
		"BatchEntryIdsNotDistinct":     twice,
		"InvalidBatchEntryId":          {{Id: aws.String("a b"), MessageBody: aws.String("1")}},
		"BatchRequestTooLong":          batchOf(strings.Repeat("x", 600_000), strings.Repeat("y", 600_000)),
	} {
		_, err := client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: queue, Entries: entries})
		if codeOf(err) != "AWS.SimpleQueueService."+code {
			t.Errorf("%v; want %s", err, code)
		}
	}
	if got := receive(t, client, sqs.ReceiveMessageInput{QueueUrl: queue}); len(got) != 0 {
		t.Errorf("received %q", bodies(got))
	}
}

// A message is not received before its delay is over: its own, or that of the queue. The delay holds nothing of
// a group back.
func TestDelays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient(newServer(t))
		queue := newQueue(t, client, map[string]string{"DelaySeconds": "30"})
		for body, delay := range map[string]int32{"own": 10, "queue's": 0} {
			if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: queue, MessageBody: &body,
				DelaySeconds: delay}); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		for _, want := range []struct {
			body  string
			after time.Duration
		}{{"own", 10 * time.Second}, {"queue's", 30 * time.Second}} {
			var got []types.Message
			for len(got) == 0 {
				got = receive(t, client, sqs.ReceiveMessageInput{QueueUrl: queue, WaitTimeSeconds: 20,
					VisibilityTimeout: 3600})
			}
			if waited := time.Since(begun); bodies(got) != want.body || waited != want.after {
				t.Errorf("received %q after %v; want %+v", bodies(got), waited, want)
			}
		}
	})
}

// The groups of a standard queue are tenants, whose messages are received at the same time.
func TestFairQueue(t *testing.T) {
	t.Parallel()
	client := newClient(newServer(t))
	queue := newQueue(t, client, nil)
	for _, body := range []string{"1", "2"} {
		if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: queue, MessageBody: &body,
			MessageGroupId: aws.String("tenant")}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"1", "2"} {
		got := receive(t, client, sqs.ReceiveMessageInput{QueueUrl: queue,
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll}})
		if bodies(got) != want || got[0].Attributes["MessageGroupId"] != "tenant" || len(got[0].Attributes) != 4 {
			t.Errorf("received %+v; want %s of the tenant", got, want)
		}
	}
}

// A queue refuses a message that is larger than its own limit, of which attributes are a part.
func TestMaximumMessageSize(t *testing.T) {
	t.Parallel()
	client := newClient(newServer(t))
	queue := newQueue(t, client, map[string]string{"MaximumMessageSize": "1024"})
	for size, want := range map[int]string{1017: "", 1018: "InvalidParameterValue"} {
		_, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: queue,
			MessageBody: aws.String(strings.Repeat("x", size-1)), MessageAttributes: map[string]types.MessageAttributeValue{
				"n": {DataType: aws.String("String"), StringValue: aws.String("7")}}})
		if codeOf(err) != want {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestListQueues(t *testing.T) {
	t.Parallel()
	client := newClient(newServer(t))
	for _, name := range []string{"b-2", "a", "b-1", "b-3"} {
		if _, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name}); err != nil {
			t.Fatal(err)
		}
	}
	pages := sqs.NewListQueuesPaginator(client, &sqs.ListQueuesInput{QueueNamePrefix: aws.String("b"),
		MaxResults: aws.Int32(2)})
	var got []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, url := range page.QueueUrls {
			got = append(got, url[strings.LastIndexByte(url, '/')+1:])
		}
		got = append(got, "|")
	}
	if !slices.Equal(got, []string{"b-1", "b-2", "|", "b-3", "|"}) {
		t.Errorf("listed %q", got)
	}
}
