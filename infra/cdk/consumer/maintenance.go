package consumer

import (
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/lambda/msk"
)

// Maintenance is the function that maintains the store of keys on a schedule.
type Maintenance struct {
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
	a := &auxiliary{
		id: "Maintenance", role: "idemsk maintenance of " + p.ConsumerGroup,
		description: "idemsk: reconciles and prunes the keys of " + p.ConsumerGroup, dir: m.Dir,
		timeout: m.Timeout, memoryMB: m.MemoryMB, environment: c.maintenanceEnvironment(), vpc: p.VPC,
		subnets: p.Subnets,
	}
	if p.VPC != nil {
		a.securityGroups = *c.Function.Connections().SecurityGroups()
	}
	c.Maintenance = &Maintenance{}
	c.Maintenance.Role, c.Maintenance.LogGroup, c.Maintenance.Function = c.addAuxiliary(a)
	c.Maintenance.Function.ConfigureAsyncInvoke(
		&awslambda.EventInvokeConfigOptions{RetryAttempts: jsii.Number(0)})
	c.Maintenance.Reconcile = c.schedule("ReconcileSchedule", "reconcile", m.ReconcileEvery)
	if p.Store == StorePostgres {
		c.Maintenance.Prune = c.schedule("PruneSchedule", "prune", m.PruneEvery)
	}
	c.grantMaintenance()
}

// schedule invokes the maintenance with a task. EventBridge delivers an event again only if Lambda did not
// accept it.
func (c *Consumer) schedule(id, task string, every time.Duration) awsevents.Rule {
	return awsevents.NewRule(c.Construct, &id, &awsevents.RuleProps{
		Description: jsii.String("idemsk: " + task + " the keys of " + c.props.ConsumerGroup),
		Schedule:    awsevents.Schedule_Rate(awscdk.Duration_Minutes(jsii.Number(every.Minutes()))),
		Targets: &[]awsevents.IRuleTarget{awseventstargets.NewLambdaFunction(c.Maintenance.Function,
			&awseventstargets.LambdaFunctionProps{
				Event: awsevents.RuleTargetInput_FromObject(map[string]string{"task": task}),
			})},
	})
}

func (c *Consumer) maintenanceEnvironment() map[string]*string {
	p, m := &c.props, c.props.Maintenance
	env := make(map[string]*string)
	for name, value := range map[string]string{
		"IDEMSK_STORE": string(p.Store), "IDEMSK_TABLE": c.tableName(), "IDEMSK_STORE_URL": p.StoreURL,
		"IDEMSK_STORE_SECRET_ARN": p.StoreSecretARN,
		"IDEMSK_NAMESPACE":        p.Namespace, "IDEMSK_KEY_SCOPE": string(p.KeyScope),
		"IDEMSK_LOG_LEVEL":    p.LogLevel,
		"IDEMSK_EXPORT_FIELD": m.ExportField, "IDEMSK_EXPORT_TOPIC": m.ExportTopic,
	} {
		if value != "" {
			env[name] = &value
		}
	}
	if _, location, ok := strings.Cut(m.ExportBucketARN, ":::"); ok {
		env["IDEMSK_EXPORT"] = jsii.String("s3://" + location)
		env["IDEMSK_EXPORT_COVERS"], env["IDEMSK_EXPORT_LAG"] = jsii.String(short(m.ExportCovers)),
			jsii.String(short(m.ExportLag))
	}
	return env
}

// grantMaintenance lets the function read the store and the exports, and nothing else. What it may do in
// PostgreSQL is up to the user of the secret.
func (c *Consumer) grantMaintenance() {
	p, role := &c.props, c.Maintenance.Role
	if c.Table != nil {
		allow(role, "Table", []string{"dynamodb:Scan"}, *c.Table.TableArn())
	}
	if p.StoreSecretARN != "" {
		allow(role, "StoreSecret", []string{"secretsmanager:GetSecretValue"}, p.StoreSecretARN)
	}
	if p.StoreSecretKeyARN != "" {
		allow(role, "StoreSecretKey", []string{"kms:Decrypt"}, p.StoreSecretKeyARN)
	}
	if arn := p.Maintenance.ExportBucketARN; arn != "" {
		bucket, prefix, _ := strings.Cut(arn, "/")
		allow(role, "Exports", []string{"s3:GetObject"}, bucket+"/"+prefix+"*")
		role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Sid: jsii.String("ExportNames"), Actions: jsii.Strings("s3:ListBucket"),
			Resources:  jsii.Strings(bucket),
			Conditions: &map[string]any{"StringEquals": map[string]any{"s3:prefix": prefix}},
		}))
	}
	c.grantAuxiliary(role, c.Maintenance.LogGroup, p.VPC != nil)
}

// addExportEndpoint adds the endpoint of S3 (free) for the exports.
func (c *Consumer) addExportEndpoint(subnets *awsec2.SubnetSelection) {
	if m := c.props.Maintenance; m != nil && m.ExportBucketARN != "" {
		c.Endpoints["s3"] = awsec2.NewGatewayVpcEndpoint(c.Construct, jsii.String("S3Endpoint"),
			&awsec2.GatewayVpcEndpointProps{
				Vpc: c.props.VPC, Service: awsec2.GatewayVpcEndpointAwsService_S3(),
				Subnets: &[]*awsec2.SubnetSelection{subnets},
			})
	}
}

// maintained returns a metric of the maintenance, Lambda's or its own.
func (c *Consumer) maintained(namespace, name, statistic string) awscloudwatch.Metric {
	return metric(namespace, name, statistic, "FunctionName", c.Maintenance.Function.FunctionName())
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
			short(p.MaxInProgress)), c.maintained(msk.MetricsNamespace, "KeysInProgressAge", maximum),
			float64(p.MaxInProgress.Milliseconds()), 1, 1},
	}
	if m.ExportBucketARN != "" {
		alarms = append(alarms, alarm{AlarmExportDifferences,
			"Keys and the export of business records differed at the last reconciliation.",
			c.maintained(msk.MetricsNamespace, "ExportDifferences", sum), 1, 1, 1})
	}
	return alarms
}

func (c *Consumer) showMaintenance() {
	if c.Maintenance == nil {
		return
	}
	const own, lambda = msk.MetricsNamespace, "AWS/Lambda"
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
