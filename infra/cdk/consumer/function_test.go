package consumer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
)

const (
	function    = "AWS::Lambda::Function"
	eventSource = "AWS::Lambda::EventSourceMapping"
	alias       = "AWS::Lambda::Alias"
)

// variables returns the function's environment.
func variables(t *testing.T, tpl template) values {
	t.Helper()
	return at(t, tpl.one(t, function), "Environment", "Variables").(values)
}

// config reads the environment as the function does, with something in place of what only CloudFormation
// knows.
func config(t *testing.T, tpl template) lambda.Config {
	t.Helper()
	env := variables(t, tpl)
	vars := app.NewVars(func(name string) (string, bool) {
		value, ok := env[name]
		if _, isRef := value.(values); isRef {
			if name == "IDEMSK_DEAD_LETTER_QUEUE_URL" {
				return "https://sqs.eu-central-1.amazonaws.com/111122223333/queue", true
			}
			return "reference", true
		}
		return fmt.Sprint(value), ok
	})
	cfg := lambda.ReadConfig(vars)
	if err := vars.Err(); err != nil {
		t.Fatalf("the function would refuse its environment: %v", err)
	}
	return cfg
}

func TestFunction(t *testing.T) {
	tpl := synthesise(t, plain(t))
	f := tpl.one(t, function)
	equal(t, "runtime", f["Runtime"], "provided.al2023")
	equal(t, "architecture", f["Architectures"], []string{"arm64"})
	equal(t, "timeout", f["Timeout"], 60)
	equal(t, "memory", f["MemorySize"], 512)
	equal(t, "reserved concurrency", f["ReservedConcurrentExecutions"], nil)
	equal(t, "tracing", f["TracingConfig"], nil)
	equal(t, "VPC", f["VpcConfig"], nil)
	equal(t, "log", f["LoggingConfig"], values{"ApplicationLogLevel": "INFO", "LogFormat": "JSON",
		"LogGroup": tpl.ref(t, "ConsumerLogs")})
	group := tpl.one(t, "AWS::Logs::LogGroup")
	equal(t, "log retention", group["RetentionInDays"], 30)
	equal(t, "alias", tpl.one(t, alias)["Name"], "live")
	equal(t, "versions", len(tpl.of("AWS::Lambda::Version")), 1)
	equal(t, "the alias's version", at(t, tpl.one(t, alias), "FunctionVersion", "Fn::GetAtt", 1), "Version")
	equal(t, "deployment groups", len(tpl.of("AWS::CodeDeploy::DeploymentGroup")), 0)

	cfg := config(t, tpl)
	equal(t, "store", cfg.Store, "dynamodb")
	equal(t, "table", variables(t, tpl)["IDEMSK_TABLE"], tpl.ref(t, "ConsumerTable"))
	equal(t, "namespace", cfg.Records.Namespace, "payments-ledger")
	equal(t, "failures", cfg.Failures, eventsource.FailPartial)
	equal(t, "engine", cfg.Engine, idem.Config{
		Lease: idem.Defaults().Lease, Retention: idem.Defaults().Retention,
		MaxAttempts: idem.Defaults().MaxAttempts,
		RetryDelay:  idem.Defaults().RetryDelay, OutageFailures: idem.Defaults().OutageFailures,
		MaxResult: idem.Defaults().MaxResult, DeadlineMargin: idem.Defaults().DeadlineMargin,
		CommitWindow: idem.Defaults().CommitWindow,
	})
}

func TestFunctionProperties(t *testing.T) {
	tpl := synthesise(t, plain(t, func(p *props) {
		p.Function.Architecture = "x86_64"
		p.Function.Timeout = 5 * time.Minute
		p.Function.MemoryMB = 1024
		p.Function.ReservedConcurrency = 20
		p.Function.Tracing = true
		p.Function.LogLevel = "WARN"
		p.Function.LogRetentionDays = 90
		p.Idempotency.Namespace = "ledger"
		p.Idempotency.Key = "json:$.id,$.account"
		p.Idempotency.Fingerprint = "none"
		p.Idempotency.Order = "key"
		p.Idempotency.MissingKey = "process"
		p.Idempotency.KeyScope = "namespace"
		p.Idempotency.StoreDown = "open"
		p.Idempotency.HashKeys = true
		p.Idempotency.Concurrency = 64
		p.Idempotency.Lease = time.Minute + 30*time.Second
		p.Idempotency.MaxClockSkew = 250 * time.Millisecond
		p.Idempotency.Wait = new(time.Duration(0))
		p.Idempotency.Retention = 336 * time.Hour
		p.Idempotency.MaxAttempts = 3
		p.Idempotency.RetryDelay = new(time.Duration(0))
		p.Idempotency.OutageFailures = new(0)
		p.Idempotency.OutageLimit = 12 * time.Hour
		p.Idempotency.MaxResult = new(0)
		p.Idempotency.DeadlineMargin = time.Second
		p.Idempotency.Batching = "off"
		p.Idempotency.CommitWindow = 16
		p.Function.Environment = map[string]string{"BANK_URL": "https://bank.example"}
		p.keyed = true
	}))
	f := tpl.one(t, function)
	equal(t, "architecture", f["Architectures"], []string{"x86_64"})
	equal(t, "timeout", f["Timeout"], 300)
	equal(t, "memory", f["MemorySize"], 1024)
	equal(t, "reserved concurrency", f["ReservedConcurrentExecutions"], 20)
	equal(t, "tracing", at(t, f, "TracingConfig", "Mode"), "Active")
	equal(t, "log level", at(t, f, "LoggingConfig", "ApplicationLogLevel"), "INFO") // the metrics must pass
	equal(t, "the function's own level", variables(t, tpl)["IDEMSK_LOG_LEVEL"], "WARN")
	equal(t, "log retention", tpl.one(t, "AWS::Logs::LogGroup")["RetentionInDays"], 90)
	equal(t, "log key", tpl.one(t, "AWS::Logs::LogGroup")["KmsKeyId"], kmsKey)
	equal(t, "key of the environment", f["KmsKeyArn"], kmsKey)
	equal(t, "a variable of the handler's own", variables(t, tpl)["BANK_URL"], "https://bank.example")

	cfg := config(t, tpl)
	equal(t, "namespace", cfg.Records.Namespace, "ledger")
	equal(t, "order", cfg.Records.Order, kafka.ByKey)
	equal(t, "missing key", cfg.Records.MissingKey, kafka.Process)
	equal(t, "concurrency", cfg.Records.Concurrency, 64)
	equal(t, "skew", cfg.MaxClockSkew, 250*time.Millisecond)
	equal(t, "key and fingerprint", []any{variables(t, tpl)["IDEMSK_KEY"],
		variables(t, tpl)["IDEMSK_FINGERPRINT"]}, []string{"json:$.id,$.account", "none"})
	equal(t, "engine", cfg.Engine, idem.Config{
		Lease: 90 * time.Second, Retention: 336 * time.Hour, MaxAttempts: 3, RetryDelay: -1,
		OutageFailures: -1, OutageLimit: 12 * time.Hour,
		MaxResult: -1, DeadlineMargin: time.Second, Wait: -1,
		HashKeys: true, FailOpen: true, CommitWindow: 16, Unbatched: true,
	})
}

