package dynamooutbox_test

import (
	"context"
	"encoding/json"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

type payment struct{ Account, Amount string }

// A handler credits an account and publishes an event. The account, the event and the completion of the
// record's key commit in one transaction.
func ExampleHandler() {
	box, err := dynamooutbox.New(dynamooutbox.Config{Table: "payments-outbox"})
	if err != nil {
		panic(err)
	}
	credit := msk.JSON(func(ctx context.Context, p payment, _ msk.Record) (struct{}, error) {
		tx, err := dynamostore.TxFrom(ctx)
		if err != nil {
			return struct{}{}, err
		}
		if err := tx.Enlist(dynamostore.Write{Update: &types.Update{
			TableName:                 aws.String("ledger"),
			Key:                       map[string]types.AttributeValue{"account": &types.AttributeValueMemberS{Value: p.Account}},
			UpdateExpression:          aws.String("ADD balance :amount"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":amount": &types.AttributeValueMemberN{Value: p.Amount}},
		}}); err != nil {
			return struct{}{}, err
		}
		value, err := json.Marshal(p)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, outbox.Publish(ctx,
			outbox.Event{Topic: "credited", Key: []byte(p.Account), Value: value})
	})
	var handler msk.HandlerFunc = dynamooutbox.Handler(box, credit)
	_ = handler // for app.Start, or msk.New
	// Output:
}
