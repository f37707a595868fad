package consumer

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"
)

// auxiliary is a function of this repository beside the consumer's: the relay or the maintenance.
type auxiliary struct {
	id, role, description string // the descriptions of its role and of itself
	dir                   string
	timeout               time.Duration
	memoryMB              int
	environment           map[string]*string
	vpc                   awsec2.IVpc
	subnets               *awsec2.SubnetSelection
	securityGroups        []awsec2.ISecurityGroup
}

// addAuxiliary adds the function, its role and its log group, as addFunction does. It has no alias.
func (c *Consumer) addAuxiliary(a *auxiliary) (awsiam.Role, awslogs.LogGroup, awslambda.Function) {
	p := &c.props
	role := awsiam.NewRole(c.Construct, jsii.String(a.id+"Role"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		Description: &a.role,
	})
	logs := awslogs.NewLogGroup(c.Construct, jsii.String(a.id+"Logs"), &awslogs.LogGroupProps{
		Retention:     logRetention[p.LogRetentionDays],
		EncryptionKey: p.EncryptionKey,
		RemovalPolicy: p.RemovalPolicy,
	})
	props := &awslambda.FunctionProps{
		Description:           &a.description,
		Runtime:               awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:          architecture(p.Architecture),
		Handler:               jsii.String("bootstrap"),
		Code:                  awslambda.Code_FromAsset(&a.dir, nil),
		Role:                  role,
		Timeout:               seconds(a.timeout),
		MemorySize:            jsii.Number(a.memoryMB),
		LogGroup:              logs,
		LoggingFormat:         awslambda.LoggingFormat_JSON,
		ApplicationLogLevelV2: logFilter(p.LogLevel),
		Environment:           &a.environment,
		EnvironmentEncryption: p.EncryptionKey,
		Vpc:                   a.vpc,
		VpcSubnets:            a.subnets,
	}
	if len(a.securityGroups) > 0 {
		props.SecurityGroups = &a.securityGroups
	}
	if p.Tracing {
		props.Tracing = awslambda.Tracing_ACTIVE
	}
	return role, logs, awslambda.NewFunction(c.Construct, &a.id, props)
}

// grantAuxiliary gives the role of an auxiliary function the permissions that do not depend on what it does.
func (c *Consumer) grantAuxiliary(role awsiam.Role, logs awslogs.LogGroup, inVPC bool) {
	allow(role, "Logs", []string{"logs:CreateLogStream", "logs:PutLogEvents"}, *logs.LogGroupArn())
	if c.props.Tracing {
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
