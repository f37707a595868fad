package redrive

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/idemsk/idemsk/internal/mskevent/redriven"
	"github.com/idemsk/idemsk/kafka"
)

// sources is where letters came from: records go to their topics, and messages to their queues.
type sources struct {
	topics *Kafka // nil without --brokers
	queues *queues
}

var _ Destination = (*sources)(nil)

func (s *sources) String() string {
	if s.topics == nil {
		return "the SQS queues that they came from"
	}
	return s.topics.String() + ", those of messages to their SQS queues"
}

// Send implements Destination.
func (s *sources) Send(ctx context.Context, l *kafka.DeadLetter) (where string, err error) {
	switch {
	case l.Queue() != "":
		return s.queues.Send(ctx, l)
	case s.topics == nil:
		return "", fmt.Errorf("it is a record of the topic %s: give --brokers to send it there, or --function-name", l.Topic)
	}
	return s.topics.Send(ctx, l)
}

// Sender is what is needed of an *sqs.Client to send messages back.
type Sender interface {
	GetQueueUrl(ctx context.Context, in *sqs.GetQueueUrlInput,
		optFns ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	SendMessage(ctx context.Context, in *sqs.SendMessageInput,
		optFns ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
}

// queues sends messages back to the queues that they came from.
type queues struct {
	client func(ctx context.Context, region string) (Sender, error)
	known  map[string]*sourceQueue // by ARN
}

type sourceQueue struct {
	client Sender
	url    string
}

func newQueues(client func(ctx context.Context, region string) (Sender, error)) *queues {
	return &queues{client: client, known: make(map[string]*sourceQueue)}
}

// maxAttributes is the number of attributes that SQS accepts.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html
const maxAttributes = 10

// Send sends a letter to its queue. The message gets a new ID and, in a FIFO queue, a deduplication ID of its letter,
// so that SQS drops it if it was sent before.
func (q *queues) Send(ctx context.Context, l *kafka.DeadLetter) (where string, err error) {
	arn, m := l.Queue(), redriven.MessageOf(l)
	if len(m.Attributes) > maxAttributes {
		return "", fmt.Errorf("the message would have %d attributes with %s, and SQS accepts %d: use --function-name",
			len(m.Attributes), kafka.RedriveHeader, maxAttributes)
	}
	to, err := q.find(ctx, arn)
	if err != nil {
		return "", err
	}
	out, err := to.client.SendMessage(ctx, messageInput(l, &m, to.url))
	var api smithy.APIError
	switch {
	case errors.As(err, &api) && strings.HasPrefix(api.ErrorCode(), "InvalidParameterValue"):
		return "", fmt.Errorf("sending to the queue %s: %w (a message that is too large with %s goes by --function-name)",
			arn, err, kafka.RedriveHeader)
	case err != nil:
		return "", fmt.Errorf("sending to the queue %s: %w", arn, err)
	}
	if out.MessageId == nil {
		return "", fmt.Errorf("sending to the queue %s: the answer has no message ID: the endpoint is not SQS", arn)
	}
	return l.Topic + "/" + *out.MessageId, nil
}

func messageInput(l *kafka.DeadLetter, m *redriven.Message, url string) *sqs.SendMessageInput {
	in := &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &m.Body,
		MessageAttributes: make(map[string]types.MessageAttributeValue)}
	for i := range m.Attributes {
		a := &m.Attributes[i]
		value := types.MessageAttributeValue{DataType: &a.DataType}
		if a.Binary() {
			value.BinaryValue = a.Value
		} else {
			text := string(a.Value)
			value.StringValue = &text
		}
		in.MessageAttributes[a.Name] = value
	}
	if m.Group != "" {
		in.MessageGroupId = &m.Group
	}
	if strings.HasSuffix(url, ".fifo") {
		id := l.ID()
		in.MessageDeduplicationId = &id
	}
	return in
}

// find looks a queue up.
func (q *queues) find(ctx context.Context, arn string) (*sourceQueue, error) {
	if known := q.known[arn]; known != nil {
		return known, nil
	}
	const region, account, name = 3, 4, 5
	parts := strings.Split(arn, ":")
	client, err := q.client(ctx, parts[region])
	if err != nil {
		return nil, err
	}
	in := &sqs.GetQueueUrlInput{QueueName: &parts[name], QueueOwnerAWSAccountId: &parts[account]}
	out, err := client.GetQueueUrl(ctx, in)
	if err != nil {
		var missing *types.QueueDoesNotExist
		hint := ""
		if errors.As(err, &missing) {
			hint = " (it was deleted, or this is another account: then use --function-name)"
		}
		return nil, fmt.Errorf("looking for the queue %s, from which the message came: %w%s", arn, err, hint)
	}
	q.known[arn] = &sourceQueue{client, *out.QueueUrl}
	return q.known[arn], nil
}
