package ledger

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/internal/trace/dynamotrace"
)

// startDynamo starts an in-process DynamoDB with the tables of the function, and returns the SDK's
// configuration for it.
func startDynamo(t *testing.T, cfg dynamofake.Config) (*dynamofake.Server, aws.Config) {
	t.Helper()
	cfg.Observe = awstest.TraceWrites(t, dynamostore.DefaultTable, 0, dynamotrace.OneMachine)
	db := testkit.Serve(t, dynamofake.New, cfg)
	awsCfg := awstest.Config(t, db.URL())
	client := dynamodb.NewFromConfig(awsCfg)
	if err := dynamostore.CreateTable(t.Context(), client, dynamostore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	awstest.CreateTable(t, client, ledgerTable, attrAccount)
	return db, awsCfg
}

const ledgerTable = "idemsk-ledger"

// booked reads an account's balance and the number of its bookings.
func booked(t *testing.T, cfg aws.Config, account string) (balance, bookings string) {
	t.Helper()
	out, err := dynamodb.NewFromConfig(cfg).GetItem(context.Background(), &dynamodb.GetItemInput{
		TableName: aws.String(ledgerTable),
		Key:       map[string]types.AttributeValue{attrAccount: &types.AttributeValueMemberS{Value: account}},
	})
	if err != nil {
		t.Fatal(err)
	}
	number := func(name string) string {
		n, _ := out.Item[name].(*types.AttributeValueMemberN)
		if n == nil {
			return ""
		}
		return n.Value
	}
	return number(attrBalance), number(attrBookings)
}

func TestDynamoLedgerBalances(t *testing.T) {
	_, cfg := startDynamo(t, dynamofake.Config{})
	ledger := newDynamoLedger(cfg, ledgerTable)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := ledger.Add(t.Context(), "acc-1", "EUR", 5); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := ledger.Add(t.Context(), "acc-1", "EUR", -1)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "the new balance", got, 99)
	balance, bookings := booked(t, cfg, "acc-1/EUR")
	equal(t, "balance", balance, "99")
	equal(t, "bookings", bookings, "21")
}

// A payment is retried after any error of the ledger.
func TestPaymentIsRetriedWhenTheLedgerFails(t *testing.T) {
	_, cfg := startDynamo(t, dynamofake.Config{})
	for name, table := range map[string]string{"no such table": "elsewhere",
		"another table's key": dynamostore.DefaultTable} {
		t.Run(name, func(t *testing.T) {
			_, err := newDynamoLedger(cfg, table).Add(t.Context(), "acc-1", "EUR", 1)
			equal(t, "unavailable", idem.IsUnavailable(err), true)
			equal(t, "permanent", idem.IsPermanent(err), false)
			if !strings.Contains(err.Error(), "the ledger "+table) {
				t.Errorf("%q does not name the table", err)
			}
		})
	}
}

// An addition whose answer was lost may have been applied, so the SDK must not retry it.
func TestAdditionIsNotRetried(t *testing.T) {
	var sent atomic.Int64
	_, cfg := startDynamo(t, dynamofake.Config{Fault: func(operation string, _ []byte) dynamofake.Fault {
		if operation != "UpdateItem" {
			return dynamofake.Fault{}
		}
		sent.Add(1)
		return dynamofake.Fault{DropReply: true}
	}})
	_, err := newDynamoLedger(cfg, ledgerTable).Add(t.Context(), "acc-1", "EUR", 1250)
	equal(t, "unavailable", idem.IsUnavailable(err), true)
	equal(t, "requests", sent.Load(), 1)
	balance, _ := booked(t, cfg, "acc-1/EUR")
	equal(t, "balance", balance, "1250")
}

func TestMemoryLedgerTakesConcurrentBookings(t *testing.T) {
	l := newMemoryLedger()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { _, _ = l.Add(context.Background(), "acc-1", "EUR", 2) })
	}
	wg.Wait()
	equal(t, "balance", l.balances["acc-1/EUR"], 100)
}
