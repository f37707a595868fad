package consumer

import (
	"maps"
	"strconv"
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

// addFunction adds the function, its log group and its role. The role of the CDK would have an AWS managed
// policy that may write every log group of the account.
func (c *Consumer) addFunction() {
	p := &c.props
	c.Role = awsiam.NewRole(c.Construct, jsii.String("Role"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		Description: jsii.String("idemsk consumer " + p.ConsumerGroup),
	})
	c.LogGroup = awslogs.NewLogGroup(c.Construct, jsii.String("Logs"), &awslogs.LogGroupProps{
		Retention:     logRetention[p.LogRetentionDays],
		EncryptionKey: p.EncryptionKey,
		RemovalPolicy: p.RemovalPolicy,
	})
	runtime, handler := p.runtime()
	props := &awslambda.FunctionProps{
		Description:           jsii.String("idemsk: consumes " + p.Topics[0].Name + " as " + p.ConsumerGroup),
		Runtime:               runtime,
		Architecture:          architecture(p.Architecture),
		Handler:               handler,
		Code:                  awslambda.Code_FromAsset(&p.CodeDir, nil),
		Role:                  c.Role,
		Timeout:               seconds(p.Timeout),
		MemorySize:            jsii.Number(p.MemoryMB),
		LogGroup:              c.LogGroup,
		LoggingFormat:         awslambda.LoggingFormat_JSON,
		ApplicationLogLevelV2: logFilter(p.LogLevel),
		Environment:           c.environment(),
		EnvironmentEncryption: p.EncryptionKey,
		Vpc:                   p.VPC,
		VpcSubnets:            p.Subnets,
	}
	if p.ReservedConcurrency > 0 {
		props.ReservedConcurrentExecutions = jsii.Number(p.ReservedConcurrency)
	}
	if len(p.SecurityGroups) > 0 {
		props.SecurityGroups = &p.SecurityGroups
	}
	if p.Tracing {
		props.Tracing = awslambda.Tracing_ACTIVE
	}
	c.Function = awslambda.NewFunction(c.Construct, jsii.String("Function"), props)
	c.addLayer()
	c.Alias = awslambda.NewAlias(c.Construct, jsii.String("Alias"), &awslambda.AliasProps{
		AliasName: jsii.String("live"), Version: c.Function.CurrentVersion(),
	})
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

// environment returns the function's variables, including those with default values. So the deployed values
// are visible in one place, and a changed default does not change a deployment.
func (c *Consumer) environment() *map[string]*string {
	p := &c.props
	env := map[string]string{
		"IDEMSK_STORE":                 string(p.Store),
		"IDEMSK_TABLE":                 c.tableName(),
		"IDEMSK_NAMESPACE":             p.Namespace,
		"IDEMSK_KEY_SCOPE":             string(p.KeyScope),
		"IDEMSK_KEY":                   p.Key,
		"IDEMSK_FINGERPRINT":           p.Fingerprint,
		"IDEMSK_HASH_KEYS":             strconv.FormatBool(p.HashKeys),
		"IDEMSK_MISSING_KEY":           p.MissingKey,
		"IDEMSK_BATCHING":              onOff(!p.Unbatched),
		"IDEMSK_CLAIM":                 string(p.Claim),
		"IDEMSK_COMMIT_WINDOW":         strconv.Itoa(p.CommitWindow),
		"IDEMSK_LEASE":                 short(p.Lease),
		"IDEMSK_MAX_CLOCK_SKEW":        short(p.MaxClockSkew),
		"IDEMSK_WAIT":                  p.wait(),
		"IDEMSK_MAX_RESULT":            strconv.Itoa(max(0, p.MaxResult)),
		"IDEMSK_DEADLINE_MARGIN":       short(p.DeadlineMargin),
		"IDEMSK_RETENTION":             short(p.Retention),
		"IDEMSK_MAX_ATTEMPTS":          strconv.Itoa(p.MaxAttempts),
		"IDEMSK_RETRY_DELAY":           short(max(0, p.RetryDelay)),
		"IDEMSK_OUTAGE_FAILURES":       p.outageFailures(),
		"IDEMSK_OUTAGE_LIMIT":          short(p.OutageLimit),
		"IDEMSK_FAILURES":              string(p.Failures),
		"IDEMSK_DEAD_LETTER_QUEUE_URL": *c.DeadLetterQueue.QueueUrl(),
		"IDEMSK_STORE_DOWN":            p.StoreDown,
		"IDEMSK_LOG_LEVEL":             p.LogLevel,
	}
	if p.wrapped() {
		env[wrapperVariable] = wrapperScript
	} else {
		env["IDEMSK_ORDER"], env["IDEMSK_CONCURRENCY"] = p.Order, strconv.Itoa(p.Concurrency)
	}
	if c.Outbox != nil {
		env[outboxVariable] = *c.Outbox.Table.TableName()
	}
	_, bucket, _ := strings.Cut(p.DeadLetterBucketARN, ":::")
	for name, value := range map[string]string{
		"IDEMSK_STORE_URL": p.StoreURL, "IDEMSK_STORE_SECRET_ARN": p.StoreSecretARN,
		"IDEMSK_DEAD_LETTER_BUCKET": bucket,
	} {
		if value != "" {
			env[name] = value
		}
	}
	maps.Copy(env, p.Environment)
	out := make(map[string]*string, len(env))
	for name, value := range env {
		out[name] = &value
	}
	return &out
}

func (c *Consumer) tableName() string {
	if c.Table == nil {
		return c.props.StoreTable
	}
	return *c.Table.TableName()
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func (p *Props) wait() string {
	switch {
	case p.Wait == 0:
		return "deadline"
	case p.Wait < 0:
		return "0"
	}
	return short(p.Wait)
}

func (p *Props) outageFailures() string {
	if p.OutageFailures < 0 {
		return "off"
	}
	return strconv.Itoa(p.OutageFailures)
}

// addCanary makes CodeDeploy shift the alias to a new version in steps, and roll back if an alarm rises.
func (c *Consumer) addCanary() {
	if c.props.Canary == CanaryOff {
		return
	}
	alarms := make([]interfacesawscloudwatch.IAlarmRef, 0, len(canaryAlarms))
	for _, name := range canaryAlarms {
		alarms = append(alarms, c.Alarms[name])
	}
	awscodedeploy.NewLambdaDeploymentGroup(c.Construct, jsii.String("Canary"),
		&awscodedeploy.LambdaDeploymentGroupProps{
			Alias:            c.Alias,
			DeploymentConfig: canaryConfig(c.props.Canary),
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

// logRetention are the retention periods in days that CloudWatch Logs supports.
var logRetention = map[int]awslogs.RetentionDays{
	1: awslogs.RetentionDays_ONE_DAY, 3: awslogs.RetentionDays_THREE_DAYS, 5: awslogs.RetentionDays_FIVE_DAYS,
	7: awslogs.RetentionDays_ONE_WEEK, 14: awslogs.RetentionDays_TWO_WEEKS,
	30: awslogs.RetentionDays_ONE_MONTH,
	60: awslogs.RetentionDays_TWO_MONTHS, 90: awslogs.RetentionDays_THREE_MONTHS,
	120: awslogs.RetentionDays_FOUR_MONTHS,
	150: awslogs.RetentionDays_FIVE_MONTHS, 180: awslogs.RetentionDays_SIX_MONTHS,
	365: awslogs.RetentionDays_ONE_YEAR,
	400: awslogs.RetentionDays_THIRTEEN_MONTHS, 545: awslogs.RetentionDays_EIGHTEEN_MONTHS,
	731:  awslogs.RetentionDays_TWO_YEARS,
	1096: awslogs.RetentionDays_THREE_YEARS, 1827: awslogs.RetentionDays_FIVE_YEARS,
	2192: awslogs.RetentionDays_SIX_YEARS,
	2557: awslogs.RetentionDays_SEVEN_YEARS, 2922: awslogs.RetentionDays_EIGHT_YEARS,
	3288: awslogs.RetentionDays_NINE_YEARS,
	3653: awslogs.RetentionDays_TEN_YEARS,
}
