package proof

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
)

// Site is what the example's function works on.
type Site struct {
	Dynamo *dynamodb.Client
	SQS    *sqs.Client
	Table  string // of keys
	Ledger string // of balances
	Audit  string // of bookings; "" if there is none
	Queue  string // the dead letters' URL; set by Create
}

// The attributes of the example's ledger and of its audit.
const (
	ledgerAccount  = "account"
	ledgerBalance  = "balance"
	auditExecution = "execution"
	auditKey       = "idempotencyKey"
	auditAmount    = "amount"
	auditToken     = "token"
	auditAttempt   = "attempt"
	auditRequest   = "requestId"
)

// Times for making and removing a site.
const (
	createTimeout = 2 * time.Minute
	removeTimeout = 30 * time.Second
)

// Create makes tables and queue, and removes them again if that fails.
func (s *Site) Create(ctx context.Context, queue string) error {
	if err := s.create(ctx, queue); err != nil {
		return errors.Join(err, s.Remove(ctx))
	}
	return nil
}

func (s *Site) create(ctx context.Context, queue string) error {
	if err := dynamostore.CreateTable(ctx, s.Dynamo, s.Table); err != nil {
		return err
	}
	if err := s.createTable(ctx, s.Ledger, ledgerAccount); err != nil {
		return err
	}
	if s.Audit != "" {
		if err := s.createTable(ctx, s.Audit, auditExecution); err != nil {
			return err
		}
	}
	out, err := s.SQS.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &queue})
	if err != nil {
		return fmt.Errorf("creating the queue %s: %w", queue, err)
	}
	s.Queue = aws.ToString(out.QueueUrl)
	return nil
}

func (s *Site) createTable(ctx context.Context, name, key string) error {
	_, err := s.Dynamo.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:            &name,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &key, AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: &key, KeyType: types.KeyTypeHash}},
		BillingMode:          types.BillingModePayPerRequest,
	})
	if err == nil {
		err = dynamodb.NewTableExistsWaiter(s.Dynamo).Wait(ctx, &dynamodb.DescribeTableInput{TableName: &name}, createTimeout)
	}
	if err != nil {
		return fmt.Errorf("creating the table %s: %w", name, err)
	}
	return nil
}

// Remove deletes what Create made. It also works when the context has ended.
func (s *Site) Remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	var errs []error
	for _, table := range []string{s.Table, s.Ledger, s.Audit} {
		if table == "" {
			continue
		}
		_, err := s.Dynamo.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &table})
		var missing *types.ResourceNotFoundException
		if err != nil && !errors.As(err, &missing) {
			errs = append(errs, fmt.Errorf("deleting the table %s: %w", table, err))
		}
	}
	if s.Queue != "" {
		if _, err := s.SQS.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &s.Queue}); err != nil {
			errs = append(errs, fmt.Errorf("deleting the queue %s: %w", s.Queue, err))
		}
	}
	return errors.Join(errs...)
}

// Statuses reads how the keys ended.
func (s *Site) Statuses(ctx context.Context) (map[string]store.Status, error) {
	keys, err := dynamostore.New(s.Dynamo, dynamostore.Config{Table: s.Table})
	if err != nil {
		return nil, err
	}
	statuses := make(map[string]store.Status)
	for rec, err := range keys.List(ctx, store.ListQuery{}) {
		if err != nil {
			return nil, err
		}
		statuses[rec.Key] = rec.Status
	}
	return statuses, nil
}

// Balances reads the ledger, by account and currency, in minor units.
func (s *Site) Balances(ctx context.Context) (map[string]int64, error) {
	balances := make(map[string]int64)
	return balances, s.scan(ctx, s.Ledger, func(i item) {
		balances[i.text(ledgerAccount)] = i.number(ledgerBalance)
	})
}

// Execution is a booking that was done, by the audit.
type Execution struct {
	Key       string // the idempotency key; "" without protection
	RequestID string // the invocation
	Token     int64
	Attempt   int
	Account   string // with its currency
	Amount    int64  // minor units
}

// Executions reads the audit.
func (s *Site) Executions(ctx context.Context) ([]Execution, error) {
	var all []Execution
	return all, s.scan(ctx, s.Audit, func(i item) {
		e := Execution{RequestID: i.text(auditRequest), Account: i.text(ledgerAccount), Amount: i.number(auditAmount)}
		if i.values[auditKey] != nil {
			e.Key, e.Token, e.Attempt = i.text(auditKey), i.number(auditToken), int(i.number(auditAttempt))
		}
		all = append(all, e)
	})
}

// item is an item that is read; what is wrong with it is kept.
type item struct {
	values map[string]types.AttributeValue
	err    *error
}

func (i item) text(name string) string {
	s, ok := i.values[name].(*types.AttributeValueMemberS)
	if !ok {
		*i.err = errors.Join(*i.err, fmt.Errorf("an item has no %s", name))
		return ""
	}
	return s.Value
}

func (i item) number(name string) int64 {
	n, ok := i.values[name].(*types.AttributeValueMemberN)
	if !ok {
		*i.err = errors.Join(*i.err, fmt.Errorf("an item has no %s", name))
		return 0
	}
	v, err := strconv.ParseInt(n.Value, 10, 64)
	*i.err = errors.Join(*i.err, err)
	return v
}

// scan reads a table.
func (s *Site) scan(ctx context.Context, table string, each func(item)) error {
	pages := dynamodb.NewScanPaginator(s.Dynamo, &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("reading the table %s: %w", table, err)
		}
		for _, values := range page.Items {
			each(item{values: values, err: &err})
			if err != nil {
				return fmt.Errorf("reading the table %s: %w", table, err)
			}
		}
	}
	return nil
}
