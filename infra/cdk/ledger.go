package main

import (
	"cmp"
	"maps"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// ledgerKey is the partition key that the example's ledger (lambda/handler) uses.
const ledgerKey = "account"

// ledger is the table of the example handler. A function with a handler of its own brings its own tables, in
// this place.
type ledger struct{ table awsdynamodb.TableV2 }

func newLedger(st *stack, props *consumer.Props) *ledger {
	encryption := awsdynamodb.TableEncryptionV2_AwsManagedKey()
	if props.EncryptionKey != nil {
		encryption = awsdynamodb.TableEncryptionV2_CustomerManagedKey(props.EncryptionKey, nil)
	}
	l := &ledger{table: awsdynamodb.NewTableV2(st.Stack, jsii.String("Ledger"), &awsdynamodb.TablePropsV2{
		PartitionKey: &awsdynamodb.Attribute{Name: jsii.String(ledgerKey),
			Type: awsdynamodb.AttributeType_STRING},
		Billing: awsdynamodb.Billing_OnDemand(nil),
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{
			PointInTimeRecoveryEnabled: jsii.Bool(true),
		},
		DeletionProtection: cmp.Or(props.Store.DeletionProtection, jsii.Bool(true)),
		RemovalPolicy:      props.RemovalPolicy,
		Encryption:         encryption,
	})}
	env := map[string]string{"IDEMSK_LEDGER_TABLE": *l.table.TableName()}
	if props.Outbox != nil {
		env["IDEMSK_OUTBOX"] = "on"
		if len(props.Outbox.Topics) > 0 {
			env["IDEMSK_OUTBOX_TOPIC"] = props.Outbox.Topics[0]
		}
	}
	maps.Copy(env, props.Function.Environment)
	props.Function.Environment = env
	return l
}

func (l *ledger) grant(c *consumer.Consumer) {
	c.Role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("Ledger"), Actions: jsii.Strings("dynamodb:UpdateItem"),
		Resources: jsii.Strings(*l.table.TableArn()),
	}))
}
