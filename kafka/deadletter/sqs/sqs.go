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

// DefaultMaxBytes is the default of Config.MaxBytes: 256 KiB, which every queue accepts. SQS accepts up to 1
// MiB, depending on the queue's MaximumMessageSize.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
const DefaultMaxBytes = 256 << 10

// The bounds of Config.MaxBytes. The lower bound holds the largest letter without its record: the longest key
// and reason, each byte escaped as six bytes in JSON, and as many bootstrap servers as an event source may
// have. The upper bound is that of SQS.
const (
	SmallestMaxBytes = 20 << 10
	LargestMaxBytes  = 1 << 20
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
	// MaxBytes is the maximum size of a message (default DefaultMaxBytes, 20 KiB to 1 MiB, not more than the
	// queue's MaximumMessageSize). The value of a larger letter is omitted; it is still in Kafka.
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
	body, err := l.Encode(q.limit)
	if err != nil {
		return fmt.Errorf("sqs: %w", err)
	}
	text := string(body)
	in := &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: &text}
	if q.fifo {
		group, id := groupOf(&l), l.ID()
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
