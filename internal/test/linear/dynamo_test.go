package linear_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/test/linear"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

func TestDynamoDBInProcess(t *testing.T) {
	url := testkit.Serve(t, dynamofake.New, dynamofake.Config{}).URL()
	linearizable(t, 15, func(t *testing.T) linear.Config { return onDynamoDB(t, url, patience) })
}

// onDynamoDB returns clients of stores on a new table.
func onDynamoDB(t *testing.T, url string, patience time.Duration) (cfg linear.Config) {
	t.Helper()
	table := awstest.Name("linear")
	direct := dynamodb.NewFromConfig(awstest.Config(t, url))
	if err := dynamostore.CreateTable(t.Context(), direct, table); err != nil {
		t.Fatal(err)
	}
	awstest.DeleteTableAtEnd(t, direct, table)
	effects := table + "-effects"
	awstest.CreateTable(t, direct, effects, "id")
	for range clients {
		n, url := newNetwork(t, url, patience)
		transport := &http.Transport{DialContext: n.dial}
		t.Cleanup(transport.CloseIdleConnections)
		client := dynamostore.NewClient(aws.Config{
			Region: "us-east-1", BaseEndpoint: &url,
			Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
			HTTPClient:  &http.Client{Transport: transport, Timeout: patience},
		})
		s, err := dynamostore.New(client, dynamostore.Config{Table: table, MaxClockSkew: skew})
		if err != nil {
			t.Fatal(err)
		}
		c := n.client(s)
		c.Effects = effectsInDynamoDB(s, client, effects)
		cfg.Clients = append(cfg.Clients, c)
	}
	return cfg
}

// effectsInDynamoDB returns counters that are items of a table.
func effectsInDynamoDB(s *dynamostore.Store, client *dynamodb.Client, table string) *linear.Effects {
	item := func(key string) map[string]types.AttributeValue {
		return map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: key}}
	}
	return &linear.Effects{
		Transactor: s,
		Count: func(_ context.Context, e store.Effect, key string) error {
			tx, ok := e.(*dynamostore.Tx)
			if !ok {
				return fmt.Errorf("the effect is a %T", e)
			}
			return tx.Enlist(dynamostore.Write{Update: &types.Update{
				TableName: &table, Key: item(key), UpdateExpression: aws.String("ADD n :one"),
				ExpressionAttributeValues: map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}},
			}})
		},
		Read: func(ctx context.Context, key string) (int, error) {
			out, err := client.GetItem(ctx,
				&dynamodb.GetItemInput{TableName: &table, Key: item(key), ConsistentRead: aws.Bool(true)})
			if err != nil {
				return 0, err
			}
			n, ok := out.Item["n"].(*types.AttributeValueMemberN)
			if !ok {
				return 0, nil
			}
			return strconv.Atoi(n.Value)
		},
	}
}
