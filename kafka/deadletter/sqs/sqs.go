// Package sqs sends dead letters to an SQS queue, standard or FIFO.
package sqs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// The bounds of Config.MaxBytes. The lower bound holds the largest letter without its record: the longest key
// and reason, each byte escaped as six bytes in JSON, and as many bootstrap servers as an event source may
// have. The upper bound is that of SQS, and the default.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
const (
	SmallestMaxBytes = 20 << 10
	LargestMaxBytes  = 1 << 20
	DefaultMaxBytes  = LargestMaxBytes
)

// Client is the part of *sqs.Client that a Queue uses.
type Client interface {
	SendMessage(ctx context.Context, in *sqs.SendMessageInput,
		optFns ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
}

// Config configures a Queue.
type Config struct {
	// URL is the queue's URL. If it ends in ".fifo", the queue is a FIFO queue: the letters of one partition
	// and function form a message group, and SQS drops the second copy of a letter that is sent again within
	// five minutes, for example after a lost reply.
	URL string
	// MaxBytes is the maximum size of a message (default DefaultMaxBytes, 20 KiB to 1 MiB). Of a letter that is
	// larger, or larger than the queue's MaximumMessageSize, the value is omitted, which is still in Kafka. The
	// letter of a message of another queue must be whole: if it is too large, Send returns
	// kafka.ErrDeadLetterTooLarge (wrapped).
	MaxBytes int
}

// Queue is an SQS queue for dead letters.
type Queue struct {
	client Client
	url    string
	limit  int
	fifo   bool
}

var _ kafka.DeadLetters = (*Queue)(nil)

// New returns a queue. It sends no request. It returns idem.ErrInvalidConfig (wrapped), which names the
// invalid field.
func New(client Client, cfg Config) (*Queue, error) {
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	if client == nil {
		return nil, fmt.Errorf("sqs: %w: the client is nil", idem.ErrInvalidConfig)
	}
	if u, err := url.Parse(cfg.URL); err != nil || u.Host == "" ||
		(u.Scheme != "https" && u.Scheme != "http") {
		return nil, fmt.Errorf("sqs: %w: URL is %q: want a queue's URL, like https://sqs.eu-central-1.amazonaws.com/123456789012/NAME",
			idem.ErrInvalidConfig, cfg.URL)
	}
	if cfg.MaxBytes < SmallestMaxBytes || cfg.MaxBytes > LargestMaxBytes {
		return nil, fmt.Errorf("sqs: %w: MaxBytes is %d: want %d to %d", idem.ErrInvalidConfig, cfg.MaxBytes,
			SmallestMaxBytes, LargestMaxBytes)
	}
	return &Queue{client: client, url: cfg.URL, limit: cfg.MaxBytes,
		fifo: strings.HasSuffix(cfg.URL, ".fifo")}, nil
}

// Destination returns the queue, which must not be consumed by who sends the letters.
func (q *Queue) Destination() kafka.Destination { return kafka.Destination{QueueURL: q.url} }

// Send implements kafka.DeadLetters.
func (q *Queue) Send(ctx context.Context, l kafka.DeadLetter) error {
	var refused error
	for limit := q.limit; ; {
		body, err := l.Encode(limit)
		if err != nil {
			return q.tooLarge(err, refused)
		}
		if err = q.send(ctx, &l, body); len(body) <= SmallestMaxBytes || !mayBeTooLarge(err) {
			return err
		}
		limit, refused = len(body)-1, err // the queue's own limit may be smaller
	}
}

// tooLarge is the error for a letter that can't be sent because of its size. refused is the answer of SQS, if
// there is one.
func (q *Queue) tooLarge(err, refused error) error {
	err = fmt.Errorf("sqs: %w: set IDEMSK_DEAD_LETTER_BUCKET, so that S3 has it, or "+
		"raise IDEMSK_DEAD_LETTER_MAX_BYTES and the MaximumMessageSize of %s to 1 MiB", err, q.url)
	if refused != nil {
		err = fmt.Errorf("%w: %w", err, refused)
	}
	return err
}

func (q *Queue) send(ctx context.Context, l *kafka.DeadLetter, body []byte) error {
	text := string(body)
	in := &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: &text}
	if q.fifo {
		group, id := groupOf(l), l.ID()
		in.MessageGroupId, in.MessageDeduplicationId = &group, &id
	}
	out, err := q.client.SendMessage(ctx, in)
	if err != nil {
		return fmt.Errorf("sqs: sending the dead letter of %s (%d bytes) to %s: %w%s", l.Source(), len(body),
			q.url, err, hint(err))
	}
	if out.MessageId == nil {
		return fmt.Errorf("sqs: sending the dead letter of %s to %s: %w", l.Source(), q.url, errNoID)
	}
	return nil
}

var errNoID = errors.New("the answer has no message ID: the endpoint is not SQS")

// groupOf returns the message group of a letter: its partition, function and cluster, so that letters of
// other functions and clusters do not wait for it. A group may contain all characters of topic names.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
func groupOf(l *kafka.DeadLetter) string {
	const longest, digits = 128, 16
	sum := sha256.Sum256([]byte(l.Cluster + " " + l.Function))
	rest := "-" + strconv.Itoa(int(l.Partition)) + "-" + hex.EncodeToString(sum[:])[:digits]
	return l.Topic[:min(len(l.Topic), longest-len(rest))] + rest
}
