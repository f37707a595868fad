package dynamofake_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

func Example() {
	server, err := dynamofake.New(dynamofake.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := server.CreateTable(dynamofake.Table{Name: "idemsk", HashKey: "idempotencyKey",
		TTLAttribute: "expiryTimestamp"}); err != nil {
		log.Fatal(err)
	}
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	db := dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(server.URL()),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "any", SecretAccessKey: "any"}, nil
		}),
	})
	claim := func(owner string) {
		_, err := db.PutItem(context.Background(), &dynamodb.PutItemInput{
			TableName: aws.String("idemsk"),
			Item: map[string]types.AttributeValue{
				"idempotencyKey": &types.AttributeValueMemberS{Value: "payment-1"},
				"owner":          &types.AttributeValueMemberS{Value: owner},
			},
			ConditionExpression:                 aws.String("attribute_not_exists(idempotencyKey)"),
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		})
		if failed := (*types.ConditionalCheckFailedException)(nil); errors.As(err, &failed) {
			fmt.Println(owner, "is too late:", failed.Item["owner"].(*types.AttributeValueMemberS).Value,
				"has it")
		} else {
			fmt.Println(owner, "has it:", err)
		}
	}
	claim("anna")
	claim("bert")
	fmt.Println(server.Usage().Requests)
	// Output:
	// anna has it: <nil>
	// bert is too late: anna has it
	// map[PutItem:2]
}
