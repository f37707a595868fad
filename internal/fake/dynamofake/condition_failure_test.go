package dynamofake_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

func TestFailedConditionBringsItem(t *testing.T) {
	_, db := start(t, dynamofake.Config{})
	if _, err := put(key("a"))(db, table); err != nil {
		t.Fatal(err)
	}
	for returned, want := range map[types.ReturnValuesOnConditionCheckFailure]string{"": "none", "NONE": "none", "ALL_OLD": "{k=S:a }"} {
		_, err := db.PutItem(context.Background(), &dynamodb.PutItemInput{
			TableName: aws.String(table), Item: key("a"), ConditionExpression: aws.String("attribute_not_exists(k)"),
			ReturnValuesOnConditionCheckFailure: returned,
		})
		if got := outcome(nil, nil, err); got != (result{"ConditionalCheckFailedException", "The conditional request failed", want}) {
			t.Errorf("%q: %+v", returned, got)
		}
	}
}
