package outbox_test

import (
	"context"
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/test/tally"
	"github.com/idemsk/idemsk/internal/test/testbed"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

const (
	ledgerTable = "idemsk-ledger"
	attrAccount = "account"
	attrBalance = "balance"
)

// The same on an in-process DynamoDB.
func TestEachCreditIsCountedOnceOnDynamoDB(t *testing.T) {
	n := testkit.Size(t, 500, 2000)
	db := startDynamo(t)
	box, err := dynamooutbox.New(dynamooutbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	brokers := startFakeKafka(t)
	seed := tally.NewSeed(t)
	made := producePayments(t, seed, brokers, n)

	faults := seed.Faults("first")
	first := tally.NewSource(t, seed, brokers, payments, batchSize, enlister(t, db, box, faults))
	books := tally.NewBooks()
	second := tally.NewSource(t, seed, brokers, credited, batchSize,
		function(t, books.Handler(seed.Faults("second"))))
	relaying, relayed := context.WithCancel(t.Context())
	defer relayed()
	booked := beside(t, first.Drain)
	counted := beside(t, func() bool { return second.Follow(relaying) })
	stream := tally.NewStream(t, seed, db, box, brokers, testbed.SmallBatch)
	stream.Relay(booked.done)
	booked.wait(t)
	relayed()
	counted.wait(t)
	second.WantAll(n + testbed.SmallBatch)

	t.Logf("%d relays died at work; %d batches of payments and %d of events came again, %d records of %d events",
		stream.Died, first.Again, second.Again, second.Records, n)
	if stream.Died < 5 {
		t.Errorf("only %d relays died", stream.Died)
	}
	if stream.Items() != n {
		t.Errorf("%d events were published of %d payments", stream.Items(), n)
	}
	wantCounted(t, books, made, balances(t, db))
}

// startDynamo starts an in-process DynamoDB with its tables, sets the environment for the SDK, and returns a
// client. It has no sort keys, so the unique IDs of the outbox's items are the partition key.
func startDynamo(t *testing.T) *dynamodb.Client {
	t.Helper()
	srv := testkit.Serve(t, dynamofake.New, dynamofake.Config{})
	for table, key := range map[string]string{dynamooutbox.DefaultTable: dynamooutbox.AttrID,
		ledgerTable: attrAccount} {
		if err := srv.CreateTable(dynamofake.Table{Name: table, HashKey: key}); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_DYNAMODB": srv.URL(), "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "test",
		"AWS_SECRET_ACCESS_KEY": "test", "AWS_SESSION_TOKEN": "",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
	db := dynamostore.NewClient(awstest.Config(t, srv.URL()))
	if err := dynamostore.CreateTable(t.Context(), db, dynamostore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	return db
}

func startFakeKafka(t *testing.T) (brokers []string) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, payments),
		kfake.SeedTopics(3, credited),
		kfake.ListenFn(func(_, _ string) (net.Listener, error) {
			return new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()
}

// enlister returns the first consumer, which books as the example function does.
func enlister(t *testing.T, db *dynamodb.Client, box *dynamooutbox.Outbox, faults *tally.Faults) *msk.Consumer {
	t.Helper()
	store, err := dynamostore.New(db, dynamostore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return tally.NewConsumer(t, store, paymentKey(t),
		dynamooutbox.Handler(box, msk.JSON(
			func(ctx context.Context, c tally.Credit, _ msk.Record) (struct{}, error) {
				tx, err := dynamostore.TxFrom(ctx)
				if err != nil {
					return struct{}{}, err
				}
				err = tx.Enlist(dynamostore.Write{Update: &types.Update{
					TableName:                 aws.String(ledgerTable),
					Key:                       map[string]types.AttributeValue{attrAccount: &types.AttributeValueMemberS{Value: c.LedgerID()}},
					UpdateExpression:          aws.String("ADD #balance :amount"),
					ExpressionAttributeNames:  map[string]string{"#balance": attrBalance},
					ExpressionAttributeValues: map[string]types.AttributeValue{":amount": &types.AttributeValueMemberN{Value: strconv.FormatInt(c.Amount, 10)}},
				}})
				if err != nil {
					return struct{}{}, err
				}
				e, err := event(&c)
				if err != nil {
					return struct{}{}, err
				}
				if err := outbox.Publish(ctx, e); err != nil {
					return struct{}{}, err
				}
				return struct{}{}, faults.Fail(c.PaymentID)
			})))
}

// balances reads the ledger.
func balances(t *testing.T, db *dynamodb.Client) map[string]int64 {
	t.Helper()
	out, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(ledgerTable),
		ConsistentRead: aws.Bool(true)})
	if err != nil || len(out.LastEvaluatedKey) > 0 {
		t.Fatal("the ledger is not on one page, or: ", err)
	}
	all := make(map[string]int64)
	for _, item := range out.Items {
		account, _ := item[attrAccount].(*types.AttributeValueMemberS)
		balance, _ := item[attrBalance].(*types.AttributeValueMemberN)
		if account == nil || balance == nil {
			t.Fatalf("%v is in the ledger", item)
		}
		if all[account.Value], err = strconv.ParseInt(balance.Value, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
