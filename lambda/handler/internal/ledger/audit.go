package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem"
)

// The attributes of the audit table, which has an item for each booking.
const (
	attrExecution = "execution"      // S, the partition key: random
	attrRecordKey = "idempotencyKey" // S, the key that the booking was for
	attrSource    = "source"         // S, topic-partition@offset
	attrToken     = "token"          // N, the fencing token
	attrAttempt   = "attempt"        // N, the number of the attempt
	attrRequest   = "requestId"      // S, the invocation
	attrAmount    = "amount"         // N, minor units
)

// auditLedger books as dynamoLedger does, and writes an item for each booking in the same transaction. The
// table shows how often each payment was booked, and by which invocations. It is for tests that kill
// processes. Add returns no balance, because a transaction does not return one.
type auditLedger struct {
	*dynamoLedger
	audit string
}

// Add implements Ledger.
func (l *auditLedger) Add(ctx context.Context, account, currency string, amount int64) (int64, error) {
	id := AccountID(account, currency)
	_, err := l.client.TransactWriteItems(ctx,
		&dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{Update: addition(l.table, id, amount)},
			{Put: &types.Put{TableName: &l.audit, Item: auditItem(ctx, id, amount)}},
		}})
	var canceled *types.TransactionCanceledException
	switch {
	case errors.As(err, &canceled) && len(canceled.CancellationReasons) > 0 &&
		aws.ToString(canceled.CancellationReasons[0].Code) == "ConditionalCheckFailed":
		return 0, errOverflow(l.table)
	case err != nil:
		return 0, idem.Unavailable(fmt.Errorf("the ledger %s, with its audit %s: %w", l.table, l.audit, err))
	}
	return 0, nil
}

// auditItem returns the item of a booking, with the attempt and the invocation from the handler's context.
func auditItem(ctx context.Context, account string, amount int64) map[string]types.AttributeValue {
	item := map[string]types.AttributeValue{attrExecution: text(rand.Text()), attrAccount: text(account),
		attrAmount: number(amount)}
	if a, ok := idem.AttemptFrom(ctx); ok {
		item[attrRecordKey], item[attrSource] = text(a.Key), text(a.Source)
		item[attrToken], item[attrAttempt] = number(a.Token), number(int64(a.Number))
	}
	if in, ok := lambdacontext.FromContext(ctx); ok {
		item[attrRequest] = text(in.AwsRequestID)
	}
	return item
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
