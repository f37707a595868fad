package main

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// localCluster takes the place of the cluster on LocalStack, where nothing polls.
const localCluster = "arn:aws:kafka:us-east-1:000000000000:cluster/local/00000000-0000-0000-0000-000000000000-1"

// newStacks builds both stacks. The consumer is deployed after the producer has created the topic, so that
// its event source finds it.
func newStacks(app constructs.Construct, s *settings) {
	cluster := localCluster
	if !s.local {
		cluster = newCluster(app, s)
	}
	newConsumer(app, s, cluster)
}

// newConsumer builds the stack of the example function, with its ledger and an audit of its bookings.
func newConsumer(scope constructs.Construct, s *settings, cluster string) {
	st := awscdk.NewStack(scope, jsii.String(s.name+"-consumer"), &awscdk.StackProps{
		Description: jsii.String("idemsk aws-check: consumer and its tables; destroyed at the end of the run"),
	})
	ledger, audit := newTable(st, "Ledger", "account"), newTable(st, "Audit", "execution")
	c := consumer.New(st, "Consumer", consumer.Props{
		Function: consumer.Function{
			Code: s.handler, Architecture: s.architecture,
			// A frozen process is killed after the timeout, and its keys are taken over after the lease. Both
			// are short, so that the check does not wait for long.
			Timeout: 15 * time.Second, LogRetentionDays: 7,
			Environment: map[string]string{
				"IDEMSK_LEDGER_TABLE": *ledger.TableName(), "IDEMSK_SIMULATE": "on", "IDEMSK_AUDIT": "on",
				"IDEMSK_AUDIT_TABLE": *audit.TableName(),
			},
		},
		Cluster: consumer.Cluster{ARN: cluster},
		Source: consumer.Source{Topics: []consumer.Topic{{Name: topic}}, ConsumerGroup: group,
			BatchSize: 100, Pollers: consumer.Pollers{OnDemand: s.onDemand}},
		// Each kill also uses up an attempt of the records that were claimed for the killed invocation.
		Idempotency:   consumer.Idempotency{Lease: 5 * time.Second, MaxAttempts: 10},
		Store:         consumer.Store{DeletionProtection: jsii.Bool(false)},
		RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
	for sid, grant := range map[string]struct{ table, action string }{
		"Ledger": {*ledger.TableArn(), "dynamodb:UpdateItem"}, "Audit": {*audit.TableArn(), "dynamodb:PutItem"},
	} {
		c.Role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{Sid: &sid,
			Actions: jsii.Strings(grant.action), Resources: jsii.Strings(grant.table)}))
	}
	for id, value := range map[string]*string{
		"KeysTable": c.Table.TableName(), "LedgerTable": ledger.TableName(), "AuditTable": audit.TableName(),
		"DeadLetterQueueUrl": c.DeadLetterQueue.QueueUrl(), "FunctionArn": c.Alias.FunctionArn(),
	} {
		output(st, id, value)
	}
}

// newTable adds a table that is destroyed with its stack.
func newTable(st awscdk.Stack, id, key string) awsdynamodb.TableV2 {
	return awsdynamodb.NewTableV2(st, &id, &awsdynamodb.TablePropsV2{
		PartitionKey: &awsdynamodb.Attribute{Name: &key, Type: awsdynamodb.AttributeType_STRING},
		Billing:      awsdynamodb.Billing_OnDemand(nil), RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
}
