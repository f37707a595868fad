package testenv_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

// A lost reply makes its messages invisible. They are still read, and each is read once.
func TestMessagesOfALostReplyAreRead(t *testing.T) {
	t.Parallel()
	proxy, url := faultproxy.StartURL(t, startSQS(t))
	client := sqs.NewFromConfig(awstest.Config(t, url))
	queue := must(testenv.CreateQueue(t.Context(), client, "letters"))
	var want []string
	for i := range 25 {
		want = append(want, fmt.Sprintf("letter %02d", i))
		if _, err := client.SendMessage(t.Context(),
			&sqs.SendMessageInput{QueueUrl: aws.String(queue), MessageBody: &want[i]}); err != nil {
			t.Fatal(err)
		}
	}
	proxy.NextReply(faultproxy.Reset)
	e := must(testenv.InDynamoDB(dynamodb.New(dynamodb.Options{}), names(), client))
	e.Queue = queue
	got, err := e.Messages(t.Context())
	if slices.Sort(got); err != nil || !slices.Equal(got, want) {
		t.Errorf("read %q, %v; want each of the 25 messages once", got, err)
	}
	if got, err := e.Messages(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("read %q again, %v; want none", got, err)
	}
	proxy.New(faultproxy.Refused)
	proxy.Existing(faultproxy.Refused)
	if _, err := e.Messages(t.Context()); err == nil {
		t.Error("an unreachable queue was read without an error")
	}
}
