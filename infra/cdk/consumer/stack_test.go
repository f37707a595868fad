package consumer_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

const (
	serverless = "arn:aws:kafka:eu-central-1:111122223333:cluster/payments/6cc0432b-8618-4f44-bccc-e1fbd8fb7c4d-s3"
	kmsKey     = key
)

// props are those of the construct, and what its stack imports for them.
type props struct {
	consumer.Props
	subnets    int    // of a VPC, 0 without one
	keyed      bool   // kmsKey encrypts all data at rest
	alarmTopic string // ARN of an existing one
}

type change = func(p *props)

// plain returns the least properties of a function of one's own, changed in this order. A change may be nil.
func plain(t *testing.T, changes ...change) *props {
	t.Helper()
	p := &props{Props: consumer.Props{
		Function: consumer.Function{Code: code(t)},
		Cluster:  consumer.Cluster{ARN: cluster},
		Source:   consumer.Source{Topics: []consumer.Topic{{Name: "payments"}}, ConsumerGroup: "payments-ledger"},
	}}
	all(changes...)(p)
	return p
}

// all makes several changes, one after another.
func all(changes ...change) change {
	return func(p *props) {
		for _, change := range changes {
			if change != nil {
				change(p)
			}
		}
	}
}

// finitely sets finite retries, with a delay between attempts that fits them.
func finitely(p *props) {
	p.Source.Retries, p.Idempotency.RetryDelay = new(10), new(500*time.Millisecond)
}

// code is a directory with a program that is always the same, so that assets are too.
func code(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bootstrap"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// stack is one with a consumer.
type stack struct {
	awscdk.Stack
	consumer *consumer.Consumer
}

// build builds the stack of a consumer.
func build(t *testing.T, p *props) *stack {
	t.Helper()
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir()),
		AnalyticsReporting: jsii.Bool(false), TreeMetadata: jsii.Bool(false)})
	stackProps := &awscdk.StackProps{}
	if p.keyed {
		stackProps.Env = &awscdk.Environment{Region: jsii.String("eu-central-1")}
	}
	st := awscdk.NewStack(app, jsii.String("idemsk"), stackProps)
	if p.keyed {
		p.EncryptionKey = awskms.Key_FromKeyArn(st, jsii.String("Key"), jsii.String(kmsKey))
	}
	if p.alarmTopic != "" {
		p.Alarms.Topic = awssns.Topic_FromTopicArn(st, jsii.String("AlarmTopic"), &p.alarmTopic)
	}
	if p.subnets > 0 {
		p.Network = network(st, p.subnets)
	}
	if err := consumer.Check(p.Props); err != nil {
		t.Fatalf("the properties: %v", err)
	}
	c := consumer.New(st, "Consumer", p.Props)
	c.AddOutputs()
	return &stack{st, c}
}

// network is an existing one with some subnets.
func network(st awscdk.Stack, subnets int) consumer.Network {
	names := func(form string, first rune) *[]*string {
		list := make([]*string, subnets)
		for i := range list {
			list[i] = jsii.String(fmt.Sprintf(form, first+rune(i)))
		}
		return &list
	}
	return consumer.Network{
		VPC: awsec2.Vpc_FromVpcAttributes(st, jsii.String("Vpc"), &awsec2.VpcAttributes{
			VpcId:                      jsii.String("vpc-0123456789abcdef0"),
			AvailabilityZones:          names("eu-central-1%c", 'a'),
			PrivateSubnetIds:           names("subnet-0123456789abcdef%c", '0'),
			PrivateSubnetRouteTableIds: names("rtb-0123456789abcdef%c", '0'),
		}),
		SecurityGroups: []awsec2.ISecurityGroup{awsec2.SecurityGroup_FromSecurityGroupId(st, jsii.String("SecurityGroup-sg-0123456789abcdef0"),
			jsii.String("sg-0123456789abcdef0"), nil)},
	}
}

// template is a synthesised one, and values an object in it.
type (
	template map[string]any
	values   = map[string]any
)

// synthesise returns the template of a consumer.
func synthesise(t *testing.T, p *props) template {
	t.Helper()
	return templateOf(t, build(t, p).Stack)
}

// text writes a value as the CDK's command line would.
func text(v any) string { return fmt.Sprint(v) }

func templateOf(t *testing.T, st awscdk.Stack) template {
	t.Helper()
	out, err := json.Marshal(assertions.Template_FromStack(st, nil).ToJSON())
	if err != nil {
		t.Fatal(err)
	}
	var tpl template
	if err := json.Unmarshal(out, &tpl); err != nil {
		t.Fatal(err)
	}
	return tpl
}

// of returns the properties of the resources of a type, by logical ID.
func (tpl template) of(kind string) map[string]values {
	found := make(map[string]values)
	for id, resource := range tpl["Resources"].(values) {
		if r := resource.(values); r["Type"] == kind {
			found[id], _ = r["Properties"].(values)
		}
	}
	return found
}

// one returns the properties of the one resource of a type.
func (tpl template) one(t *testing.T, kind string) values {
	t.Helper()
	found := tpl.of(kind)
	if len(found) != 1 {
		t.Fatalf("there are %d resources of type %s; want 1", len(found), kind)
	}
	for _, properties := range found {
		return properties
	}
	return nil
}

// at walks into nested values: by key, and by index into lists.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for i, step := range path {
		switch step := step.(type) {
		case string:
			m, ok := v.(values)
			if !ok {
				t.Fatalf("%v: %v is no object", path[:i], v)
			}
			v = m[step]
		case int:
			l, ok := v.([]any)
			if !ok || step >= len(l) {
				t.Fatalf("%v: %v has no element %d", path[:i], v, step)
			}
			v = l[step]
		}
	}
	return v
}

// equal compares what a test got with what it wants, as JSON.
func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	g, w := text(got), text(want)
	if gotJSON, err := json.Marshal(got); err == nil {
		g = string(gotJSON)
	}
	if wantJSON, err := json.Marshal(want); err == nil {
		w = string(wantJSON)
	}
	if g != w {
		t.Errorf("%s is %s; want %s", what, g, w)
	}
}

// getAtt is a reference to an attribute of the one resource whose logical ID begins so.
func (tpl template) getAtt(t *testing.T, prefix, attribute string) values {
	t.Helper()
	return values{"Fn::GetAtt": []any{tpl.id(t, prefix), attribute}}
}

func (tpl template) ref(t *testing.T, prefix string) values {
	t.Helper()
	return values{"Ref": tpl.id(t, prefix)}
}

var hash = regexp.MustCompile(`[0-9A-F]{8}$`)

// id returns the logical ID that a resource got: the name given here and a hash.
func (tpl template) id(t *testing.T, name string) string {
	t.Helper()
	for id := range tpl["Resources"].(values) {
		if hash.ReplaceAllString(id, "") == name {
			return id
		}
	}
	t.Fatalf("there is no resource %s", name)
	return ""
}
