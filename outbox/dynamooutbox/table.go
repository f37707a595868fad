package dynamooutbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem/dynamostore"
)

// createTimeout is the maximum time that CreateTable waits for a table to become active.
const createTimeout = 2 * time.Minute

// CreateTable creates the table, on demand, with its stream and TTL, and waits until it is active. It fails
// if the table exists and has TTL. It is meant for tests and local runs: in production the CDK stack creates
// the table, with backups and deletion protection.
func (o *Outbox) CreateTable(ctx context.Context, client dynamostore.TableClient) error {
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &o.table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(AttrAggregate), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(AttrID), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String(AttrAggregate), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String(AttrID), KeyType: types.KeyTypeRange},
		},
		StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true),
			StreamViewType: types.StreamViewTypeNewImage},
	})
	var exists *types.ResourceInUseException
	if err != nil && !errors.As(err, &exists) { // it may exist because the client sent the request twice
		return fmt.Errorf("dynamooutbox: creating table %s: %w", o.table, err)
	}
	if err := dynamodb.NewTableExistsWaiter(client).Wait(ctx,
		&dynamodb.DescribeTableInput{TableName: &o.table}, createTimeout); err != nil {
		return fmt.Errorf("dynamooutbox: waiting for table %s: %w", o.table, err)
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: &o.table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(AttrExpiry),
			Enabled: aws.Bool(true)},
	})
	if err != nil {
		return fmt.Errorf("dynamooutbox: turning on TTL of table %s: %w", o.table, err)
	}
	return nil
}
