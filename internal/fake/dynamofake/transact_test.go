package dynamofake_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

func transfer(token string, amount string) *dynamodb.TransactWriteItemsInput {
	return &dynamodb.TransactWriteItemsInput{
		ClientRequestToken: aws.String(token), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		TransactItems: []types.TransactWriteItem{
			{Update: &types.Update{
				TableName: aws.String(table), Key: key("a"), UpdateExpression: aws.String("ADD balance :v"),
				ExpressionAttributeValues: attributes{":v": num(amount)},
			}},
			{Put: &types.Put{TableName: aws.String(table), Item: key("b")}},
		},
	}
}

func TestTransactionToken(t *testing.T) {
	var clock sync.Mutex
	now := time.Unix(1_800_000_000, 0)
	_, db := start(t, dynamofake.Config{Now: func() time.Time {
		clock.Lock()
		defer clock.Unlock()
		return now
	}})
	run := func(in *dynamodb.TransactWriteItemsInput) (string, float64) {
		out, err := db.TransactWriteItems(context.Background(), in)
		if err != nil {
			code, _ := failure(err)
			return code, 0
		}
		return "", *out.ConsumedCapacity[0].CapacityUnits
	}
	balance := func(want string) {
		t.Helper()
		if got, err := get(key("a"))(db, table); err != nil ||
			got != text(attributes{"k": str("a"), "balance": num(want)}) {
			t.Errorf("%s, %v; want a balance of %s", got, err, want)
		}
	}
	codes := together(contenders, func(int) string {
		code, _ := run(transfer("token", "5"))
		return code
	})
	if count(codes, "") != contenders {
		t.Errorf("repeated transactions failed: %q", codes)
	}
	balance("5")
	if code, units := run(transfer("token", "5")); code != "" || units != 4 {
		t.Errorf("repeated: %q for %v units, want none for 4", code, units)
	}
	if code, _ := run(transfer("token", "6")); code != "IdempotentParameterMismatchException" {
		t.Errorf("the token with another amount: %q", code)
	}
	if code, _ := run(transfer("other", "1")); code != "" {
		t.Errorf("another token: %q", code)
	}
	balance("6")
	clock.Lock()
	now = now.Add(10*time.Minute + time.Second)
	clock.Unlock()
	if code, _ := run(transfer("token", "6")); code != "" {
		t.Errorf("the token after its lifetime: %q", code)
	}
	balance("12")
}

func TestCancellationReasons(t *testing.T) {
	_, db := start(t, dynamofake.Config{})
	if _, err := put(attributes{"k": str("a"), "n": num("1")})(db, table); err != nil {
		t.Fatal(err)
	}
	_, err := db.TransactWriteItems(context.Background(),
		&dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{Put: &types.Put{TableName: aws.String(table), Item: key("b")}},
			{ConditionCheck: &types.ConditionCheck{
				TableName: aws.String(table), Key: key("a"),
				ConditionExpression:                 aws.String("attribute_not_exists(k)"),
				ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
			}},
			{Update: &types.Update{TableName: aws.String(table), Key: key("c"),
				UpdateExpression: aws.String("SET x = absent")}},
			{Delete: &types.Delete{TableName: aws.String(table), Key: key("d"),
				ConditionExpression: aws.String("attribute_exists(k)")}},
		}})
	const want = "TransactionCanceledException: Transaction cancelled, please refer cancellation reasons for specific reasons " +
		"[None, ConditionalCheckFailed, ValidationError, ConditionalCheckFailed]"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v\nwant %s", err, want)
	}
	if got := cancellationReasons(err); got != "None none|ConditionalCheckFailed {k=S:a n=N:1 }|ValidationError none|ConditionalCheckFailed none" {
		t.Errorf("reasons %s", got)
	}
	_, code, message := call(t, unstarted(t, dynamofake.Config{}), "TransactWriteItems",
		`{"TransactItems":[{"Delete":{"TableName":"table",`+
			`"Key":{"k":{"S":"a"}},"ConditionExpression":"attribute_exists(k)"}}]}`)
	if code != "TransactionCanceledException" || !strings.Contains(message, "[ConditionalCheckFailed]") {
		t.Errorf("on the wire: %s %s", code, message)
	}
	if got, err := get(key("b"))(db, table); err != nil || got != "none" {
		t.Errorf("a cancelled transaction wrote %s, %v", got, err)
	}
}
