//go:build servers

package torture_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/host"
	"github.com/idemsk/idemsk/host/pgapp"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/app"
)

// processVariable makes the test binary a consumer process.
const processVariable = "TORTURE_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(processVariable) != "" {
		app.StartFunc(build, pgapp.Store())
	}
	goleak.VerifyTestMain(m)
}

// booking is the value of a record.
type booking struct {
	Account string `json:"account"` // the Kafka key
	Amount  int64  `json:"amount"`
}

// effectsTable holds the effects of the handler: in DynamoDB an item for each account, in PostgreSQL a row for each booking.
const effectsTable = "effects"

// build returns a handler that books in the transaction of the completion, and keeps the order of the bookings of each account.
func build(ctx context.Context, base *host.Base) (kafka.Handler, error) {
	book := bookInPostgres
	if base.Config.Store == host.StoreDynamoDB {
		cfg, err := base.AWS(ctx)
		if err != nil {
			return nil, err
		}
		book = (&dynamo{dynamodb.NewFromConfig(cfg)}).book
	}
	return func(ctx context.Context, r kafka.Record) ([]byte, error) {
		var b booking
		if err := json.Unmarshal(r.Value, &b); err != nil {
			return nil, idem.Permanent(err)
		}
		if failsFirst(ctx, &r) {
			return nil, errors.New("a failure of the first attempt")
		}
		return nil, book(ctx, &r, &b)
	}, nil
}

// failsFirst reports whether this is the first attempt at a record that fails at first, as one in 200 does.
func failsFirst(ctx context.Context, r *kafka.Record) bool {
	const oneIn = 200
	h := fnv.New32a()
	_, _ = h.Write([]byte(r.Source()))
	a, _ := idem.AttemptFrom(ctx)
	return a.Number == 1 && h.Sum32()%oneIn == 0
}

func bookInPostgres(ctx context.Context, r *kafka.Record, b *booking) error {
	tx, err := pgstore.TxFrom(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, `INSERT INTO effects (account, place, amount) VALUES ($1, $2, $3)`, b.Account, r.Source(), b.Amount)
	}
	return err
}

type dynamo struct{ client *dynamodb.Client }

// book reads the account and enlists its next state, on the condition that it is still the one that was read.
func (d *dynamo) book(ctx context.Context, r *kafka.Record, b *booking) error {
	tx, err := dynamostore.TxFrom(ctx)
	if err != nil {
		return err
	}
	table, consistent := effectsTable, true
	key := map[string]types.AttributeValue{"account": &types.AttributeValueMemberS{Value: b.Account}}
	out, err := d.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: key, ConsistentRead: &consistent})
	if err != nil {
		return idem.Unavailable(err)
	}
	places, version := placesOf(out.Item), "0"
	if n, ok := out.Item["version"].(*types.AttributeValueMemberN); ok {
		version = n.Value
	}
	update, condition := "SET places = :places, version = :next ADD balance :amount", "version = :version"
	values := map[string]types.AttributeValue{
		":places": &types.AttributeValueMemberS{Value: places + r.Source() + " "}, ":amount": number(b.Amount),
		":version": &types.AttributeValueMemberN{Value: version},
	}
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return fmt.Errorf("the version of account %s: %w", b.Account, err)
	}
	if values[":next"] = number(n + 1); n == 0 {
		condition = "attribute_not_exists(version)"
		delete(values, ":version")
	}
	return tx.Enlist(dynamostore.Write{Update: &types.Update{
		TableName: &table, Key: key, UpdateExpression: &update, ConditionExpression: &condition, ExpressionAttributeValues: values,
	}})
}

// placesOf returns the places of the records that were booked on an account, in their order, each followed by a blank.
func placesOf(item map[string]types.AttributeValue) string {
	if s, ok := item["places"].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
