package consumer

import (
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
)

// AddOutputs adds the outputs that docs/operations.md uses to the stack: the names that the commands of idemsk
// take. The pinned parameters and their outputs get short names there too: Namespace, DeployedNamespace and so
// on. A stack can have the outputs of one consumer only.
func (c *Consumer) AddOutputs() {
	c.NamespaceParameter.OverrideLogicalId(jsii.String("Namespace"))
	c.NamespaceOutput.OverrideLogicalId(jsii.String("DeployedNamespace"))
	c.KeyScopeParameter.OverrideLogicalId(jsii.String("KeyScope"))
	c.KeyScopeOutput.OverrideLogicalId(jsii.String("DeployedKeyScope"))
	stack := awscdk.Stack_Of(c.Construct)
	out := func(id, description string, value *string) {
		awscdk.NewCfnOutput(stack, &id, &awscdk.CfnOutputProps{Value: value, Description: &description})
	}
	if c.Table != nil {
		out("TableName", "table of keys", c.Table.TableName())
	}
	out("FunctionName", "function", c.Function.FunctionName())
	out("AliasArn", "what the event sources invoke", c.Alias.FunctionArn())
	out("LogGroupName", "log of the function and of its event sources", c.LogGroup.LogGroupName())
	out("DeadLetterQueueUrl", "records that the function gave up", c.DeadLetterQueue.QueueUrl())
	for i, source := range c.EventSources {
		out("EventSource"+strconv.Itoa(i+1), "event source mapping of topic "+c.props.Source.Topics[i].Name, source.Ref())
	}
	if o := c.Outbox; o != nil {
		out("OutboxTableName", "table of published events", o.Table.TableName())
		out("RelayFunctionName", "function that sends them to Kafka", o.Relay.FunctionName())
		out("RelayLogGroupName", "its log", o.LogGroup.LogGroupName())
		out("RelayEventSource", "event source mapping of the table's stream", o.EventSource.Ref())
	}
	if m := c.Maintenance; m != nil {
		out("MaintenanceFunctionName", "function that reconciles and prunes keys", m.Function.FunctionName())
		out("MaintenanceLogGroupName", "its log", m.LogGroup.LogGroupName())
	}
	if c.OnFailureQueue != nil {
		out("OnFailureQueueUrl", "batches that the event sources gave up", c.OnFailureQueue.QueueUrl())
	}
}
