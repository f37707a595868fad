package main

import (
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// stack is the only stack of the app.
type stack struct {
	awscdk.Stack
	consumer *consumer.Consumer
}

// newStack builds the stack from checked settings.
func newStack(scope constructs.Construct, s *settings) *stack {
	st := &stack{Stack: awscdk.NewStack(scope, &s.StackName, &awscdk.StackProps{
		Description:           ref("idemsk: idempotent consumer of Kafka topic " + s.Source.Topics[0].Name),
		TerminationProtection: &s.TerminationProtection,
		Env:                   s.environment(),
	})}
	props := s.Props
	props.Network = s.importNetwork(st)
	if s.KMSKeyARN != "" {
		props.EncryptionKey = importKey(st, s.KMSKeyARN)
	}
	if s.AlarmTopicARN != "" {
		props.Alarms.Topic = importTopic(st, s.AlarmTopicARN)
	}
	var ledger *ledger
	if s.Example == exampleLedger && s.onDynamoDB() {
		// these stores keep the ledger in the same database
		ledger = newLedger(st, &props)
	}
	st.consumer = consumer.New(st.Stack, "Consumer", props)
	if ledger != nil {
		ledger.grant(st.consumer)
	}
	st.addOutputs()
	return st
}

// environment returns the stack's environment. By default the credentials determine it. A table with a
// customer key needs the region at synthesis, so the region is then that of the key.
func (s *settings) environment() *awscdk.Environment {
	if s.KMSKeyARN == "" {
		return nil
	}
	return &awscdk.Environment{Region: ref(strings.Split(s.KMSKeyARN, ":")[3])}
}

// addOutputs adds the outputs that an operator needs for idemsk get, list and redrive, and for the next
// deployment.
func (st *stack) addOutputs() {
	c := st.consumer
	c.NamespaceParameter.OverrideLogicalId(ref("Namespace"))
	c.NamespaceOutput.OverrideLogicalId(ref("DeployedNamespace"))
	c.KeyScopeParameter.OverrideLogicalId(ref("KeyScope"))
	c.KeyScopeOutput.OverrideLogicalId(ref("DeployedKeyScope"))
	out := func(id, description string, value *string) {
		awscdk.NewCfnOutput(st.Stack, &id, &awscdk.CfnOutputProps{Value: value, Description: &description})
	}
	if c.Table != nil {
		out("TableName", "table of keys", c.Table.TableName())
	}
	out("FunctionName", "function", c.Function.FunctionName())
	out("AliasArn", "what the event sources invoke", c.Alias.FunctionArn())
	out("LogGroupName", "log of the function and of its event sources", c.LogGroup.LogGroupName())
	out("DeadLetterQueueUrl", "records that the function gave up", c.DeadLetterQueue.QueueUrl())
	for i, source := range c.EventSources {
		out(fmt.Sprintf("EventSource%d", i+1), "event source mapping of topic "+c.Props().Source.Topics[i].Name,
			source.Ref())
	}
	if c.Outbox != nil {
		out("OutboxTableName", "table of published events", c.Outbox.Table.TableName())
		out("RelayFunctionName", "function that sends them to Kafka", c.Outbox.Relay.FunctionName())
		out("RelayLogGroupName", "its log", c.Outbox.LogGroup.LogGroupName())
		out("RelayEventSource", "event source mapping of the table's stream", c.Outbox.EventSource.Ref())
	}
	if c.Maintenance != nil {
		out("MaintenanceFunctionName", "function that reconciles and prunes keys",
			c.Maintenance.Function.FunctionName())
		out("MaintenanceLogGroupName", "its log", c.Maintenance.LogGroup.LogGroupName())
	}
	if c.OnFailureQueue != nil {
		out("OnFailureQueueUrl", "batches that the event sources gave up", c.OnFailureQueue.QueueUrl())
	}
}

func ref[T any](v T) *T { return &v }