func TestCanary(t *testing.T) {
	tpl := synthesise(t, plain(t, func(p *props) { p.Function.Canary = "10-percent-5-minutes" }))
	group := tpl.one(t, "AWS::CodeDeploy::DeploymentGroup")
	equal(t, "configuration", group["DeploymentConfigName"],
		"CodeDeployDefault.LambdaCanary10Percent5Minutes")
	equal(t, "rollback", group["AutoRollbackConfiguration"], values{
		"Enabled": true, "Events": []string{"DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_REQUEST",
			"DEPLOYMENT_STOP_ON_ALARM"},
	})
	equal(t, "alarms", at(t, group, "AlarmConfiguration", "Alarms"), []values{
		{"Name": tpl.ref(t, "ConsumerAlarmErrors")}, {"Name": tpl.ref(t, "ConsumerAlarmCompletionFailed")},
		{"Name": tpl.ref(t, "ConsumerAlarmDeadLettered")},
		{"Name": tpl.ref(t, "ConsumerAlarmHandlerDown")},
	})
	// What is up for as long as dead letters wait would take back the very version that they could be
	// redriven to.
	for id, a := range tpl.of(alarm) {
		if strings.Contains(text(at(t, group, "AlarmConfiguration", "Alarms")), id) {
			equal(t, id+": is it a queue's", a["Namespace"] == "AWS/SQS", false)
		}
	}
	equal(t, "the alias is moved by CodeDeploy",
		at(t, tpl["Resources"], tpl.id(t, "ConsumerAlias"), "UpdatePolicy",
			"CodeDeployLambdaAliasUpdate") != nil, true)
}

func TestFunctionInAVPC(t *testing.T) {
	network := func(p *props) { p.subnets, p.Function.Tracing = 2, true }
	tpl := synthesise(t, plain(t, network, func(p *props) { p.VPCEndpoints = true }))
	f := tpl.one(t, function)
	equal(t, "subnets", at(t, f, "VpcConfig", "SubnetIds"),
		[]string{"subnet-0123456789abcdef0", "subnet-0123456789abcdef1"})
	equal(t, "security groups", at(t, f, "VpcConfig", "SecurityGroupIds"), []string{"sg-0123456789abcdef0"})
	kinds := make(map[string]string)
	for _, endpoint := range tpl.of("AWS::EC2::VPCEndpoint") {
		kinds[service(endpoint["ServiceName"])], _ = endpoint["VpcEndpointType"].(string)
	}
	equal(t, "endpoints", kinds, map[string]string{"dynamodb": "Gateway", "sqs": "Interface",
		"xray": "Interface"})
	for id, rule := range tpl.of("AWS::EC2::SecurityGroupIngress") {
		equal(t, id+": from", rule["SourceSecurityGroupId"], "sg-0123456789abcdef0")
		equal(t, id+": port", rule["ToPort"], 443)
	}
	for id, group := range tpl.of("AWS::EC2::SecurityGroup") {
		equal(t, id+": open to", group["SecurityGroupIngress"], nil)
	}

	equal(t, "endpoints, if not wanted", len(synthesise(t, plain(t, network)).of("AWS::EC2::VPCEndpoint")), 0)
}

// service returns the service that an endpoint is for.
func service(name any) string {
	if m, ok := name.(values); ok {
		// {"Fn::Join": ["", ["com.amazonaws.", {"Ref": "AWS::Region"}, ".dynamodb"]]}
		parts := m["Fn::Join"].([]any)[1].([]any)
		name = parts[len(parts)-1]
	}
	s := name.(string)
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '.' {
			return s[i+1:]
		}
	}
	return s
}
