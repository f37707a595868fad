package consumer

import (
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
)

// Consumer is a deployed consumer. Its fields are the constructs that it is made of, to grant on or to build upon.
type Consumer struct {
	constructs.Construct

	Table           awsdynamodb.TableV2 // nil unless StoreDynamoDB
	Role            awsiam.Role         // of the function and its event sources
	LogGroup        awslogs.LogGroup
	Function        awslambda.Function
	Alias           awslambda.Alias                   // what the event sources invoke
	DeadLetterQueue awssqs.Queue                      // the records that the function gave up
	OnFailureQueue  awssqs.Queue                      // what the event sources gave up; nil unless OnFailure.Queue
	EventSources    []awslambda.CfnEventSourceMapping // one for each topic, in their order
	Endpoints       map[string]awsec2.IVpcEndpoint    // by service; empty unless Props.Endpoints
	Outbox          *Outbox                           // nil unless Props.Outbox
	AlarmTopic      awssns.ITopic                     // nil if nobody is to be told
	Alarms          map[string]awscloudwatch.Alarm    // by name, see alarms.go
	Dashboard       awscloudwatch.Dashboard

	// NamespaceParameter and KeyScopeParameter pin what keys mean; see pinned.go. The outputs tell the deployed values.
	NamespaceParameter, KeyScopeParameter awscdk.CfnParameter
	NamespaceOutput, KeyScopeOutput       awscdk.CfnOutput

	props Props // with defaults
}

// New adds a consumer to a stack. It panics with the error of Check if the props are wrong, as the CDK's own constructs do:
// whoever wants to report the error calls Check first.
func New(scope constructs.Construct, id string, props *Props) *Consumer {
	if err := Check(*props); err != nil {
		panic(err)
	}
	c := &Consumer{Construct: constructs.NewConstruct(scope, &id), props: props.withDefaults()}
	c.admitServices()
	c.addTable()
	c.addDeadLetters()
	c.addOutbox()
	c.addFunction()
	c.addNetwork()
	c.addEventSources()
	c.grant()
	c.grantOutbox()
	c.addAlarms()
	c.addCanary()
	c.addDashboard()
	c.pinKeys()
	return c
}

// Props returns the props, with the defaults in their places.
func (c *Consumer) Props() Props { return c.props }

// alarmNames returns the names of the alarms there are, in alphabetical order.
func (c *Consumer) alarmNames() []string { return slices.Sorted(maps.Keys(c.Alarms)) }

// suffix makes the IDs of what exists once a topic: the first one's have none, so that a topic that is added changes no
// other's.
func (c *Consumer) suffix(i int) string {
	if i == 0 {
		return ""
	}
	return "-" + c.props.Topics[i].Name
}
