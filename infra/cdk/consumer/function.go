package consumer

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscodedeploy"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces/interfacesawscloudwatch"
	"github.com/aws/jsii-runtime-go"
)

// function is a Lambda function of the construct. Its code is a program, unless it has a runtime.
type function struct {
	id, prefix        string // of the function, and of its role and log group
	role, description string // the descriptions of its role and of itself
	code              string
	runtime           awslambda.Runtime
	handler           *string
	timeout           time.Duration
	memoryMB          int
	reserved          *float64
	environment       *map[string]*string
	network           Network
}

// addFunction adds the consumer's function with its alias.
func (c *Consumer) addFunction() {
	p, f := &c.props, &c.props.Function
	added := &function{
		id: "Function", role: "idemsk consumer " + p.Source.ConsumerGroup,
		description: "idemsk: consumes " + p.Source.Topics[0].Name + " as " + p.Source.ConsumerGroup,
		code:        f.Code, timeout: f.Timeout, memoryMB: f.MemoryMB, environment: c.environment(),
		network: p.Network,
	}
	added.runtime, added.handler = p.runtime()
	if f.ReservedConcurrency > 0 {
		added.reserved = jsii.Number(f.ReservedConcurrency)
	}
	c.Role, c.LogGroup, c.Function = c.newFunction(added)
	c.addLayer()
	c.Alias = awslambda.NewAlias(c.Construct, jsii.String("Alias"), &awslambda.AliasProps{
		AliasName: jsii.String("live"), Version: c.Function.CurrentVersion(),
	})
}

// newFunction adds a function, its log group and its role. The role of the CDK would have an AWS managed
// policy that may write every log group of the account.
func (c *Consumer) newFunction(f *function) (awsiam.Role, awslogs.LogGroup, awslambda.Function) {
	p := &c.props
	role := awsiam.NewRole(c.Construct, jsii.String(f.prefix+"Role"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		Description: &f.role,
	})
	logs := awslogs.NewLogGroup(c.Construct, jsii.String(f.prefix+"Logs"), &awslogs.LogGroupProps{
		EncryptionKey: p.EncryptionKey, RemovalPolicy: p.RemovalPolicy,
	})
	// LogGroupProps has an enumeration instead of a number.
	resource, _ := logs.Node().DefaultChild().(awslogs.CfnLogGroup)
	resource.SetRetentionInDays(jsii.Number(p.Function.LogRetentionDays))
	props := &awslambda.FunctionProps{
		Description:                  &f.description,
		Runtime:                      f.runtime,
		Architecture:                 architecture(p.Function.Architecture),
		Handler:                      f.handler,
		Code:                         awslambda.Code_FromAsset(&f.code, nil),
		Role:                         role,
		Timeout:                      seconds(f.timeout),
		MemorySize:                   jsii.Number(f.memoryMB),
		ReservedConcurrentExecutions: f.reserved,
		LogGroup:                     logs,
		LoggingFormat:                awslambda.LoggingFormat_JSON,
		ApplicationLogLevelV2:        logFilter(p.Function.LogLevel),
		Environment:                  f.environment,
		EnvironmentEncryption:        p.EncryptionKey,
		Vpc:                          f.network.VPC,
		VpcSubnets:                   f.network.Subnets,
	}
	if f.runtime == nil {
		props.Runtime, props.Handler = awslambda.Runtime_PROVIDED_AL2023(), jsii.String("bootstrap")
	}
	if len(f.network.SecurityGroups) > 0 {
		props.SecurityGroups = &f.network.SecurityGroups
	}
	if p.Function.Tracing {
		props.Tracing = awslambda.Tracing_ACTIVE
	}
	return role, logs, awslambda.NewFunction(c.Construct, &f.id, props)
}

// grantFunction gives a role the permissions that do not depend on what its function does.
func (c *Consumer) grantFunction(role awsiam.Role, logs awslogs.LogGroup, inVPC bool) {
	allow(role, "Logs", []string{"logs:CreateLogStream", "logs:PutLogEvents"}, *logs.LogGroupArn())
	if c.props.Function.Tracing {
		allow(role, "Tracing", tracingActions, "*")
	}
	if key := c.props.EncryptionKey; key != nil {
		allow(role, "Key", keyActions, *key.KeyArn())
		if c.Table != nil {
			allowVia(role, "KeyOfTables", "dynamodb", tableKeyActions, *key.KeyArn())
		}
	}
	if inVPC {
		allow(role, "NetworkInterfaces", networkInterfaceActions, "*")
		allow(role, "Addresses", addressActions, "*")
	}
}

