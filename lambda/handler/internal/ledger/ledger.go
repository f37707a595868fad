package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	// Add adds an amount in minor units to a balance, and returns the new balance, or 0 if the booking
	// commits with the completion.
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
	return l.book(AccountID(account, currency), amount), nil
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
		o.Retryer = aws.NopRetryer{} // a retry of ADD after a lost answer would book twice
	})}
}

// Add implements Ledger. The addition is not idempotent, so it must not be repeated.
func (l *dynamoLedger) Add(ctx context.Context, account, currency string, amount int64) (int64, error) {
	add := addition(l.table, AccountID(account, currency), amount)
	out, err := l.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: add.TableName, Key: add.Key, UpdateExpression: add.UpdateExpression,
		ConditionExpression:       add.ConditionExpression,
		ExpressionAttributeNames:  add.ExpressionAttributeNames,
		ExpressionAttributeValues: add.ExpressionAttributeValues,
		ReturnValues:              types.ReturnValueUpdatedNew,
	})
	var refused *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &refused):
		return 0, errOverflow(l.table)
	case err != nil: // the ledger failed: the payment was validated before, so it is retried
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

// addition returns the update of a booking. Its condition keeps the balance within 64 bits, as on the other
// stores: DynamoDB refuses a balance of more than 38 digits with the same code as an invalid request.
func addition(table, id string, amount int64) *types.Update {
	within, bound := "#balance <= :bound", math.MaxInt64-max(amount, 0)
	if amount < 0 {
		within, bound = "#balance >= :bound", math.MinInt64-amount
	}
	return &types.Update{
		TableName: &table, Key: map[string]types.AttributeValue{attrAccount: text(id)},
		UpdateExpression:         aws.String("ADD #balance :amount, #bookings :one"),
		ConditionExpression:      aws.String("attribute_not_exists(#balance) OR " + within),
		ExpressionAttributeNames: map[string]string{"#balance": attrBalance, "#bookings": attrBookings},
		ExpressionAttributeValues: map[string]types.AttributeValue{":amount": number(amount),
			":one": number(1), ":bound": number(bound)},
	}
}

// errOverflow returns the error of a booking whose condition failed.
func errOverflow(table string) error {
	return idem.Permanent(fmt.Errorf("the ledger %s: the balance would exceed 64 bits: fix the account or the amount, and redrive the payment", table))
}

// AccountID returns the key of an account in a ledger. It includes the currency, because a balance has one
// currency.
func AccountID(account, currency string) string { return account + "/" + currency }
