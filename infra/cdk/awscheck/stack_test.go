package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
)

func TestMain(m *testing.M) {
	code := m.Run()
	jsii.Close()
	os.Exit(code)
}

type resource struct {
	Type           string
	DeletionPolicy string
	Properties     map[string]any
}

// synthesise returns the resources of the stacks by the end of the stack's name and the logical ID.
func synthesise(t *testing.T, more map[string]any) map[string]map[string]resource {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bootstrap"), []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	context := map[string]any{"name": "aws-check-1", "architecture": "arm64", "handler": dir, "producer": dir}
	for name, value := range more {
		context[name] = value
	}
	s, err := readSettings(context)
	if err != nil {
		t.Fatal(err)
	}
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir())})
	newStacks(app, s)
	all := make(map[string]map[string]resource)
	for _, child := range *app.Node().Children() {
		st, ok := child.(awscdk.Stack)
		if !ok {
			continue
		}
		data, err := json.Marshal(assertions.Template_FromStack(st, nil).ToJSON())
		if err != nil {
			t.Fatal(err)
		}
		var template struct{ Resources map[string]resource }
		if err := json.Unmarshal(data, &template); err != nil {
			t.Fatal(err)
		}
		name := *st.StackName()
		all[name[strings.LastIndexByte(name, '-')+1:]] = template.Resources
	}
	return all
}

func count(resources map[string]resource) map[string]int {
	n := make(map[string]int)
	for _, r := range resources {
		n[r.Type]++
	}
	return n
}

func TestClusterHasNoNATAndNoInternet(t *testing.T) {
	n := count(synthesise(t, nil)["cluster"])
	for kind, want := range map[string]int{
		"AWS::MSK::ServerlessCluster": 1, "AWS::Lambda::Function": 1, "AWS::EC2::VPC": 1, "AWS::EC2::Subnet": 2,
		"AWS::EC2::NatGateway": 0, "AWS::EC2::InternetGateway": 0, "AWS::EC2::VPCEndpoint": 0,
		"AWS::Logs::LogGroup": 1,
	} {
		if n[kind] != want {
			t.Errorf("%d of %s; want %d", n[kind], kind, want)
		}
	}
}

func TestPollersOnDemandHaveTheirEndpoints(t *testing.T) {
	stacks := synthesise(t, map[string]any{"onDemand": "true"})
	var services []string
	for _, r := range stacks["cluster"] {
		if r.Type == "AWS::EC2::VPCEndpoint" {
			name := fmt.Sprint(r.Properties["ServiceName"])
			services = append(services, strings.TrimSuffix(name[strings.LastIndexByte(name, '.')+1:], "]]]"))
		}
	}
	slices.Sort(services)
	if got := strings.Join(services, " "); got != "lambda sts" {
		t.Errorf("endpoints of %s; want lambda and sts", got)
	}
	for _, r := range stacks["consumer"] {
		if r.Type == "AWS::Lambda::EventSourceMapping" && r.Properties["ProvisionedPollerConfig"] != nil {
			t.Error("the mapping has provisioned pollers")
		}
	}
}

// The producer may write to the one topic of this cluster, and has no managed policy.
func TestProducerHasTheLeastPermissions(t *testing.T) {
	var kafka []string
	for _, r := range synthesise(t, nil)["cluster"] {
		if r.Type == "AWS::IAM::Role" && r.Properties["ManagedPolicyArns"] != nil {
			t.Errorf("a managed policy: %v", r.Properties["ManagedPolicyArns"])
		}
		if r.Type != "AWS::IAM::Policy" {
			continue
		}
		document, _ := r.Properties["PolicyDocument"].(map[string]any)
		statements, _ := document["Statement"].([]any)
		for _, statement := range statements {
			data, err := json.Marshal(statement)
			if err != nil {
				t.Fatal(err)
			}
			text := string(data)
			if strings.Contains(text, "kafka") {
				kafka = append(kafka, text)
			} else if !strings.Contains(text, `"ec2:`) && !strings.Contains(text, `"logs:`) {
				t.Errorf("a statement for neither Kafka, logs nor the network: %s", text)
			}
		}
	}
	const split = `{"Fn::Split":[":cluster/",{"Ref":"Cluster"}]}`
	want := []string{
		`{"Action":"kafka-cluster:Connect","Effect":"Allow","Resource":{"Ref":"Cluster"}}`,
		`{"Action":["kafka-cluster:CreateTopic","kafka-cluster:DescribeTopic","kafka-cluster:WriteData"],` +
			`"Effect":"Allow","Resource":{"Fn::Join":["",[{"Fn::Select":[0,` + split + `]},":topic/",` +
			`{"Fn::Select":[1,` + split + `]},"/payments"]]}}`,
	}
	if strings.Join(kafka, "\n") != strings.Join(want, "\n") {
		t.Errorf("Kafka's statements are\n%s\nwant\n%s", strings.Join(kafka, "\n"), strings.Join(want, "\n"))
	}
}

// Nothing outlives its stack, and the consumer reads the cluster of the other stack.
func TestNothingIsRetained(t *testing.T) {
	stacks := synthesise(t, nil)
	for _, resources := range stacks {
		for id, r := range resources {
			// The construct retains old versions of its function, which the function's deletion removes.
			if r.DeletionPolicy == "Retain" && r.Type != "AWS::Lambda::Version" {
				t.Errorf("%s (%s) is retained", id, r.Type)
			}
			if r.Properties["DeletionProtectionEnabled"] == true {
				t.Errorf("%s is protected against deletion", id)
			}
		}
	}
	n := count(stacks["consumer"])
	if n["AWS::DynamoDB::GlobalTable"] != 3 || n["AWS::Lambda::EventSourceMapping"] != 1 {
		t.Errorf("the consumer's stack has %v", n)
	}
	for _, r := range stacks["consumer"] {
		if r.Type == "AWS::Lambda::EventSourceMapping" &&
			!strings.Contains(fmt.Sprint(r.Properties["EventSourceArn"]), "Fn::ImportValue") {
			t.Errorf("the event source is %v", r.Properties["EventSourceArn"])
		}
	}
}

func TestLocalHasTheConsumerAlone(t *testing.T) {
	stacks := synthesise(t, map[string]any{"local": "true"})
	if len(stacks) != 1 || count(stacks["consumer"])["AWS::Lambda::Function"] != 1 {
		t.Errorf("%d stacks: %v", len(stacks), count(stacks["consumer"]))
	}
}

func TestMissingSettingIsRefused(t *testing.T) {
	for _, context := range []map[string]any{
		{"name": "n", "architecture": "arm64", "handler": "h"},
		{"name": "n", "architecture": "arm64", "handler": "h", "producer": "p", "local": "maybe"},
	} {
		if _, err := readSettings(context); err == nil {
			t.Errorf("%v is accepted", context)
		}
	}
}
