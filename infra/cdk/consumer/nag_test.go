package consumer_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// everything turns every part of the stack on.
func everything() change {
	return func(p *props) {
		p.Cluster.Auth = "scram-sha-512"
		p.Cluster.SecretARN = secret
		p.Cluster.SecretKeyARN = kmsKey
		p.keyed = true
		p.Source.OnFailure.Queue = true
		finitely(p)
		p.Source.MaxRecordAge = 24 * time.Hour
		p.Function.Canary = "10-percent-5-minutes"
		p.Function.Tracing = true
		p.Alarms.Email = "oncall@example.com"
		p.Store.ContributorInsights = true
		p.subnets = 1
		p.VPCEndpoints = true
		p.Source.SchemaRegistry = &consumer.SchemaRegistry{URI: "arn:aws:glue:eu-central-1:111122223333:registry/payments"}
	}
}

// suppressions are the findings of cdk-nag that stay, and why.
func suppressions() map[string]string {
	const (
		policy      = "/idemsk/Consumer/Role/DefaultPolicy/Resource AwsSolutions-IAM5"
		relay       = "/idemsk/Consumer/RelayRole/DefaultPolicy/Resource AwsSolutions-IAM5"
		maintenance = "/idemsk/Consumer/MaintenanceRole/DefaultPolicy/Resource AwsSolutions-IAM5"
		interfaces  = "EC2 describes nothing by ARN, Lambda tests at creation that the role may use any network interface, and X-Ray has no " +
			"resources; permissions_test.go allows these actions only."
	)
	return map[string]string{
		"/idemsk/Consumer/DeadLetters/Resource AwsSolutions-SQS3":                       "It is the queue of dead letters: an alarm watches its depth, and idemsk redrive empties it.",
		"/idemsk/Consumer/OnFailure/Resource AwsSolutions-SQS3":                         "It is where the event source sends what it gives up: an alarm watches its depth.",
		policy + "[Resource::*]":                                                        interfaces,
		relay + "[Resource::*]":                                                         interfaces,
		maintenance + "[Resource::*]":                                                   interfaces,
		maintenance + "[Resource::arn:aws:s3:::exports/bookings/*]":                     "The exports: which one is the newest, their times say.",
		relay + "[Resource::<ConsumerOutbox344C1452.Arn>/stream/*]":                     "The streams of the one table: ListStreams is no action on one of them.",
		policy + "[Resource::arn:aws:glue:eu-central-1:111122223333:schema/payments/*]": "The schemas of the registry that is given: which ones, the records say.",
		"/idemsk/Consumer/Canary/ServiceRole/Resource AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSCodeDeployRoleForLambdaLimited]": "" +
			"AWS's least policy for CodeDeploy to move a Lambda alias; the CDK attaches it.",
	}
}

// Every finding has a reason to stay, and every reason a finding.
func TestNag(t *testing.T) {
	reasons := suppressions()
	found := make(map[string]bool)
	for name, more := range map[string]change{"plain": nil, "everything": everything(),
		"keys in PostgreSQL": onPostgres(), "a function in Python": behindLayer(t, "python3.14", "app.handler"),
		"an outbox":   withOutbox(t, everything(), scram()),
		"maintenance": withMaintenance(t, everything())} {
		t.Run(name, func(t *testing.T) {
			st := build(t, plain(t, more))
			awscdk.Aspects_Of(st.Stack).Add(cdknag.NewAwsSolutionsChecks(nil), nil)
			annotations := assertions.Annotations_FromStack(st.Stack)
			findings := slices.Concat(*annotations.FindError(jsii.String("*"), assertions.Match_AnyValue()),
				*annotations.FindWarning(jsii.String("*"), assertions.Match_AnyValue()))
			for _, finding := range findings {
				rule, message, _ := strings.Cut(text(finding.Entry.Data), ": ") //nolint:staticcheck // Annotations returns no other type
				at := *finding.Id + " " + rule                                  //nolint:staticcheck // likewise
				if found[at] = true; reasons[at] == "" {
					t.Errorf("%s: %s", at, message)
				}
			}
		})
	}
	for at := range reasons {
		if !found[at] {
			t.Errorf("cdk-nag does not find %s any more: take its reason out", at)
		}
	}
}
