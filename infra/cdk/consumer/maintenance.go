package consumer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/lambda/eventsource"
)

// Maintenance has the settings of a function that maintains the store of keys on a schedule
// (lambda/maintenance). It reports keys that hang or failed, compares keys with an export of business
// records, and prunes keys in PostgreSQL. Its network is that of the consumer's function.
type Maintenance struct {
	// Code is the directory or the .zip file of the program, a file named bootstrap, built for
	// Function.Architecture. Required.
	Code string
	// ReconcileEvery is the time between two reconciliations. Each reads the whole store, which DynamoDB
	// bills by the table's size.
	ReconcileEvery time.Duration `default:"24h" range:"5m to 744h" unit:"1m"`
	// PruneEvery is the time between two deletions of expired keys. StorePostgres only, as DynamoDB and Redis
	// delete such keys themselves.
	PruneEvery time.Duration `default:"1h" range:"5m to 744h" unit:"1m" needs:"postgres"`
	// Export is what the keys are compared with. Default: nothing.
	Export  Export
	Timeout time.Duration `default:"15m" range:"30s to 15m" unit:"1s"`
	// MemoryMB is the function's memory. It holds the keys of an export, about 150 bytes a row.
	MemoryMB int `default:"512" range:"128 to 10240"`
}

// Export is an export of business records. Field, Topic and Covers are the variables
// IDEMSK_EXPORT_FIELD and so on.
type Export struct {
	// BucketARN is the S3 bucket of the exports with the beginning of their names:
	// arn:aws:s3:::NAME/PREFIX. The newest one is compared, see idemsk help reconcile. A customer key of the
	// bucket must admit Maintenance.Role to kms:Decrypt.
	BucketARN string `form:"exportsARN"`
	// Field is the column or JSON member that has the key.
	Field string `default:"idempotencyKey" needs:"export" env:"IDEMSK_EXPORT_FIELD" readers:"maintenance"`
	// Topic is the topic of the export's keys, one of Source.Topics. None with KeyScopeNamespace. Default: the
	// first one.
	Topic string `needs:"export" env:"IDEMSK_EXPORT_TOPIC" readers:"maintenance"`
	// Covers is the time before an export was written whose records it has at least, except those of the last
	// hour. It is also the maximum age of the newest export, and at most Idempotency.Retention.
	Covers time.Duration `default:"25h" range:"61m to 87600h" needs:"export" env:"IDEMSK_EXPORT_COVERS" readers:"maintenance"`
}

// inherit sets the default of Topic.
func (e *Export) inherit(p *Props) {
	if e.BucketARN != "" && p.Idempotency.KeyScope == KeyScopeTopic && len(p.Source.Topics) > 0 {
		setDefault(&e.Topic, p.Source.Topics[0].Name)
	}
}

func (c *checker) maintenance(m *Maintenance) {
	c.program("Maintenance.Code", m.Code, "maintenance", "github.com/idemsk/idemsk/lambda/maintenance")
	e, scope := &m.Export, c.Idempotency.KeyScope
	if e.BucketARN == "" {
		return
	}
	inTopics := slices.ContainsFunc(c.Source.Topics, func(t Topic) bool { return t.Name == e.Topic })
	switch {
	case scope == KeyScopeNamespace && e.Topic != "":
		c.fail("Maintenance.Export.Topic", e.Topic,
			"none with Idempotency.KeyScope namespace: its keys have no topic")
	case scope == KeyScopeTopic && !inTopics:
		c.fail("Maintenance.Export.Topic", e.Topic, "one of Source.Topics")
	}
	if retention := c.Idempotency.Retention; e.Covers > retention {
		c.fail("Maintenance.Export.Covers", e.Covers,
			"at most Idempotency.Retention, %s: older keys are deleted", retention)
	}
}

// MaintenanceResources are the function that maintains the store of keys, and its schedules.
type MaintenanceResources struct {
	Role      awsiam.Role
	LogGroup  awslogs.LogGroup
	Function  awslambda.Function
	Reconcile awsevents.Rule
	Prune     awsevents.Rule // nil unless StorePostgres
}

// addMaintenance adds the function and its schedules. It has the security groups of the consumer's function,
// which the store's server admits already. A failed run is not repeated before the next one, because each
// reads the whole store.
func (c *Consumer) addMaintenance() {
	p, m := &c.props, c.props.Maintenance
	if m == nil {
		return
	}
	network := p.Network
	if network.VPC != nil {
		network.SecurityGroups = *c.Function.Connections().SecurityGroups()
	}
	c.Maintenance = &MaintenanceResources{}
	c.Maintenance.Role, c.Maintenance.LogGroup, c.Maintenance.Function = c.newFunction(&function{
		id: "Maintenance", prefix: "Maintenance", role: "idemsk maintenance of " + p.Source.ConsumerGroup,
		description: "idemsk: reconciles and prunes the keys of " + p.Source.ConsumerGroup, code: m.Code,
		timeout: m.Timeout, memoryMB: m.MemoryMB, environment: c.maintenanceEnvironment(), network: network,
	})
	c.Maintenance.Function.ConfigureAsyncInvoke(
		&awslambda.EventInvokeConfigOptions{RetryAttempts: jsii.Number(0)})
	c.Maintenance.Reconcile = c.schedule("ReconcileSchedule", "reconcile", m.ReconcileEvery)
	if p.Store.Type == StorePostgres {
		c.Maintenance.Prune = c.schedule("PruneSchedule", "prune", m.PruneEvery)
	}
	c.grantMaintenance()
}

