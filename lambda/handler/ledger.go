package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
)

// Ledger keeps balances.
type Ledger interface {
	// Add adds an amount in minor units to a balance, and returns the new balance, or 0 where the booking commits with the
	// completion.
	Add(ctx context.Context, account, currency string, amount int64) (int64, error)
}

// memoryLedger is a ledger for runs without AWS.
type memoryLedger struct {
	mu       sync.Mutex
	balances map[string]int64
}

func newMemoryLedger() *memoryLedger { return &memoryLedger{balances: make(map[string]int64)} }

// Add implements Ledger.
func (l *memoryLedger) Add(_ context.Context, account, currency string, amount int64) (int64, error) {
	return l.book(accountID(account, currency), amount), nil
}

func (l *memoryLedger) book(id string, amount int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.balances[id] += amount
	return l.balances[id]
}

// The attributes of the ledger table.
const (
	attrAccount  = "account"  // S, the partition key: account and currency
	attrBalance  = "balance"  // N, minor units
	attrBookings = "bookings" // N, how often something was added
)

// dynamoLedger is a ledger in a DynamoDB table.
type dynamoLedger struct {
	client *dynamodb.Client
	table  string
}

func newDynamoLedger(cfg aws.Config, table string) *dynamoLedger {
	return &dynamoLedger{table: table, client: dynamostore.NewClient(cfg, func(o *dynamodb.Options) {
		o.Retryer = aws.NopRetryer{} // to ADD again because the answer was lost would book twice
	})}
}

// Add implements Ledger. An addition has no condition that would make it safe to repeat.
func (l *dynamoLedger) Add(ctx context.Context, account, currency string, amount int64) (int64, error) {
	out, err := l.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                &l.table,
		Key:                      map[string]types.AttributeValue{attrAccount: &types.AttributeValueMemberS{Value: accountID(account, currency)}},
		UpdateExpression:         aws.String("ADD #balance :amount, #bookings :one"),
		ExpressionAttributeNames: map[string]string{"#balance": attrBalance, "#bookings": attrBookings},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":amount": &types.AttributeValueMemberN{Value: strconv.FormatInt(amount, 10)}, ":one": &types.AttributeValueMemberN{Value: "1"},
		},
		ReturnValues: types.ReturnValueUpdatedNew,
	})
	if err != nil {
		// A payment was checked before, so it is the ledger's fault whatever it says: a payment is not given up for that.
		return 0, idem.Unavailable(fmt.Errorf("the ledger %s: %w", l.table, err))
	}
	n, ok := out.Attributes[attrBalance].(*types.AttributeValueMemberN)
	if !ok {
		return 0, idem.ResultUnavailable(fmt.Errorf("the ledger %s returned no balance", l.table))
	}
	balance, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil {
		return 0, idem.ResultUnavailable(fmt.Errorf("the balance in ledger %s: %w", l.table, err))
	}
	return balance, nil
}

func accountID(account, currency string) string { return account + "/" + currency }
