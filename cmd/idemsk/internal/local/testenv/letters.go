package testenv

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/idemsk/idemsk/kafka"
)

// Limits for reading the queue. A received message is deleted at once, so the visibility timeout matters only
// for messages whose reply was lost: they are visible again when it is over.
const (
	visibilitySeconds = 2
	waitSeconds       = 5 // longer than the visibility timeout
	maxLostReplies    = 3
)

// Messages returns the messages in the dead-letter queue, and deletes them. The SDK does not retry, because a
// retry would hide that a reply was lost: its messages exist, but are invisible, and the queue looks empty.
func (e *Environment) Messages(ctx context.Context) (bodies []string, err error) {
	in := &sqs.ReceiveMessageInput{QueueUrl: &e.Queue, MaxNumberOfMessages: 10,
		VisibilityTimeout: visibilitySeconds}
	seen := make(map[string]bool)
	for lost := 0; ; {
		out, err := e.sqs.ReceiveMessage(ctx, in, func(o *sqs.Options) { o.RetryMaxAttempts = 1 })
		if err != nil {
			if lost++; lost > maxLostReplies || ctx.Err() != nil {
				return nil, fmt.Errorf("reading the dead letters: %w", err)
			}
			// from now on, because the reply's messages may return at any time
			in.WaitTimeSeconds = waitSeconds
			continue
		}
		if len(out.Messages) == 0 {
			return bodies, nil
		}
		for _, m := range out.Messages {
			if id := aws.ToString(m.MessageId); !seen[id] {
				seen[id] = true
				bodies = append(bodies, aws.ToString(m.Body))
			}
		}
		if err := e.drop(ctx, out.Messages); err != nil {
			return nil, err
		}
	}
}

func (e *Environment) drop(ctx context.Context, messages []types.Message) error {
	var errs []error
	for _, m := range messages {
		_, err := e.sqs.DeleteMessage(ctx,
			&sqs.DeleteMessageInput{QueueUrl: &e.Queue, ReceiptHandle: m.ReceiptHandle})
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("deleting dead letters that were read: %w", err)
	}
	return nil
}

// ParseLetters parses messages as dead letters. A letter that was sent twice is returned once.
func ParseLetters(bodies []string) ([]kafka.DeadLetter, error) {
	type failure struct {
		source string
		token  int64
	}
	seen := make(map[failure]bool)
	var letters []kafka.DeadLetter
	for _, body := range bodies {
		l, err := kafka.ParseDeadLetter([]byte(body))
		if err != nil {
			return nil, err
		}
		if id := (failure{l.Source(), l.Token}); !seen[id] {
			seen[id] = true
			letters = append(letters, l)
		}
	}
	return letters, nil
}
