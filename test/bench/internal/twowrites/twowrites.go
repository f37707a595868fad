// Package twowrites makes a message idempotent as teams do it first: a conditional write to DynamoDB before
// the handler, and another write after it. It has no leases, no owners, no fingerprints and no attempts.
package twowrites

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const retention = 7 * 24 * time.Hour

// Table is a table of keys.
type Table struct {
	db   *dynamodb.Client
	name string
}

// Open returns a table, with the AWS configuration of the environment, for a number of callers at once.
func Open(ctx context.Context, name string, callers int) (*Table, error) {
	// The SDK keeps 10 idle connections; with more at once than that, it would open a new one for most
	// requests.
	client := awshttp.NewBuildableClient().WithTransportOptions(
		func(t *http.Transport) { t.MaxIdleConnsPerHost = max(10, callers) })
	cfg, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(client))
	if err != nil {
		return nil, err
	}
	return &Table{db: dynamodb.NewFromConfig(cfg), name: name}, nil
}

// Claim reports whether a key is fresh, and marks it as started. A key that was started and not completed is
// an error.
func (t *Table) Claim(ctx context.Context, key string) (fresh bool, err error) {
	now := time.Now()
	_, err = t.db.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &t.name,
		Item: map[string]types.AttributeValue{
			"id":         &types.AttributeValueMemberS{Value: key},
			"status":     &types.AttributeValueMemberS{Value: "STARTED"},
			"expiration": number(now.Add(retention)),
		},
		ConditionExpression:      aws.String("attribute_not_exists(#id) OR #expiration < :now"),
		ExpressionAttributeNames: map[string]string{"#id": "id", "#expiration": "expiration"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":now": number(now),
		},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) {
		return err == nil, err
	}
	if status, ok := failed.Item["status"].(*types.AttributeValueMemberS); !ok ||
		status.Value != "COMPLETED" {
		return false, fmt.Errorf("the key %q is in flight elsewhere", key)
	}
	return false, nil
}

// Complete stores the result of a key.
func (t *Table) Complete(ctx context.Context, key, result string) error {
	_, err := t.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &t.name,
		Key:       map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: key}},
		UpdateExpression: aws.String(
			"SET #status = :status, #data = :data, #expiration = :expiration"),
		ExpressionAttributeNames: map[string]string{"#status": "status", "#data": "data",
			"#expiration": "expiration"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":status":     &types.AttributeValueMemberS{Value: "COMPLETED"},
			":data":       &types.AttributeValueMemberS{Value: result},
			":expiration": number(time.Now().Add(retention)),
		},
	})
	return err
}

func number(t time.Time) *types.AttributeValueMemberN {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(t.Unix(), 10)}
}
