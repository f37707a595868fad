package proof_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/proof"
	"github.com/idemsk/idemsk/internal/faultproxy"
	"github.com/idemsk/idemsk/internal/sqsfake"
	"github.com/idemsk/idemsk/internal/testkit"
	"github.com/idemsk/idemsk/internal/testkit/awstest"
)

// A lost reply makes its messages invisible. They are read all the same, and none is read twice.
func TestMessagesOfALostReplyAreRead(t *testing.T) {
	t.Parallel()
	proxy, url := faultproxy.StartURL(t, testkit.Serve(t, sqsfake.New, sqsfake.Config{}).URL())
	client := sqs.NewFromConfig(awstest.Config(t, url))
	queue := awstest.CreateQueue(t, client, "letters")
	var want []string
	for i := range 25 {
		want = append(want, fmt.Sprintf("letter %02d", i))
		if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &queue, MessageBody: &want[i]}); err != nil {
			t.Fatal(err)
		}
	}
	proxy.NextReply(faultproxy.Reset)
	site := &proof.Site{SQS: client, Queue: queue}
	got, err := site.Messages(t.Context())
	if slices.Sort(got); err != nil || !slices.Equal(got, want) {
		t.Errorf("read %q, %v; want each of the 25 messages once", got, err)
	}
	if got, err := site.Messages(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("read %q again, %v; want none", got, err)
	}
	proxy.New(faultproxy.Refused)
	proxy.Existing(faultproxy.Refused)
	if _, err := site.Messages(t.Context()); err == nil {
		t.Error("an unreachable queue was read without an error")
	}
}
