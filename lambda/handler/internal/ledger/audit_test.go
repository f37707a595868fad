package ledger

import (
	"context"
	"testing"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

const auditTable = "idemsk-audit"

func createAudit(t *testing.T, cfg aws.Config) *dynamodb.Client {
	t.Helper()
	client := dynamodb.NewFromConfig(cfg)
	awstest.CreateTable(t, client, auditTable, attrExecution)
	return client
}

// A booking writes an item with its key, record, attempt, token and invocation.
func TestAuditItemNamesTheOwner(t *testing.T) {
	_, cfg := startDynamo(t, dynamofake.Config{})
	client := createAudit(t, cfg)
	ledger := &auditLedger{dynamoLedger: newDynamoLedger(cfg, ledgerTable), audit: auditTable}
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "request-1"})
	var token int64
	out := engine.Do(ctx, idem.Task{Key: "payments#pay-1", Source: "payments-0@7",
		Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
			a, _ := idem.AttemptFrom(ctx)
			token = a.Token
			_, err := ledger.Add(ctx, "acc-1", "EUR", 1250)
			return nil, err
		})})
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	balance, bookings := booked(t, cfg, "acc-1/EUR")
	equal(t, "balance", balance, "1250")
	equal(t, "bookings", bookings, "1")
	items, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(auditTable)})
	if err != nil || len(items.Items) != 1 {
		t.Fatalf("%v, %v", items, err)
	}
	for name, want := range map[string]string{attrRecordKey: "payments#pay-1", attrSource: "payments-0@7",
		attrRequest: "request-1", attrAccount: "acc-1/EUR"} {
		got, _ := items.Items[0][name].(*types.AttributeValueMemberS)
		if got == nil || got.Value != want {
			t.Errorf("%s is %v; want %s", name, got, want)
		}
	}
	for name, want := range map[string]types.AttributeValue{attrAmount: number(1250), attrAttempt: number(1),
		attrToken: number(token)} {
		got, _ := items.Items[0][name].(*types.AttributeValueMemberN)
		if got == nil || got.Value != want.(*types.AttributeValueMemberN).Value {
			t.Errorf("%s is %v; want %v", name, got, want)
		}
	}
}

// Without its audit item no payment is booked, and the payment is retried.
func TestPaymentIsNotBookedWithoutItsAuditItem(t *testing.T) {
	_, cfg := startDynamo(t, dynamofake.Config{})
	ledger := &auditLedger{dynamoLedger: newDynamoLedger(cfg, ledgerTable), audit: auditTable}
	_, err := ledger.Add(t.Context(), "acc-1", "EUR", 1250)
	equal(t, "unavailable", idem.IsUnavailable(err), true)
	balance, _ := booked(t, cfg, "acc-1/EUR")
	equal(t, "balance", balance, "")
}
