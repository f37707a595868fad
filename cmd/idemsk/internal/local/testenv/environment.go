// Package testenv is the test environment of the example function: its keys, its ledger and its audit in
// DynamoDB, PostgreSQL or Redis, and its dead-letter queue. It creates, reads and removes them.
package testenv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/idem/store"
)

// Region and credentials of the function are made up, so that a local run can't reach real tables by mistake.
// DynamoDB Local keeps separate tables for each pair of them, so that another client that reads the tables
// needs the same ones.
const (
	Region       = "us-east-1"
	AccessKeyID  = "idemskLocal" // DynamoDB Local accepts letters and digits only
	AccessSecret = "not-a-secret"
)

// Names are the names of tables; in Redis, prefixes of names.
type Names struct {
	Keys   string
	Ledger string
	Audit  string // of bookings, in DynamoDB only; "" if there is none
}

// Environment is the test environment of a function. Close it.
type Environment struct {
	Names

	Queue string // the URL of the dead-letter queue, set by Create

	sqs      *sqs.Client
	keys     store.Admin
	database database
	close    func()
}

// database is where the tables are.
type database interface {
	check(ctx context.Context) error
	create(ctx context.Context) error
	remove(ctx context.Context) error
	read(ctx context.Context, s *State) error // all but the statuses
}

// Open returns the environment in the PostgreSQL or Redis at a URL: postgres://, redis:// or rediss://. It
// does not connect.
func Open(url string, names Names, queues *sqs.Client) (*Environment, error) {
	open := openRedis
	if strings.HasPrefix(url, "postgres") {
		open = openPostgres
	}
	e, err := open(url, names)
	if err != nil {
		return nil, err
	}
	e.Names, e.sqs = names, queues
	return e, nil
}

// Close closes the connections that Open made.
func (e *Environment) Close() { e.close() }

// Check returns an error if the database does not answer, or can't be used as a store.
func (e *Environment) Check(ctx context.Context) error { return e.database.check(ctx) }

// Create creates the tables and a queue. If that fails, it removes what it created.
func (e *Environment) Create(ctx context.Context, queue string) (err error) {
	if err = e.database.create(ctx); err == nil {
		e.Queue, err = CreateQueue(ctx, e.sqs, queue)
	}
	if err != nil {
		return errors.Join(err, e.Remove(ctx))
	}
	return nil
}

// CreateQueue creates a queue if it does not exist, and returns its URL.
func CreateQueue(ctx context.Context, client *sqs.Client, name string) (url string, err error) {
	out, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name})
	if err != nil {
		return "", fmt.Errorf("creating the queue %s: %w", name, err)
	}
	return aws.ToString(out.QueueUrl), nil
}

const removeTimeout = 30 * time.Second

// Remove removes the tables and the queue. It also works if ctx has ended.
func (e *Environment) Remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	err := e.database.remove(ctx)
	if e.Queue == "" {
		return err
	}
	if _, queueErr := e.sqs.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &e.Queue}); queueErr != nil {
		return errors.Join(err, fmt.Errorf("deleting the queue %s: %w", e.Queue, queueErr))
	}
	e.Queue = ""
	return err
}

// State is what a function has written to its tables.
type State struct {
	Balances   map[string]int64        // by account and currency, "acc-1/EUR", in minor units
	Statuses   map[string]store.Status // by stored key
	Executions []Execution             // none if the function keeps no audit
}

// Execution is a booking in the audit.
type Execution struct {
	Key      string `dynamodbav:"idempotencyKey"` // the stored key; "" without idemsk
	Executor string `dynamodbav:"requestId"`      // what made the booking: the request ID of an invocation
	Token    int64  `dynamodbav:"token"`          // the fencing token
	Attempt  int    `dynamodbav:"attempt"`
	Account  string `dynamodbav:"account"` // with its currency
	Amount   int64  `dynamodbav:"amount"`  // in minor units
}

// Read reads the tables.
func (e *Environment) Read(ctx context.Context) (*State, error) {
	s := &State{Statuses: make(map[string]store.Status)}
	if err := e.database.read(ctx, s); err != nil {
		return nil, err
	}
	for entry, err := range e.keys.List(ctx, store.ListQuery{}) {
		if err != nil {
			return nil, err
		}
		s.Statuses[entry.Key] = entry.Status
	}
	return s, nil
}

// Counts returns the number of keys by status.
func (e *Environment) Counts(ctx context.Context) (map[store.Status]int, error) {
	counts := make(map[store.Status]int)
	for entry, err := range e.keys.List(ctx, store.ListQuery{}) {
		if err != nil {
			return nil, err
		}
		counts[entry.Status]++
	}
	return counts, nil
}
