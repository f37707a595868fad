package proof

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/idemsk/idemsk/kafka"
)

// Limits for reading the queue. A received message is deleted at once, so the visibility timeout matters only for messages whose
// reply was lost: they are visible again when it is over.
const (
	visibilitySeconds = 2
	waitSeconds       = 5 // longer than the visibility timeout
	maxLostReplies    = 3
)

// Messages takes what is in the queue out of it. The SDK does not retry, because a retry would hide that a reply was lost: its
// messages exist, but are invisible, and the queue looks empty.
func (s *Site) Messages(ctx context.Context) (bodies []string, err error) {
	in := &sqs.ReceiveMessageInput{QueueUrl: &s.Queue, MaxNumberOfMessages: 10, VisibilityTimeout: visibilitySeconds}
	seen := make(map[string]bool)
	for lost := 0; ; {
		out, err := s.SQS.ReceiveMessage(ctx, in, func(o *sqs.Options) { o.RetryMaxAttempts = 1 })
		if err != nil {
			if lost++; lost > maxLostReplies || ctx.Err() != nil {
				return nil, fmt.Errorf("reading the dead letters: %w", err)
			}
			in.WaitTimeSeconds = waitSeconds // from now on, because the reply's messages may return at any time
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
		if err := s.drop(ctx, out.Messages); err != nil {
			return nil, err
		}
	}
}

func (s *Site) drop(ctx context.Context, messages []types.Message) error {
	var errs []error
	for _, m := range messages {
		_, err := s.SQS.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &s.Queue, ReceiptHandle: m.ReceiptHandle})
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("deleting dead letters that were read: %w", err)
	}
	return nil
}

// ParseLetters reads messages as dead letters, each once.
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

// Letters takes the dead letters out of the queue, each once.
func (s *Site) Letters(ctx context.Context) ([]kafka.DeadLetter, error) {
	bodies, err := s.Messages(ctx)
	if err != nil {
		return nil, err
	}
	return ParseLetters(bodies)
}
