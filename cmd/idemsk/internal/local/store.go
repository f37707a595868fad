package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/dynamofake"
	"github.com/idemsk/idemsk/internal/sqsfake"
)

// Region and credentials are made up, so that a local run can't reach real tables by mistake.
const (
	region       = "us-east-1"
	accessKeyID  = "idemsk-local"
	accessSecret = "not-a-secret"
)

// The names of what the function works on.
const (
	ledgerTable = "idemsk-ledger"
	letterQueue = "idemsk-dead-letters"
)

// store is the DynamoDB and SQS of a run, in this process, so that it outlives the function's processes and serves them all.
type store struct {
	tables  *dynamofake.Server
	queues  *sqsfake.Server
	sqs     *sqs.Client
	letters string // the URL of the function's own dead letters
}

func startStore(ctx context.Context) (s *store, err error) {
	tables, err1 := dynamofake.New(dynamofake.Config{})
	queues, err2 := sqsfake.New(sqsfake.Config{})
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	s = &store{tables: tables, queues: queues}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *store) start(ctx context.Context) error {
	if err := errors.Join(s.tables.Start(), s.queues.Start()); err != nil {
		return err
	}
	for _, t := range []dynamofake.Table{
		{Name: dynamostore.DefaultTable, HashKey: "idempotencyKey", TTLAttribute: "expiryTimestamp"},
		{Name: ledgerTable, HashKey: "account"},
	} {
		if err := s.tables.CreateTable(t); err != nil {
			return err
		}
	}
	s.sqs = sqs.New(sqs.Options{
		Region: region, BaseEndpoint: aws.String(s.queues.URL()),
		Credentials: credentials.NewStaticCredentialsProvider(accessKeyID, accessSecret, ""),
	})
	url, err := s.queue(ctx, letterQueue)
	s.letters = url
	return err
}

// queue makes a queue, if it is not there yet, and returns its URL.
func (s *store) queue(ctx context.Context, name string) (string, error) {
	out, err := s.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name})
	if err != nil {
		return "", fmt.Errorf("creating the queue %s: %w", name, err)
	}
	return aws.ToString(out.QueueUrl), nil
}

// countLetters takes the function's dead letters out of their queue.
func (s *store) countLetters(ctx context.Context) (n int, err error) {
	for {
		out, err := s.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &s.letters, MaxNumberOfMessages: 10, VisibilityTimeout: 600}) //nolint:mnd // at most
		if err != nil {
			return n, fmt.Errorf("reading the dead letters: %w", err)
		}
		if len(out.Messages) == 0 {
			return n, nil
		}
		n += len(out.Messages)
	}
}

func (s *store) close() error { return errors.Join(s.tables.Close(), s.queues.Close()) }

// environment is what a function needs to know of the store. The lease is short, so that the keys of a killed process are
// soon free.
func (s *store) environment(partial bool) []string {
	failures := "batch"
	if partial {
		failures = "partial"
	}
	return []string{
		"AWS_ENDPOINT_URL_DYNAMODB=" + s.tables.URL(), "AWS_ENDPOINT_URL_SQS=" + s.queues.URL(),
		"AWS_ACCESS_KEY_ID=" + accessKeyID, "AWS_SECRET_ACCESS_KEY=" + accessSecret,
		"IDEMSK_TABLE=" + dynamostore.DefaultTable, "IDEMSK_LEDGER_TABLE=" + ledgerTable, "IDEMSK_DEAD_LETTER_QUEUE_URL=" + s.letters,
		"IDEMSK_FAILURES=" + failures, "IDEMSK_LEASE=1s", "IDEMSK_MAX_CLOCK_SKEW=100ms", "IDEMSK_SIMULATE=on",
		"IDEMSK_BATCHING=off", // dynamofake knows no batches of statements
	}
}
