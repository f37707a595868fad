//go:build rest

// Package linttest checks templates of the construct with cfn-lint and checkov. A finding that stays has its
// reason here.
package linttest

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

const (
	cluster = "arn:aws:kafka:eu-central-1:111122223333:cluster/payments/6cc0432b-8618-4f44-bccc-e1fbd8fb7c4d-2"
	secret  = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:AmazonMSK_payments-AbCdEf"
	key     = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
)

// TestMain ends the CDK's runtime, which leaves its folder otherwise.
func TestMain(m *testing.M) {
	code := m.Run()
	jsii.Close()
	os.Exit(code)
}

// everything turns every part of the stack on.
func everything(st awscdk.Stack, p *consumer.Props) {
	code := p.Function.Code
	p.Cluster.Auth, p.Cluster.SecretARN, p.Cluster.SecretKeyARN = consumer.AuthSCRAM512, secret, key
	p.EncryptionKey = awskms.Key_FromKeyArn(st, jsii.String("Key"), jsii.String(key))
	p.Source.OnFailure.Queue, p.Source.Retries, p.Source.MaxRecordAge = true, new(10), 24*time.Hour
	p.Source.SchemaRegistry = &consumer.SchemaRegistry{URI: "arn:aws:glue:eu-central-1:111122223333:registry/payments"}
	p.Idempotency.RetryDelay = new(500 * time.Millisecond)
	p.Function.ReservedConcurrency, p.Function.Canary, p.Function.Tracing = 10, consumer.Canary10Percent5, true
	p.Alarms.Email = "oncall@example.com"
	p.Network.VPC = awsec2.Vpc_FromVpcAttributes(st, jsii.String("Vpc"), &awsec2.VpcAttributes{
		VpcId: jsii.String("vpc-0123456789abcdef0"), AvailabilityZones: jsii.Strings("eu-central-1a"),
		PrivateSubnetIds:           jsii.Strings("subnet-0123456789abcdef0"),
		PrivateSubnetRouteTableIds: jsii.Strings("rtb-0123456789abcdef0"),
	})
	p.VPCEndpoints = true
	p.Outbox = &consumer.Outbox{RelayCode: code, Brokers: []string{"b-1.payments.example.com:9096"}}
	p.Maintenance = &consumer.Maintenance{Code: code, Export: consumer.Export{BucketARN: "arn:aws:s3:::exports/bookings/"}}
}

// lintReasons are the findings of cfn-lint that stay, and why.
func lintReasons() map[string]string {
	return map[string]string{
		"W3005 AWS::Lambda::Function": "The CDK makes each function depend on its role and its policy; the role alone is named twice.",
	}
}

// checkovReasons are the findings of checkov that stay, and why.
func checkovReasons() map[string]string {
	const ownKeys = "AWS's own keys encrypt it. With EncryptionKey the customer's key does, and the finding is gone."
	return map[string]string{
		"CKV_AWS_27 AWS::SQS::Queue": "The queues have SqsManagedSseEnabled, which the check does not know. " + ownKeys,
		"CKV_AWS_111 AWS::IAM::Policy": "EC2's actions on network interfaces take no resource, and Lambda wants them on * for an " +
			"event source; permissions_test.go allows these alone.",
		"CKV_AWS_158 AWS::Logs::LogGroup":   ownKeys,
		"CKV_AWS_173 AWS::Lambda::Function": ownKeys,
		"CKV_AWS_116 AWS::Lambda::Function": "It is for asynchronous invocations. Event sources invoke synchronously, and records have a queue.",
		"CKV_AWS_117 AWS::Lambda::Function": "A VPC takes the function's way to AWS's services, unless it has endpoints: Network sets one.",
		"CKV_AWS_115 AWS::Lambda::Function": "Pollers bound the concurrency, and a reservation takes it from other functions: Function.ReservedConcurrency sets one.",
	}
}

