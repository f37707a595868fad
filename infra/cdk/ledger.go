package main

import (
	"cmp"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// addLedger adds the table of the example (lambda/handler). A handler of your own brings its own tables, in
// this place.
func addLedger(stack awscdk.Stack, c *consumer.Consumer, props *consumer.Props) {
	table := awsdynamodb.NewTableV2(stack, jsii.String("Ledger"), &awsdynamodb.TablePropsV2{
		PartitionKey:                     &awsdynamodb.Attribute{Name: jsii.String("account"), Type: awsdynamodb.AttributeType_STRING},
		Billing:                          awsdynamodb.Billing_OnDemand(nil),
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: jsii.Bool(true)},
		DeletionProtection:               cmp.Or(props.Store.DeletionProtection, jsii.Bool(true)),
		RemovalPolicy:                    props.RemovalPolicy,
		Encryption:                       awsdynamodb.TableEncryptionV2_AwsManagedKey(),
	})
	c.Function.AddEnvironment(jsii.String("IDEMSK_LEDGER_TABLE"), table.TableName(), nil)
	c.Role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("Ledger"), Actions: jsii.Strings("dynamodb:UpdateItem"), Resources: jsii.Strings(*table.TableArn()),
	}))
}
