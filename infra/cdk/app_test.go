package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

var update = flag.Bool("update", false, "write testdata anew")

// TestMain starts the CDK's runtime once for all tests: a start costs seconds.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := requireNode(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "these tests synthesise the stack:", err)
		os.Exit(1)
	}
	code := m.Run()
	jsii.Close()
	os.Exit(code)
}

const cluster = "arn:aws:kafka:eu-central-1:111122223333:cluster/payments/6cc0432b-8618-4f44-bccc-e1fbd8fb7c4d-2"

type values = map[string]any

// plain is the context of a function of one's own, with other values.
func plain(t *testing.T, more values) values {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bootstrap"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	context := values{"clusterArn": cluster, "topics": "payments", "consumerGroup": "payments-ledger", "code": dir}
	for name, value := range more {
		if context[name] = value; value == nil {
			delete(context, name)
		}
	}
	return context
}

// template is a synthesised one.
type template struct {
	Description string
	Resources   map[string]struct {
		Type, DeletionPolicy string
		Properties           values
	}
	Parameters, Outputs values
}

// synthesise returns the template for a context, as text and read.
func synthesise(t *testing.T, context values) (text []byte, tpl template, err error) {
	t.Helper()
	d, err := readContext(context)
	if err != nil {
		return nil, tpl, err
	}
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir()),
		AnalyticsReporting: jsii.Bool(false), TreeMetadata: jsii.Bool(false)})
	stack, err := d.newStack(t.Context(), app)
	if err != nil {
		return nil, tpl, err
	}
	text, err = json.MarshalIndent(assertions.Template_FromStack(stack, nil).ToJSON(), "", " ")
	if err == nil {
		err = json.Unmarshal(text, &tpl)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text, tpl, nil
}