// template writes the template of a consumer, and returns its path.
func template(t *testing.T, change func(awscdk.Stack, *consumer.Props)) string {
	t.Helper()
	code, out := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(code, "bootstrap"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: &out})
	st := awscdk.NewStack(app, jsii.String("idemsk"), &awscdk.StackProps{Env: &awscdk.Environment{Region: jsii.String("eu-central-1")}})
	props := consumer.Props{
		Function: consumer.Function{Code: code},
		Cluster:  consumer.Cluster{ARN: cluster},
		Source:   consumer.Source{Topics: []consumer.Topic{{Name: "payments"}}, ConsumerGroup: "payments-ledger"},
	}
	change(st, &props)
	consumer.New(st, "Consumer", props).AddOutputs()
	app.Synth(nil)
	return filepath.Join(out, "idemsk.template.json")
}

// check runs a checker on a template, and returns what it prints. Findings are no failure of it.
func check(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "../../../scripts/templates.sh", args...).Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatalf("%v printed nothing: %v\n%s", args, err, exit.Stderr)
	}
	return out
}

func unmarshal(t *testing.T, data []byte, to any) {
	t.Helper()
	if err := json.Unmarshal(data, to); err != nil {
		t.Fatalf("%v:\n%s", err, data)
	}
}

// types are the types of the resources of a template.
func types(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var tpl struct {
		Resources map[string]struct{ Type string }
	}
	unmarshal(t, text, &tpl)
	all := make(map[string]string)
	for id, resource := range tpl.Resources {
		all[id] = resource.Type
	}
	return all
}

// lint returns the findings of cfn-lint.
func lint(t *testing.T, path string) (findings []string) {
	t.Helper()
	var found []struct {
		Rule     struct{ ID string } //nolint:tagliatelle // likewise
		Message  string
		Location struct{ Path []any }
	}
	unmarshal(t, check(t, "cfn-lint", "--format", "json", path), &found)
	of := types(t, path)
	for _, f := range found {
		at := ""
		if len(f.Location.Path) > 1 {
			id, _ := f.Location.Path[1].(string)
			at = of[id]
		}
		findings = append(findings, f.Rule.ID+" "+at)
	}
	return findings
}

// scan returns the findings of checkov.
func scan(t *testing.T, path string) (findings []string) {
	t.Helper()
	var report struct {
		Summary struct{ Passed int }
		Results struct {
			Failed []struct {
				ID       string `json:"check_id"`
				Resource string
			} `json:"failed_checks"`
		}
	}
	unmarshal(t, check(t, "checkov", "--skip-download", "--framework", "cloudformation", "--output", "json", "--file", path), &report)
	if report.Summary.Passed == 0 {
		t.Fatal("checkov has passed no check")
	}
	for _, f := range report.Results.Failed {
		kind, _, _ := strings.Cut(f.Resource, ".")
		findings = append(findings, f.ID+" "+kind)
	}
	return findings
}

// Every finding has a reason to stay, and every reason a finding.
func TestTemplatesHaveNoFindings(t *testing.T) {
	checkers := map[string]struct {
		run     func(t *testing.T, path string) []string
		reasons map[string]string
	}{"cfn-lint": {lint, lintReasons()}, "checkov": {scan, checkovReasons()}}
	found := make(map[string]bool)
	for _, path := range []string{template(t, func(awscdk.Stack, *consumer.Props) {}), template(t, everything)} {
		for name, checker := range checkers {
			for _, finding := range checker.run(t, path) {
				if found[name+finding] = true; checker.reasons[finding] == "" {
					t.Errorf("%s: %s: %s", path, name, finding)
				}
			}
		}
	}
	for name, checker := range checkers {
		for finding := range checker.reasons {
			if !found[name+finding] {
				t.Errorf("%s does not find %s any more: take its reason out", name, finding)
			}
		}
	}
}

// The templates that are written by hand have no findings.
func TestWrittenTemplatesHaveNoFindings(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/cloudformation/template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Packaging puts an object of S3 in the place of the folder.
	packaged := filepath.Join(t.TempDir(), "template.yaml")
	if err := os.WriteFile(packaged, []byte(strings.Replace(string(text), "Code: ./function",
		"Code: { S3Bucket: bucket, S3Key: key }", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{packaged, "../../../deploy/sam/template.yaml"} {
		var found []any
		if unmarshal(t, check(t, "cfn-lint", "--format", "json", path), &found); len(found) > 0 {
			t.Errorf("%s: %v", path, found)
		}
	}
}