// logFilter returns Lambda's filter of the function's output, INFO or below: the metrics have no level and
// count as INFO. The function applies the configured level itself.
func logFilter(level string) awslambda.ApplicationLogLevel {
	if level == "DEBUG" {
		return awslambda.ApplicationLogLevel_DEBUG
	}
	return awslambda.ApplicationLogLevel_INFO
}

func architecture(a Architecture) awslambda.Architecture {
	if a == X8664 {
		return awslambda.Architecture_X86_64()
	}
	return awslambda.Architecture_ARM_64()
}

func (c *Consumer) environment() *map[string]*string {
	p := &c.props
	env := p.variables("function")
	env["IDEMSK_TABLE"] = c.tableName()
	env["IDEMSK_DEAD_LETTER_QUEUE_URL"] = *c.DeadLetterQueue.QueueUrl()
	if _, bucket, ok := strings.Cut(p.DeadLetters.BucketARN, ":::"); ok {
		env["IDEMSK_DEAD_LETTER_BUCKET"] = bucket
	}
	if p.wrapped() {
		env[wrapperVariable] = wrapperScript
	}
	if c.Outbox != nil {
		env[outboxVariable] = *c.Outbox.Table.TableName()
	}
	maps.Copy(env, p.Function.Environment)
	return pointers(env)
}

func pointers(env map[string]string) *map[string]*string {
	out := make(map[string]*string, len(env))
	for name, value := range env {
		out[name] = &value
	}
	return &out
}

// environment checks the variables of the user.
func (c *checker) environment() {
	reserved := []string{"IDEMSK_DEAD_LETTER_QUEUE_URL", "IDEMSK_DEAD_LETTER_BUCKET"}
	for _, s := range c.Props.settings() {
		if s.readBy("function") {
			reserved = append(reserved, s.tag.Get("env"))
		}
	}
	if c.Outbox != nil {
		reserved = append(reserved, outboxVariable)
	}
	if c.wrapped() {
		reserved = append(reserved, wrapperVariable)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Function.Environment)) {
		if want := forms["variable"].check(name); want != "" {
			c.fail("Function.Environment", name, "%s", want)
		} else if slices.Contains(reserved, name) {
			c.fail("Function.Environment", name, "other names: the construct sets this one from its own property")
		}
	}
}

func (c *Consumer) tableName() string {
	if c.Table == nil {
		return c.props.Store.Table
	}
	return *c.Table.TableName()
}

// addCanary makes CodeDeploy shift the alias to a new version in steps, and roll back if an alarm rises.
func (c *Consumer) addCanary() {
	if c.props.Function.Canary == CanaryOff {
		return
	}
	alarms := make([]interfacesawscloudwatch.IAlarmRef, 0, len(canaryAlarms))
	for _, name := range canaryAlarms {
		alarms = append(alarms, c.Alarms[name])
	}
	awscodedeploy.NewLambdaDeploymentGroup(c.Construct, jsii.String("Canary"),
		&awscodedeploy.LambdaDeploymentGroupProps{
			Alias:            c.Alias,
			DeploymentConfig: canaryConfig(c.props.Function.Canary),
			Alarms:           &alarms,
			AutoRollback: &awscodedeploy.AutoRollbackConfig{
				FailedDeployment: jsii.Bool(true), StoppedDeployment: jsii.Bool(true),
				DeploymentInAlarm: jsii.Bool(true),
			},
		})
}

func canaryConfig(canary Canary) awscodedeploy.ILambdaDeploymentConfig {
	switch canary {
	case Canary10Percent5:
		return awscodedeploy.LambdaDeploymentConfig_CANARY_10PERCENT_5MINUTES()
	case Canary10Percent15:
		return awscodedeploy.LambdaDeploymentConfig_CANARY_10PERCENT_15MINUTES()
	case CanaryLinear10:
		return awscodedeploy.LambdaDeploymentConfig_LINEAR_10PERCENT_EVERY_1MINUTE()
	case CanaryOff:
	}
	return awscodedeploy.LambdaDeploymentConfig_ALL_AT_ONCE()
}

func seconds(d time.Duration) awscdk.Duration {
	return awscdk.Duration_Seconds(jsii.Number(d.Seconds()))
}