// The template of the plain stack as a whole: a change of it is to be seen, and meant. go test -update writes
// it anew. Hashes would only make it change without a reason.
func TestTemplate(t *testing.T) {
	text, _, err := synthesise(t, plain(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`\b[0-9a-f]{64}\b`).ReplaceAll(text, []byte("ASSET"))
	text = regexp.MustCompile(`\b([A-Z][A-Za-z0-9]+?)([0-9A-F]{8})([0-9a-f]{32})?\b`).ReplaceAll(text, []byte("${1}HASH"))
	text = append(text, '\n')
	const file = "testdata/plain.template.json"
	if *update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != string(want) {
		t.Errorf("the template differs from %s; look at the difference after `go test -run %s -update .`", file, t.Name())
	}
}

// Each value of the context sets its property, in the form in which -c or cdk.json has it.
func TestValues(t *testing.T) {
	const topic = "arn:aws:sns:eu-central-1:111122223333:oncall"
	given := values{"stackName": "ledger", "code": "dist", "example": "ledger", "architecture": "x86_64", "runtime": "python3.13",
		"handler": "app.handler", "clusterArn": cluster, "topics": "payments, refunds=g2", "consumerGroup": "g1",
		"store": "redis", "storeUrl": "rediss://h:6379", "storeSecretArn": "arn", "alarmEmail": "oncall@example.com",
		"alarmTopicArn": topic, "ephemeral": true, "aws:cdk:toolkit": true, "@aws-cdk/core:flag": true}
	d, err := readContext(given)
	if err != nil {
		t.Fatal(err)
	}
	want := consumer.Props{
		Function:      consumer.Function{Code: "dist", Architecture: consumer.X8664, Runtime: "python3.13", Handler: "app.handler"},
		Cluster:       consumer.Cluster{ARN: cluster},
		Source:        consumer.Source{Topics: []consumer.Topic{{Name: "payments"}, {Name: "refunds", Group: "g2"}}, ConsumerGroup: "g1"},
		Store:         consumer.Store{Type: consumer.StoreRedis, URL: "rediss://h:6379", SecretARN: "arn", DeletionProtection: jsii.Bool(false)},
		Alarms:        consumer.Alarms{Email: "oncall@example.com"},
		RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	}
	equal(t, "the properties", d.props, want)
	equal(t, "the app's own", []string{d.stackName, d.example, d.alarmTopicARN}, []string{"ledger", "ledger", topic})
	for _, v := range d.values() {
		if given[v.name] == nil {
			t.Errorf("%s is not in this test", v.name)
		}
	}
}

// An error is one line for each fault, and names the value as it was given.
func TestErrors(t *testing.T) {
	const lists = " (infra/cdk/README.md lists what is; props.go has the rest)"
	for want, given := range map[string]values{
		"topic is not read from the context; is it topics?" + lists:                                                 {"topic": "x"},
		"price is not read from the context" + lists:                                                                {"price": "x"},
		"alarmemail is not read from the context; is it alarmEmail?" + lists:                                        {"alarmemail": "x"},
		`example is "true": want ledger, the demonstration (lambda/handler)`:                                        {"example": true},
		`ephemeral is "yes": want true or false`:                                                                    {"ephemeral": "yes"},
		`alarmTopicArn is "oncall": want an ARN like arn:aws:sns:REGION:ACCOUNT:NAME`:                               {"alarmTopicArn": "oncall"},
		`stackName is "my_stack": want a letter, then up to 127 letters, digits or '-'`:                             {"stackName": "my_stack"},
		`Cluster.ARN is "payments": want arn:aws:kafka:REGION:ACCOUNT:cluster/NAME/UUID (context: clusterArn)`:      {"clusterArn": "payments"},
		`Source.Topics is "": want at least one topic (context: topics)`:                                            {"topics": nil},
		`Source.ConsumerGroup is "a b": want 1 to 200 letters, digits or any of -/*:_+=.@ (context: consumerGroup)`: {"consumerGroup": "a b"},
		`stackName is "1": want a letter, then up to 127 letters, digits or '-'` + "\n" + `ephemeral is "1": want true or false`: {
			"stackName": 1, "ephemeral": 1},
	} {
		t.Run(want, func(t *testing.T) {
			_, _, err := synthesise(t, plain(t, given))
			equal(t, "the error", fmt.Sprint(err), want)
		})
	}
}

// Only the example has a ledger, and only on DynamoDB.
func TestLedger(t *testing.T) {
	for name, c := range map[string]struct {
		given values
		want  bool
	}{
		"the example":               {values{"example": "ledger"}, true},
		"another function":          {nil, false},
		"the example in PostgreSQL": {values{"example": "ledger", "store": "postgres", "storeUrl": "postgres://h:5432/payments"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			text, tpl, err := synthesise(t, plain(t, c.given))
			if err != nil {
				t.Fatal(err)
			}
			ledger := ""
			for id, r := range tpl.Resources {
				if strings.HasPrefix(id, "Ledger") {
					ledger = id
					equal(t, "the ledger's key", r.Properties["KeySchema"], []values{{"AttributeName": "account", "KeyType": "HASH"}})
				}
			}
			equal(t, "has a ledger", ledger != "", c.want)
			variable := regexp.MustCompile(`"IDEMSK_LEDGER_TABLE": \{\s*"Ref": "` + ledger + `"`).Match(text)
			equal(t, "the function has its name", variable, c.want)
			granted := regexp.MustCompile(`"Action": "dynamodb:UpdateItem",\s*"Effect": "Allow",\s*"Resource": \{\s*"Fn::GetAtt": \[\s*"` + ledger + `"`)
			equal(t, "the function may write it", granted.Match(text), c.want)
		})
	}
}

// What is ephemeral goes with its stack, and nothing else does.
func TestEphemeral(t *testing.T) {
	for ephemeral, policy := range map[any]string{true: "Delete", "true": "Delete", "false": "Retain", nil: "Retain"} {
		_, tpl, err := synthesise(t, plain(t, values{"ephemeral": ephemeral, "example": "ledger"}))
		if err != nil {
			t.Fatal(err)
		}
		stateful := 0
		for id, r := range tpl.Resources {
			if r.Type != "AWS::DynamoDB::GlobalTable" && r.Type != "AWS::SQS::Queue" && r.Type != "AWS::Logs::LogGroup" {
				continue
			}
			stateful++
			equal(t, fmt.Sprint(ephemeral, ", ", id), r.DeletionPolicy, policy)
			if replicas, ok := r.Properties["Replicas"].([]any); ok {
				equal(t, id+" is protected", replicas[0].(values)["DeletionProtectionEnabled"], policy == "Retain")
			}
		}
		equal(t, "tables, queues and logs", stateful, 4)
	}
}

func TestAlarmTopic(t *testing.T) {
	const topic = "arn:aws:sns:eu-central-1:111122223333:oncall"
	_, tpl, err := synthesise(t, plain(t, values{"alarmTopicArn": topic}))
	if err != nil {
		t.Fatal(err)
	}
	for id, r := range tpl.Resources {
		if r.Type == "AWS::CloudWatch::Alarm" {
			equal(t, id, r.Properties["AlarmActions"], []string{topic})
		}
	}
}

// README.md has a row for each value, in the same order, and no other rows.
func TestReadmeListsEveryValue(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows, want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-zA-Z]+)` \\|").FindAllSubmatch(readme, -1) {
		rows = append(rows, string(row[1]))
	}
	for _, v := range (&deployment{}).values() {
		want = append(want, v.name)
	}
	equal(t, "the rows", rows, want)
}

// equal compares what a test got with what it wants, as JSON.
func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	g, err := json.Marshal(got)
	w, err2 := json.Marshal(want)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if string(g) != string(w) {
		t.Errorf("%s is %s; want %s", what, g, w)
	}
}
