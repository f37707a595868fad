package consumer_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// newTeamStack is the stack of an app that imports the construct.
func newTeamStack(t *testing.T, region string) awscdk.Stack {
	t.Helper()
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir())})
	props := &awscdk.StackProps{}
	if region != "" {
		props.Env = &awscdk.Environment{Region: &region}
	}
	return awscdk.NewStack(app, jsii.String("team"), props)
}

func teamProps(t *testing.T) consumer.Props {
	t.Helper()
	return consumer.Props{
		Function: consumer.Function{Code: code(t)},
		Cluster:  consumer.Cluster{ARN: cluster},
		Source:   consumer.Source{Topics: []consumer.Topic{{Name: "payments"}}, ConsumerGroup: "ledger"},
	}
}

func TestTwoConsumersInOneStack(t *testing.T) {
	st := newTeamStack(t, "")
	for _, group := range []string{"Ledger", "Audit"} {
		props := teamProps(t)
		props.Source.ConsumerGroup = group
		c := consumer.New(st, group, props)
		equal(t, "the namespace of the props in effect", c.Props().Idempotency.Namespace, group)
	}
	tpl := templateOf(t, st)
	equal(t, "event sources", len(tpl.of(eventSource)), 2)
	equal(t, "tables", len(tpl.of(globalTable)), 2)
}

// A cluster that is made in the same app is a token: its topics' and groups' ARNs are worked out when it is
// deployed.
func TestClusterOfTheSameApp(t *testing.T) {
	st := newTeamStack(t, "")
	props := teamProps(t)
	props.Cluster.ARN = *awscdk.Fn_ImportValue(jsii.String("cluster"))
	consumer.New(st, "Ledger", props)
	parts := func(i int) values {
		return values{"Fn::Select": []any{i,
			values{"Fn::Split": []any{":cluster/", values{"Fn::ImportValue": "cluster"}}}}}
	}
	want := values{"Fn::Join": []any{"", []any{parts(0), ":topic/", parts(1), "/payments"}}}
	for _, s := range statements(t, templateOf(t, st)) {
		for _, action := range s.actions {
			if action == "kafka-cluster:ReadData" {
				equal(t, "the topic's ARN", s.resources[0], want)
				return
			}
		}
	}
	t.Error("no statement allows reading the topic")
}

// A key of the app must let CloudWatch use it, or log group and alarms do not work.
func TestKeyOfTheAppAdmitsCloudWatch(t *testing.T) {
	st := newTeamStack(t, "eu-central-1")
	props := teamProps(t)
	props.EncryptionKey = awskms.NewKey(st, jsii.String("Key"), nil)
	consumer.New(st, "Ledger", props)
	admitted := make(map[string]any)
	for _, s := range at(t, templateOf(t, st).one(t, "AWS::KMS::Key"), "KeyPolicy", "Statement").([]any) {
		if service, ok := at(t, s, "Principal").(values)["Service"].(string); ok {
			admitted[service] = s.(values)["Condition"]
		}
	}
	for _, service := range []string{"logs.eu-central-1.amazonaws.com", "cloudwatch.amazonaws.com"} {
		if admitted[service] == nil {
			t.Errorf("the key's policy does not admit %s under a condition; it admits %v", service, admitted)
		}
	}
}

func TestCustomerKeyNeedsARegion(t *testing.T) {
	st := newTeamStack(t, "")
	props := teamProps(t)
	props.EncryptionKey = awskms.Key_FromKeyArn(st, jsii.String("Key"), jsii.String(kmsKey))
	defer func() {
		err, _ := recover().(error)
		if err == nil || !strings.Contains(err.Error(),
			`EncryptionKey is "`+kmsKey+`": want a stack whose StackProps.Env names the region`) {
			t.Errorf("New panicked with %v", err)
		}
	}()
	consumer.New(st, "Ledger", props)
}
