package consumer_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/cloudformationinclude"
	"github.com/aws/jsii-runtime-go"
)

// block returns the one block of a language in a document.
func block(t *testing.T, document, language string) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/" + document)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)\n```"+language+"\n(.*?)\n```\n").FindAllStringSubmatch(string(text), -1)
	if len(found) != 1 {
		t.Fatalf("%s has %d blocks of %s; want 1", document, len(found), language)
	}
	return found[0][1]
}

// included returns the template that the CDK reads from a text.
func included(t *testing.T, text string) template {
	t.Helper()
	path := filepath.Join(t.TempDir(), "template.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir()),
		AnalyticsReporting: jsii.Bool(false), TreeMetadata: jsii.Bool(false)})
	st := awscdk.NewStack(app, jsii.String("document"), nil)
	cloudformationinclude.NewCfnInclude(st, jsii.String("Template"),
		&cloudformationinclude.CfnIncludeProps{TemplateFile: &path})
	return templateOf(t, st)
}

// permissions are the pairs of action and resource in statements, the resources as named says.
func permissions(t *testing.T, statements []any, named func(resource any) string) []string {
	t.Helper()
	pairs := make(map[string]bool)
	for _, s := range statements {
		equal(t, "effect", at(t, s, "Effect"), "Allow")
		equal(t, "condition", at(t, s, "Condition"), nil)
		for _, action := range listed(at(t, s, "Action")) {
			for _, resource := range listed(at(t, s, "Resource")) {
				pairs[action.(string)+" "+named(resource)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(pairs))
}

// wanted are the permissions that the construct gives.
func wanted(t *testing.T) []string {
	t.Helper()
	var all []any
	for _, policy := range synthesise(t, plain(t)).of("AWS::IAM::Policy") {
		all = append(all, at(t, policy, "PolicyDocument", "Statement").([]any)...)
	}
	return permissions(t, all, arnOf)
}

// The policy to be copied is the one of the construct: nothing is missing, and nothing is more.
func TestPolicyWithoutCDK(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/cloudformation/policy.json")
	if err != nil {
		t.Fatal(err)
	}
	var policy values
	if err := json.Unmarshal(text, &policy); err != nil {
		t.Fatal(err)
	}
	filledIn := strings.NewReplacer(
		"arn:aws:dynamodb:REGION:ACCOUNT:table/TABLE", "ConsumerTable.Arn",
		"arn:aws:sqs:REGION:ACCOUNT:DEAD_LETTERS", "ConsumerDeadLetters.Arn",
		"arn:aws:logs:REGION:ACCOUNT:log-group:LOG_GROUP:*", "ConsumerLogs.Arn",
		"REGION", "eu-central-1", "ACCOUNT", "111122223333", "CLUSTER/ID", clusterName, "TOPIC", "payments",
		"GROUP", "payments-ledger",
	)
	named := func(resource any) string { return filledIn.Replace(resource.(string)) }
	equal(t, "version", policy["Version"], "2012-10-17")
	equal(t, "the permissions", permissions(t, policy["Statement"].([]any), named), wanted(t))
}

const clusterName = "payments/6cc0432b-8618-4f44-bccc-e1fbd8fb7c4d-2"

// replaced is a value of a template with others in the place of references.
func replaced(v any, reference func(values) any) any {
	switch v := v.(type) {
	case []any:
		all := make([]any, 0, len(v))
		for _, one := range v {
			all = append(all, replaced(one, reference))
		}
		return all
	case values:
		if other := reference(v); other != nil {
			return other
		}
		all := make(values, len(v))
		for name, one := range v {
			all[name] = replaced(one, reference)
		}
		return all
	}
	return v
}

// resolved is a value of the written template, with what the construct has in the place of references.
func resolved(v any) any {
	return replaced(v, func(v values) any {
		ref, _ := v["Ref"].(string)
		get, _ := v["Fn::GetAtt"].(string)
		sub, _ := v["Fn::Sub"].(string)
		parameters := map[string]string{"Topic": "payments", "ConsumerGroup": "payments-ledger"}
		switch {
		case parameters[ref] != "":
			return parameters[ref]
		case ref+get != "":
			return "Consumer" + ref + get
		case sub != "":
			return strings.NewReplacer("${AWS::Partition}", "aws", "${AWS::Region}", "eu-central-1",
				"${AWS::AccountId}", "111122223333", "${Cluster}", clusterName, "${Topic}", "payments",
				"${ConsumerGroup}", "payments-ledger").Replace(sub)
		}
		return nil
	})
}

// constructed is a value of the construct's template in the same form.
func constructed(v any) any {
	return replaced(v, func(v values) any {
		if ref, ok := v["Ref"].(string); ok {
			return hash.ReplaceAllString(ref, "")
		}
		if v["Fn::GetAtt"] != nil {
			return arnOf(v)
		}
		return nil
	})
}

// The template is one that the CDK reads, and each of its properties that the construct has is the same
// there.
func TestTemplateWithoutCDK(t *testing.T) {
	written, err := os.ReadFile("../../../deploy/cloudformation/template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Packaging puts an object of S3 in the place of the folder.
	text := strings.Replace(string(written), "Code: ./function", "Code: { S3Bucket: bucket, S3Key: key }", 1)
	tpl, theirs := included(t, text), synthesise(t, plain(t))

	role := tpl.one(t, "AWS::IAM::Role")
	named := func(resource any) string { return resolved(resource).(string) }
	equal(t, "the permissions", permissions(t,
		at(t, role, "Policies", 0, "PolicyDocument", "Statement").([]any), named), wanted(t))
	for kind, same := range map[string]struct {
		theirs     string
		properties []string
	}{
		"AWS::Lambda::Function": {"AWS::Lambda::Function",
			[]string{"Runtime", "Handler", "Architectures", "MemorySize", "Timeout", "LoggingConfig"}},
		"AWS::Lambda::EventSourceMapping": {"AWS::Lambda::EventSourceMapping", []string{
			"EventSourceArn", "Topics", "AmazonManagedKafkaEventSourceConfig", "StartingPosition",
			"BatchSize", "FunctionResponseTypes",
			"BisectBatchOnFunctionError", "MaximumRetryAttempts", "MaximumRecordAgeInSeconds",
			"ProvisionedPollerConfig",
		}},
		"AWS::DynamoDB::Table": {"AWS::DynamoDB::GlobalTable",
			[]string{"BillingMode", "AttributeDefinitions", "KeySchema", "TimeToLiveSpecification"}},
		"AWS::SQS::Queue": {"AWS::SQS::Queue",
			[]string{"MessageRetentionPeriod", "SqsManagedSseEnabled"}},
		"AWS::Logs::LogGroup": {"AWS::Logs::LogGroup", []string{"RetentionInDays"}},
	} {
		ours, construct := tpl.one(t, kind), theirs.one(t, same.theirs)
		for _, property := range same.properties {
			equal(t, kind+": "+property, resolved(ours[property]), constructed(construct[property]))
		}
	}
	variables := at(t, theirs.one(t, "AWS::Lambda::Function"), "Environment", "Variables").(values)
	for name, value := range at(t, tpl.one(t, "AWS::Lambda::Function"), "Environment", "Variables").(values) {
		equal(t, name, resolved(value), constructed(variables[name]))
	}
}
