package testenv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/idem/dynamostore"
)

// The partition keys of the example function's ledger and of its audit.
const (
	ledgerAccount  = "account"
	auditExecution = "execution"
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
	accounts, err := scan[struct {
		Account string `dynamodbav:"account"`
		Balance int64  `dynamodbav:"balance"`
	}](ctx, d, d.names.Ledger)
	if err != nil {
		return err
	}
	s.Balances = make(map[string]int64)
	for _, a := range accounts {
		s.Balances[a.Account] = a.Balance
	}
	if d.names.Audit != "" {
		s.Executions, err = scan[Execution](ctx, d, d.names.Audit)
	}
	return err
}

// scan reads a table.
func scan[T any](ctx context.Context, d *dynamoDB, table string) (items []T, err error) {
	pages := dynamodb.NewScanPaginator(d,
		&dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		var found []T
		page, err := pages.NextPage(ctx)
		if err == nil {
			err = attributevalue.UnmarshalListOfMaps(page.Items, &found)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the table %s: %w", table, err)
		}
		items = append(items, found...)
	}
	return items, nil
}
