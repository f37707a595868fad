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

// Consumer is a deployed consumer. Its fields are its constructs, for grants and extensions.
type Consumer struct {
	constructs.Construct

	Table           awsdynamodb.TableV2 // nil unless StoreDynamoDB
	Role            awsiam.Role         // of the function and its event sources
	LogGroup        awslogs.LogGroup
	Function        awslambda.Function
	Layer           awslambda.LayerVersion // nil with ProvidedAL2023
	Alias           awslambda.Alias        // invoked by the event sources
	DeadLetterQueue awssqs.Queue           // records that the function gave up
	// batches that the event sources gave up; nil unless OnFailure.Queue
	OnFailureQueue awssqs.Queue
	EventSources   []awslambda.CfnEventSourceMapping // one for each topic, in the order of Topics
	Endpoints      map[string]awsec2.IVpcEndpoint    // by service; empty unless Props.VPCEndpoints
	Outbox         *OutboxResources                  // nil unless Props.Outbox
	Maintenance    *MaintenanceResources             // nil unless Props.Maintenance
	AlarmTopic     awssns.ITopic                     // nil without Props.Alarms.Topic and Email
	Alarms         map[string]awscloudwatch.Alarm    // by name, see alarms.go
	Dashboard      awscloudwatch.Dashboard

	// NamespaceParameter and KeyScopeParameter prevent an accidental change of the keys' meaning; see
	// pinned.go. The outputs contain the deployed values.
	NamespaceParameter, KeyScopeParameter awscdk.CfnParameter
	NamespaceOutput, KeyScopeOutput       awscdk.CfnOutput

	props Props // with defaults
}

// New adds a consumer to a stack. If the props are invalid, it panics with the error of Check, as the CDK's
// own constructs do. Call Check first to report the error.
func New(scope constructs.Construct, id string, props Props) *Consumer {
	if err := Check(props); err != nil {
		panic(err)
	}
	c := &Consumer{Construct: constructs.NewConstruct(scope, &id), props: props.withDefaults()}
	c.admitServices()
	c.addTable()
	c.addDeadLetters()
	c.addOutbox()
	c.addFunction()
	c.addMaintenance()
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

// Props returns the props with their defaults.
func (c *Consumer) Props() Props { return c.props }

// alarmNames returns the names of the alarms in alphabetical order.
func (c *Consumer) alarmNames() []string { return slices.Sorted(maps.Keys(c.Alarms)) }

// suffix returns the suffix of the IDs of a topic's constructs. The first topic has none, so that adding a
// topic changes no other IDs.
func (c *Consumer) suffix(i int) string {
	if i == 0 {
		return ""
	}
	return "-" + c.props.Source.Topics[i].Name
}
