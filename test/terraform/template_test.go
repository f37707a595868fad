package terraform_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclwrite"
)

const cluster = "arn:aws:kafka:eu-central-1:111122223333:cluster/payments/6cc0432b-8618-4f44-bccc-e1fbd8fb7c4d-2"

// plain is the module for the same consumer as infra/cdk/testdata/plain.template.json.
func plain(t *testing.T) *module {
	t.Helper()
	return evaluate(t, map[string]string{"code": "payments.zip", "cluster_arn": cluster, "topic": "payments",
		"consumer_group": "payments-ledger"})
}

// template returns the properties of the construct's resources by their names, with references as names.
func template(t *testing.T) map[string]values {
	t.Helper()
	text, err := os.ReadFile("../../infra/cdk/testdata/plain.template.json")
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.ReplaceAll(string(text), "HASH", ""))
	var tpl struct {
		Resources map[string]struct{ Properties values }
	}
	if err := json.Unmarshal(text, &tpl); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]values)
	for name, resource := range tpl.Resources {
		all[name] = named(resource.Properties).(values)
	}
	return all
}

// named puts names in the place of references.
func named(v any) any {
	switch v := v.(type) {
	case []any:
		all := make([]any, 0, len(v))
		for _, one := range v {
			all = append(all, named(one))
		}
		return all
	case values:
		if ref, ok := v["Ref"].(string); ok {
			return ref
		}
		if of, ok := v["Fn::GetAtt"].([]any); ok {
			return of[0].(string) + "." + of[1].(string)
		}
		all := make(values, len(v))
		for name, one := range v {
			all[name] = named(one)
		}
		return all
	}
	return v
}

// at returns a value within others, nil if there is none.
func at(v any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case values:
			v = in[step]
		case []any:
			if len(in) != 1 { // lists that are walked have one element
				return in
			}
			v = in[0].(values)[step]
		default:
			return nil
		}
	}
	return v
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if string(g) != string(w) {
		t.Errorf("%s is %s; want %s", what, g, w)
	}
}

// Each resource of the module has what the construct's has: the property of CloudFormation for each attribute.
func TestModuleIsTheConstruct(t *testing.T) {
	m, construct := plain(t), template(t)
	for address, same := range map[string]struct {
		name       string
		properties map[string]string // of Terraform and of CloudFormation
	}{
		"aws_dynamodb_table.keys": {"ConsumerTable", map[string]string{
			"billing_mode": "BillingMode", "hash_key": "KeySchema.AttributeName",
			"attribute.name": "AttributeDefinitions.AttributeName", "attribute.type": "AttributeDefinitions.AttributeType",
			"ttl.attribute_name": "TimeToLiveSpecification.AttributeName", "ttl.enabled": "TimeToLiveSpecification.Enabled",
			"deletion_protection_enabled":    "Replicas.DeletionProtectionEnabled",
			"point_in_time_recovery.enabled": "Replicas.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled",
			"server_side_encryption.enabled": "SSESpecification.SSEEnabled",
		}},
		"aws_sqs_queue.dead_letters": {"ConsumerDeadLetters", map[string]string{
			"message_retention_seconds": "MessageRetentionPeriod", "sqs_managed_sse_enabled": "SqsManagedSseEnabled"}},
		"aws_cloudwatch_log_group.function": {"ConsumerLogs", map[string]string{"retention_in_days": "RetentionInDays"}},
		"aws_iam_role.function":             {"ConsumerRole", map[string]string{"description": "Description"}},
		"aws_lambda_function.consumer": {"ConsumerFunction", map[string]string{
			"description": "Description", "role": "Role", "runtime": "Runtime", "handler": "Handler",
			"architectures": "Architectures", "timeout": "Timeout", "memory_size": "MemorySize",
			"logging_config.log_format":            "LoggingConfig.LogFormat",
			"logging_config.application_log_level": "LoggingConfig.ApplicationLogLevel",
			"logging_config.log_group":             "LoggingConfig.LogGroup",
		}},
		"aws_lambda_alias.live": {"ConsumerAlias", map[string]string{
			"name": "Name", "function_name": "FunctionName", "function_version": "FunctionVersion"}},
		"aws_lambda_event_source_mapping.topic": {"ConsumerEventSource", map[string]string{
			"function_name": "FunctionName", "event_source_arn": "EventSourceArn", "topics": "Topics",
			"starting_position": "StartingPosition", "batch_size": "BatchSize",
			"maximum_batching_window_in_seconds":                         "MaximumBatchingWindowInSeconds",
			"function_response_types":                                    "FunctionResponseTypes",
			"bisect_batch_on_function_error":                             "BisectBatchOnFunctionError",
			"maximum_retry_attempts":                                     "MaximumRetryAttempts",
			"maximum_record_age_in_seconds":                              "MaximumRecordAgeInSeconds",
			"amazon_managed_kafka_event_source_config.consumer_group_id": "AmazonManagedKafkaEventSourceConfig.ConsumerGroupId",
			"provisioned_poller_config.minimum_pollers":                  "ProvisionedPollerConfig.MinimumPollers",
			"provisioned_poller_config.maximum_pollers":                  "ProvisionedPollerConfig.MaximumPollers",
			"metrics_config.metrics":                                     "MetricsConfig.Metrics",
		}},
	} {
		for attribute, property := range same.properties {
			equal(t, address+"."+attribute, at(m.resources[address], attribute), at(construct[same.name], property))
		}
	}
	env := at(construct["ConsumerFunction"], "Environment.Variables").(values)
	for name, value := range at(m.resources["aws_lambda_function.consumer"], "environment.variables").(values) {
		equal(t, name, value, env[name])
	}
}

