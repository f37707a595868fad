package sqs

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/idemsk/idemsk/kafka"
)

// explaining adds to the dead letter of a notification of SNS that its body is not what was published. Keys and
// handlers fail on it in many ways.
type explaining struct{ kafka.DeadLetters }

const inEnvelope = " (the body of the message is a notification of SNS, which has what was published as text in its " +
	"field Message, and the attributes in MessageAttributes: turn on raw message delivery in the subscription)"

// Send implements kafka.DeadLetters.
func (e explaining) Send(ctx context.Context, l kafka.DeadLetter) error {
	if isNotification(l.Value) {
		l.Error.Message += inEnvelope
	}
	return e.DeadLetters.Send(ctx, l)
}

// isNotification reports whether a body is what SNS sends to a queue without raw message delivery.
// https://docs.aws.amazon.com/sns/latest/dg/sns-sqs-as-subscriber.html
func isNotification(body []byte) bool {
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		return false
	}
	var n struct {
		Type, TopicArn string
		Message        *string
	}
	return json.Unmarshal(body, &n) == nil && n.Type == "Notification" && n.TopicArn != "" && n.Message != nil
}
