package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// TableClient is the part of *dynamodb.Client that CreateTable uses.
type TableClient interface {
	CreateTable(ctx context.Context, in *dynamodb.CreateTableInput,
		optFns ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	UpdateTimeToLive(ctx context.Context, in *dynamodb.UpdateTimeToLiveInput,
		optFns ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
	DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput,
		optFns ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
}

// createTimeout is the maximum time that CreateTable waits for a table to become active.
const createTimeout = 2 * time.Minute

// CreateTable creates an on-demand table with TTL for a Store and waits until it is active. It fails if the
// table exists and has TTL. It is meant for tests and local runs: in production the CDK stack creates the
// table, with backups and deletion protection.
func CreateTable(ctx context.Context, client TableClient, name string) error {
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &name,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String(AttrKey),
			AttributeType: types.ScalarAttributeTypeS}},
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String(AttrKey),
			KeyType: types.KeyTypeHash}},
		BillingMode: types.BillingModePayPerRequest,
	})
	var exists *types.ResourceInUseException
	if err != nil && !errors.As(err, &exists) { // it may exist because the client sent the request twice
		return fmt.Errorf("dynamostore: creating table %s: %w", name, err)
	}
	if err := dynamodb.NewTableExistsWaiter(client).Wait(ctx, &dynamodb.DescribeTableInput{TableName: &name},
		createTimeout); err != nil {
		return fmt.Errorf("dynamostore: waiting for table %s: %w", name, err)
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(AttrExpiry),
			Enabled: aws.Bool(true)},
	})
	if err != nil {
		return fmt.Errorf("dynamostore: turning on TTL of table %s: %w", name, err)
	}
	return nil
}