// Each alarm of the construct is there, and no other.
func TestModuleHasTheAlarms(t *testing.T) {
	m, construct := plain(t), template(t)
	const address, prefix = "aws_cloudwatch_metric_alarm.alarm.", "ConsumerAlarm"
	for name := range construct {
		if alarm, ok := strings.CutPrefix(name, prefix); ok && m.resources[address+alarm] == nil {
			t.Errorf("the alarm %s is missing", alarm)
		}
	}
	for _, at := range m.addresses() {
		alarm, ok := strings.CutPrefix(at, address)
		if !ok {
			continue
		}
		got, want := m.resources[at], construct[prefix+alarm]
		for attribute, property := range map[string]string{
			"namespace": "Namespace", "metric_name": "MetricName", "statistic": "Statistic", "threshold": "Threshold",
			"datapoints_to_alarm": "DatapointsToAlarm", "evaluation_periods": "EvaluationPeriods", "period": "Period",
			"comparison_operator": "ComparisonOperator", "treat_missing_data": "TreatMissingData",
		} {
			equal(t, alarm+"."+attribute, got[attribute], want[property])
		}
		dimensions := make(values)
		for _, d := range want["Dimensions"].([]any) {
			dimensions[d.(values)["Name"].(string)] = d.(values)["Value"]
		}
		equal(t, alarm+".dimensions", got["dimensions"], dimensions)
	}
}

// permissions are the pairs of action and resource that a policy allows.
func permissions(t *testing.T, policy any) []string {
	t.Helper()
	if text, ok := policy.(string); ok {
		if err := json.Unmarshal([]byte(text), &policy); err != nil {
			t.Fatal(err)
		}
	}
	var pairs []string
	for _, s := range policy.(values)["Statement"].([]any) {
		s := s.(values)
		equal(t, "effect", s["Effect"], "Allow")
		actions, ok := s["Action"].([]any)
		if !ok {
			actions = []any{s["Action"]}
		}
		for _, action := range actions {
			pairs = append(pairs, action.(string)+" "+strings.Replace(s["Resource"].(string), "ConsumerLogs:*", "ConsumerLogs.Arn", 1))
		}
	}
	slices.Sort(pairs)
	return pairs
}

func TestModuleHasThePermissions(t *testing.T) {
	m, construct := plain(t), template(t)
	equal(t, "the permissions", permissions(t, m.resources["aws_iam_role_policy.function"]["policy"]),
		permissions(t, construct["ConsumerRoleDefaultPolicy"]["PolicyDocument"]))
	for address, want := range map[string]any{
		"aws_iam_role.function/assume_role_policy": construct["ConsumerRole"]["AssumeRolePolicyDocument"],
		"aws_sqs_queue_policy.dead_letters/policy": construct["ConsumerDeadLettersPolicy"]["PolicyDocument"],
	} {
		resource, attribute, _ := strings.Cut(address, "/")
		var got any
		if err := json.Unmarshal([]byte(m.resources[resource][attribute].(string)), &got); err != nil {
			t.Fatal(err)
		}
		equal(t, address, got, want)
	}
}

// Terraform refuses what CloudFormation retains.
func TestKeysAndDeadLettersStay(t *testing.T) {
	m := plain(t)
	for _, address := range []string{"aws_dynamodb_table.keys", "aws_sqs_queue.dead_letters"} {
		equal(t, address+" may not be destroyed", at(m.resources[address], "lifecycle.prevent_destroy"), true)
	}
	equal(t, "the log stays", m.resources["aws_cloudwatch_log_group.function"]["skip_destroy"], true)
}

// Variables have the names of the construct's properties, with underscores: batch_size is BatchSize, and
// pollers_min is Min of Pollers.
func TestVariablesAreProperties(t *testing.T) {
	files, err := filepath.Glob("../../infra/cdk/consumer/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("the construct has no files: %v", err)
	}
	// those of the module itself, and properties whose names have a unit, or less than the variable's
	properties := []string{"name", "topic", "memory", "clusterarn", "alarmtopicarn"}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if group, ok := spec.Type.(*ast.StructType); ok {
					for _, field := range group.Fields.List {
						for _, name := range field.Names {
							properties = append(properties, strings.ToLower(name.Name), strings.ToLower(spec.Name.Name+name.Name))
						}
					}
				}
			}
			return true
		})
	}
	for _, variable := range plain(t).variables {
		if !slices.Contains(properties, strings.ReplaceAll(variable, "_", "")) {
			t.Errorf("%s is no property of the construct", variable)
		}
	}
}

// The formatter is that of Terraform. The program itself, if it is there, also knows older forms of expressions.
func TestModuleIsFormatted(t *testing.T) {
	files, err := filepath.Glob(folder + "/*.tf")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no module: %v", folder, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(hclwrite.Format(text), text) {
			t.Errorf("%s is not formatted: run terraform fmt", file)
		}
	}
	if program, err := exec.LookPath("terraform"); err == nil {
		if out, err := exec.CommandContext(t.Context(), program, "fmt", "-check", "-diff", folder).CombinedOutput(); err != nil {
			t.Errorf("terraform fmt: %v\n%s", err, out)
		}
	}
}
