//go:build rest

package fromlocalstack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

// A record without a schema is given up to a topic of SNS in LocalStack, which sends the message on to a
// queue.
func TestOnFailureToSNS(t *testing.T) {
	endpoint := awstest.LocalStack(t)
	cfg := awstest.Config(t, endpoint)
	name, queues := awstest.Name("idemsk-gave-up"), sqs.NewFromConfig(cfg)
	deployStack(t, cfg, name, map[string]any{
		"Queue": map[string]any{"Type": "AWS::SQS::Queue", "Properties": map[string]any{"QueueName": name}},
		"Topic": map[string]any{"Type": "AWS::SNS::Topic", "Properties": map[string]any{
			"TopicName": name,
			"Subscription": []map[string]any{{"Protocol": "sqs",
				"Endpoint": map[string]any{"Fn::GetAtt": []string{"Queue", "Arn"}}}},
		}},
	})
	listen := func(network, _ string) (net.Listener, error) { return net.Listen(network, "127.0.0.1:0") }
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic), kfake.ListenFn(listen))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	brokers := cluster.ListenAddrs()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(),
		&kgo.Record{Value: []byte("not framed")}).FirstErr(); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Minute, errors.New("the test took too long"))
	defer cancel()
	var out bytes.Buffer
	serve := func(destination string) int {
		out.Reset()
		return cli.Main(ctx, []string{
			"local", "--function", handler, "--endpoint-url", endpoint, "--brokers",
			strings.Join(brokers, ","), "--topic", topic,
			"--consumer-group-id", destination[strings.LastIndexByte(destination, ':')+1:],
			"--schema-registry", "fake", "--on-failure", destination, "--until-drained",
		}, cli.Streams{Out: &out, Err: &out}, "test")
	}
	const arn = "arn:aws:sns:us-east-1:000000000000:"
	if code := serve(arn + "nowhere"); code != 1 ||
		!strings.Contains(out.String(), "the on-failure destination "+arn+"nowhere at "+endpoint+": ") ||
		!strings.Contains(out.String(), "Topic does not exist") {
		t.Errorf("a topic that does not exist: exit status %d: %s", code, &out)
	}
	if code := serve(arn + name); code != 0 {
		t.Fatalf("exit status %d: %s", code, &out)
	}
	url, err := queues.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		t.Fatal(err)
	}
	got, err := queues.ReceiveMessage(ctx,
		&sqs.ReceiveMessageInput{QueueUrl: url.QueueUrl, WaitTimeSeconds: 20})
	if err != nil || len(got.Messages) != 1 {
		t.Fatalf("%+v, %v; want one message", got, err)
	}
	var notification struct{ Message string }
	var message struct{ RequestContext struct{ Condition string } }
	if err := errors.Join(json.Unmarshal([]byte(*got.Messages[0].Body), &notification),
		json.Unmarshal([]byte(notification.Message), &message)); err != nil {
		t.Fatalf("%s: %v", *got.Messages[0].Body, err)
	}
	if message.RequestContext.Condition != esm.DeserializationError ||
		!strings.Contains(notification.Message, `"payments-0":{"firstRecordOffset":"0"`) {
		t.Errorf("%s", notification.Message)
	}
}
