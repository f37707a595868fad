//go:build rest

package torture_test

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/postgres"
	"github.com/idemsk/idemsk/app/process"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/kafka"
)

// processVariable makes the test binary a consumer process.
const processVariable = "TORTURE_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(processVariable) != "" {
		process.StartFunc(build, postgres.Store())
	}
	goleak.VerifyTestMain(m)
}

// booking is the value of a record.
type booking struct {
	Account string `json:"account"` // the Kafka key
	Amount  int64  `json:"amount"`
}

// effectsTable holds the effects of the handler: in DynamoDB an item for each account, in PostgreSQL a row
// for each booking.
const effectsTable = "effects"

// build returns a handler that books in the transaction of the completion, and keeps the order of the
// bookings of each account.
func build(ctx context.Context, base *app.Base) (kafka.Handler, error) {
	book := bookInPostgres
	if base.Config.Store == app.StoreDynamoDB {
		cfg, err := base.AWS(ctx)
		if err != nil {
			return nil, err
		}
		book = (&dynamo{dynamodb.NewFromConfig(cfg)}).book
	}
	return kafka.HandlerFunc(func(ctx context.Context, r kafka.Record) ([]byte, error) {
		var b booking
		if err := json.Unmarshal(r.Value, &b); err != nil {
			return nil, idem.Permanent(err)
		}
		switch a, _ := idem.AttemptFrom(ctx); {
		case oneIn(200, &r) && a.Number == 1:
			return nil, errors.New("a failure of the first attempt")
		case oneIn(20, &r):
			// faults meet running handlers, which do not observe that they have lost their claims
			<-time.After(time.Second)
			ctx = context.WithoutCancel(ctx)
		}
		return nil, book(ctx, &r, &b)
	}), nil
}

// oneIn chooses one in n records, always the same ones.
func oneIn(n uint32, r *kafka.Record) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(r.Source()))
	return h.Sum32()%n == 0
}

// bookInPostgres books in a transaction of the record, and every other one in that of a group.
func bookInPostgres(ctx context.Context, r *kafka.Record, b *booking) error {
	const insert = `INSERT INTO effects (account, place, amount) VALUES ($1, $2, $3)`
	if oneIn(2, r) {
		return pgstore.Enlist(ctx, insert, b.Account, r.Source(), b.Amount)
	}
	tx, err := pgstore.TxFrom(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, insert, b.Account, r.Source(), b.Amount)
	}
	return err
}

type dynamo struct{ client *dynamodb.Client }

// book reads the account and enlists its next state. The write has no condition of its own: it is protected
// only by the completion with which it commits, and by the order of the lane.
func (d *dynamo) book(ctx context.Context, r *kafka.Record, b *booking) error {
	tx, err := dynamostore.TxFrom(ctx)
	if err != nil {
		return err
	}
	table, consistent := effectsTable, true
	key := map[string]types.AttributeValue{"account": &types.AttributeValueMemberS{Value: b.Account}}
	out, err := d.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: key,
		ConsistentRead: &consistent})
	if err != nil {
		return idem.Unavailable(err)
	}
	update := "SET places = :places ADD balance :amount"
	return tx.Enlist(dynamostore.Write{Update: &types.Update{
		TableName: &table, Key: key, UpdateExpression: &update,
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":places": &types.AttributeValueMemberS{Value: placesOf(out.Item) + r.Source() + " "},
			":amount": &types.AttributeValueMemberN{Value: strconv.FormatInt(b.Amount, 10)},
		},
	}})
}

// placesOf returns the places of the records that were booked on an account, in their order, each followed by
// a blank.
func placesOf(item map[string]types.AttributeValue) string {
	if s, ok := item["places"].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}
