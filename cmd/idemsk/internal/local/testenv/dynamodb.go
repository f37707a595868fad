package testenv

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
)

// The attributes of the example function's ledger and of its audit.
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

// createTimeout is the maximum time until a new table can be used.
const createTimeout = 2 * time.Minute

// InDynamoDB returns the environment in a DynamoDB. The caller closes the clients.
func InDynamoDB(client *dynamodb.Client, names Names, queues *sqs.Client) (*Environment, error) {
	keys, err := dynamostore.New(client, dynamostore.Config{Table: names.Keys})
	if err != nil {
		return nil, err
	}
	return &Environment{Names: names, sqs: queues, keys: keys, database: &dynamoDB{client, names},
		close: func() {}}, nil
}

type dynamoDB struct {
	*dynamodb.Client

	names Names
}

func (d *dynamoDB) check(ctx context.Context) error {
	_, err := d.ListTables(ctx, &dynamodb.ListTablesInput{})
	return err
}

func (d *dynamoDB) create(ctx context.Context) error {
	if err := dynamostore.CreateTable(ctx, d.Client, d.names.Keys); err != nil {
		return err
	}
	if err := d.createTable(ctx, d.names.Ledger, ledgerAccount); err != nil {
		return err
	}
	if d.names.Audit == "" {
		return nil
	}
	return d.createTable(ctx, d.names.Audit, auditExecution)
}

func (d *dynamoDB) createTable(ctx context.Context, name, key string) error {
	_, err := d.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &name,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &key,
			AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:   []types.KeySchemaElement{{AttributeName: &key, KeyType: types.KeyTypeHash}},
		BillingMode: types.BillingModePayPerRequest,
	})
	if err == nil {
		err = dynamodb.NewTableExistsWaiter(d).Wait(ctx, &dynamodb.DescribeTableInput{TableName: &name},
			createTimeout)
	}
	if err != nil {
		return fmt.Errorf("creating the table %s: %w", name, err)
	}
	return nil
}

func (d *dynamoDB) remove(ctx context.Context) error {
	var errs []error
	for _, table := range []string{d.names.Keys, d.names.Ledger, d.names.Audit} {
		if table == "" {
			continue
		}
		_, err := d.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &table})
		var missing *types.ResourceNotFoundException
		if err != nil && !errors.As(err, &missing) {
			errs = append(errs, fmt.Errorf("deleting the table %s: %w", table, err))
		}
	}
	return errors.Join(errs...)
}

func (d *dynamoDB) read(ctx context.Context, s *State) error {
	s.Balances = make(map[string]int64)
	err := d.scan(ctx, d.names.Ledger, func(i item) {
		s.Balances[i.text(ledgerAccount)] = i.number(ledgerBalance)
	})
	if err != nil || d.names.Audit == "" {
		return err
	}
	return d.scan(ctx, d.names.Audit, func(i item) {
		e := Execution{Executor: i.text(auditRequest), Account: i.text(ledgerAccount),
			Amount: i.number(auditAmount)}
		if i.values[auditKey] != nil {
			e.Key, e.Token, e.Attempt = i.text(auditKey), i.number(auditToken), int(i.number(auditAttempt))
		}
		s.Executions = append(s.Executions, e)
	})
}

// scan reads a table.
func (d *dynamoDB) scan(ctx context.Context, table string, each func(item)) error {
	pages := dynamodb.NewScanPaginator(d,
		&dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
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

// item is an item of a table, with the errors of reading it.
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
