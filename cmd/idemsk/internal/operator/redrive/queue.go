package redrive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// SQS is what is needed of an *sqs.Client.
type SQS interface {
	ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput,
		optFns ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	ChangeMessageVisibility(ctx context.Context, in *sqs.ChangeMessageVisibilityInput,
		optFns ...func(*sqs.Options),
	) (*sqs.ChangeMessageVisibilityOutput, error)
	DeleteMessage(ctx context.Context, in *sqs.DeleteMessageInput,
		optFns ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error)
}

// The bounds of a queue's visibility timeout here: below, there is no time to redrive a letter; above, SQS
// refuses.
const (
	MinVisibility = 10 * time.Second
	MaxVisibility = 12 * time.Hour
)

// How a queue is read. A standard queue may have messages and give none: only two answers without any in a
// row are its end.
const (
	receiveAtOnce = 10
	receiveWait   = 1 // seconds
	emptyAnswers  = 2
)

// closeTimeout bounds the return of what was kept.
const closeTimeout = 10 * time.Second

// queue is a source of letters in SQS. What it hands out is invisible to others for the visibility timeout,
// renewed when a letter's turn comes late. Letters that are kept become visible at the end of the run, not
// before: they would be received again. Of what is kept the queue remembers the receipt, less than 1 KB each,
// and of what is gone the ID.
type queue struct {
	client     SQS
	url        string
	visibility time.Duration

	ready []*Message
	empty int                 // answers in a row without a message
	held  map[string]*receipt // of what was handed out, by ID
	gone  map[string]bool     // taken out, by ID
}

// receipt is what SQS asks for to keep or to delete a message.
type receipt struct {
	handle string
	at     time.Time // from when the visibility timeout counts
}

// maxInFlight is how many messages of a queue SQS hands out at most that are not deleted: then it gives no
// more, and no error.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
const maxInFlight = 120_000

var _ Source = (*queue)(nil)

// Queue returns the letters in an SQS queue.
func Queue(client SQS, url string, visibility time.Duration) Source {
	return &queue{client: client, url: url, visibility: visibility, held: make(map[string]*receipt),
		gone: make(map[string]bool)}
}

func (q *queue) Next(ctx context.Context) (*Message, error) {
	for len(q.ready) == 0 {
		if q.empty == emptyAnswers && len(q.held) >= maxInFlight {
			return nil, fmt.Errorf("the queue %s may have more letters: SQS delivers at most %d messages that are not deleted", q.url, maxInFlight)
		}
		if q.empty == emptyAnswers {
			return nil, io.EOF
		}
		if err := q.receive(ctx); err != nil {
			return nil, err
		}
	}
	m := q.ready[0]
	q.ready = q.ready[1:]
	return m, nil
}

func (q *queue) receive(ctx context.Context) error {
	now := time.Now()
	out, err := q.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &q.url, MaxNumberOfMessages: receiveAtOnce, WaitTimeSeconds: receiveWait,
		VisibilityTimeout: q.seconds(),
	})
	if err != nil {
		return q.explain("reading", err)
	}
	q.empty++
	for _, got := range out.Messages {
		id := aws.ToString(got.MessageId)
		known := q.held[id] != nil // kept so long that its time was over; only the new receipt counts
		q.held[id] = &receipt{handle: aws.ToString(got.ReceiptHandle), at: now}
		switch {
		case q.gone[id]: // SQS may give a message that was deleted
			if err := q.delete(ctx, id); err != nil {
				return err
			}
		case !known:
			q.empty = 0
			q.ready = append(q.ready, NewMessage(id, []byte(aws.ToString(got.Body))))
		}
	}
	return nil
}

func (q *queue) seconds() int32 { return int32(q.visibility / time.Second) }

// Begin renews the visibility timeout if less than half of it is left, and allows the work the half that
// there is at least.
func (q *queue) Begin(ctx context.Context, m *Message) (time.Time, error) {
	now, r := time.Now(), q.held[m.Name]
	if now.Sub(r.at) > q.visibility/2 {
		_, err := q.client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
			QueueUrl: &q.url, ReceiptHandle: &r.handle, VisibilityTimeout: q.seconds(),
		})
		if err != nil {
			return time.Time{}, q.explain("keeping a message of", err)
		}
		r.at = now
	}
	return r.at.Add(q.visibility), nil
}

func (q *queue) Done(ctx context.Context, m *Message) error { return q.delete(ctx, m.Name) }

func (q *queue) delete(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if _, err := q.client.DeleteMessage(ctx,
		&sqs.DeleteMessageInput{QueueUrl: &q.url, ReceiptHandle: &q.held[id].handle}); err != nil {
		return q.explain("deleting a message of", err)
	}
	q.gone[id] = true
	delete(q.held, id)
	return nil
}

// Close makes what was kept visible again. What can't be becomes so by itself when its time is over.
func (q *queue) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	for _, r := range q.held {
		if ctx.Err() != nil {
			break
		}
		_, _ = q.client.ChangeMessageVisibility(ctx,
			&sqs.ChangeMessageVisibilityInput{QueueUrl: &q.url, ReceiptHandle: &r.handle})
	}
	return nil
}

// mayHaveMore reports whether letters may have been held back: SQS gives no further message of a FIFO queue's message
// group, here a partition, while some of it are with a consumer, and at most ten at once.
func (q *queue) mayHaveMore() bool {
	return strings.HasSuffix(q.url, ".fifo") && len(q.held) >= receiveAtOnce
}

func (q *queue) explain(doing string, err error) error {
	var missing *types.QueueDoesNotExist
	hint := ""
	if errors.As(err, &missing) {
		hint = " (there is no such queue in this account and region: check --queue-url and --region)"
	}
	return fmt.Errorf("%s the queue %s: %w%s", doing, q.url, err, hint)
}