// schedule invokes the maintenance with a task. EventBridge delivers an event again only if Lambda did not
// accept it.
func (c *Consumer) schedule(id, task string, every time.Duration) awsevents.Rule {
	return awsevents.NewRule(c.Construct, &id, &awsevents.RuleProps{
		Description: jsii.String("idemsk: " + task + " the keys of " + c.props.Source.ConsumerGroup),
		Schedule:    awsevents.Schedule_Rate(awscdk.Duration_Minutes(jsii.Number(every.Minutes()))),
		Targets: &[]awsevents.IRuleTarget{awseventstargets.NewLambdaFunction(c.Maintenance.Function,
			&awseventstargets.LambdaFunctionProps{
				Event: awsevents.RuleTargetInput_FromObject(map[string]string{"task": task}),
			})},
	})
}

func (c *Consumer) maintenanceEnvironment() *map[string]*string {
	env := c.props.variables("maintenance")
	env["IDEMSK_TABLE"] = c.tableName()
	if _, location, ok := strings.Cut(c.props.Maintenance.Export.BucketARN, ":::"); ok {
		env["IDEMSK_EXPORT"] = "s3://" + location
	}
	return pointers(env)
}

// grantMaintenance lets the function read the store and the exports, and nothing else. What it may do in
// PostgreSQL is up to the user of the secret.
func (c *Consumer) grantMaintenance() {
	p, role := &c.props, c.Maintenance.Role
	if c.Table != nil {
		allow(role, "Table", []string{"dynamodb:Scan"}, *c.Table.TableArn())
	}
	allowSecret(role, "StoreSecret", p.Store.SecretARN, p.Store.SecretKeyARN)
	p.Store.allowLogin(role)
	if arn := p.Maintenance.Export.BucketARN; arn != "" {
		bucket, prefix, _ := strings.Cut(arn, "/")
		allow(role, "Exports", []string{"s3:GetObject"}, bucket+"/"+prefix+"*")
		role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Sid: jsii.String("ExportNames"), Actions: jsii.Strings("s3:ListBucket"),
			Resources:  jsii.Strings(bucket),
			Conditions: &map[string]any{"StringEquals": map[string]any{"s3:prefix": prefix}},
		}))
	}
	c.grantFunction(role, c.Maintenance.LogGroup, p.Network.VPC != nil)
}

// addExportEndpoint adds the endpoint of S3 (free) for the exports.
func (c *Consumer) addExportEndpoint(subnets *awsec2.SubnetSelection) {
	if m := c.props.Maintenance; m != nil && m.Export.BucketARN != "" {
		c.Endpoints["s3"] = awsec2.NewGatewayVpcEndpoint(c.Construct, jsii.String("S3Endpoint"),
			&awsec2.GatewayVpcEndpointProps{
				Vpc: c.props.Network.VPC, Service: awsec2.GatewayVpcEndpointAwsService_S3(),
				Subnets: &[]*awsec2.SubnetSelection{subnets},
			})
	}
}

// maintenanceAlarms return the alarms on the state of the keys. Each run makes one datapoint, so an alarm
// keeps its state between runs.
func (c *Consumer) maintenanceAlarms() []alarm {
	p, m := &c.props, c.props.Maintenance
	if m == nil {
		return nil
	}
	alarms := []alarm{
		{AlarmMaintenance, "The last run of the maintenance failed or was not finished: the keys were not reconciled, or not pruned.",
			c.maintained("AWS/Lambda", "Errors", sum), 1, 1, 1},
		{AlarmKeysInProgress, fmt.Sprintf(
			"A key had been in progress for more than %s at the last reconciliation, whether or not its record is redelivered.",
			short(p.Alarms.MaxInProgress)), c.maintained(eventsource.MetricsNamespace, "KeysInProgressAge", maximum),
			float64(p.Alarms.MaxInProgress.Milliseconds()), 1, 1},
	}
	if m.Export.BucketARN != "" {
		alarms = append(alarms, alarm{AlarmExportDifferences,
			"Keys and the export of business records differed at the last reconciliation.",
			c.maintained(eventsource.MetricsNamespace, "ExportDifferences", sum), 1, 1, 1})
	}
	return alarms
}

func (c *Consumer) showMaintenance() {
	if c.Maintenance == nil {
		return
	}
	const own, lambda = eventsource.MetricsNamespace, "AWS/Lambda"
	c.Dashboard.AddWidgets(
		graph("Maintenance: keys", false, c.maintained(own, "KeysRead", sum),
			c.maintained(own, "KeysOverdue", sum), c.maintained(own, "KeysFailed", sum),
			c.maintained(own, "KeysPruned", sum), c.maintained(own, "ExportRows", sum),
			c.maintained(own, "ExportMatched", sum),
			c.maintained(own, "ExportDifferences", sum)),
		graph("Maintenance: oldest key in progress, ms", false,
			c.maintained(own, "KeysInProgressAge", maximum)),
		graph("Maintenance: runs", false, c.maintained(lambda, "Invocations", sum),
			c.maintained(lambda, "Errors", sum),
			c.maintained(own, "ReconcileUnfinished", sum), c.maintained(own, "ReconcileDuration", maximum)),
	)
}
