package consumer_test

import (
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
	"github.com/idemsk/idemsk/lambda/eventsource"
)

func TestEventSource(t *testing.T) {
	for name, arn := range map[string]string{"provisioned": cluster, "serverless": serverless} {
		t.Run(name, func(t *testing.T) {
			tpl := synthesise(t, plain(t, func(p *props) { p.Cluster.ARN = arn }))
			equal(t, "the event source", tpl.one(t, eventSource), values{
				"FunctionName":                        tpl.ref(t, "ConsumerAlias"),
				"EventSourceArn":                      arn,
				"Topics":                              []string{"payments"},
				"AmazonManagedKafkaEventSourceConfig": values{"ConsumerGroupId": "payments-ledger"},
				"StartingPosition":                    "TRIM_HORIZON",
				"BatchSize":                           100,
				"FunctionResponseTypes":               []string{"ReportBatchItemFailures"},
				"BisectBatchOnFunctionError":          true,
				"MaximumRetryAttempts":                -1,
				"MaximumRecordAgeInSeconds":           -1,
				"ProvisionedPollerConfig":             values{"MinimumPollers": 1, "MaximumPollers": 10},
				"LoggingConfig":                       values{"SystemLogLevel": "INFO"},
				"MetricsConfig": values{"Metrics": []string{"EventCount", "ErrorCount",
					"KafkaMetrics"}},
			})
		})
	}
}

func TestEventSourceDependsOnItsPermissions(t *testing.T) {
	tpl := synthesise(t, plain(t))
	equal(t, "depends on", at(t, tpl["Resources"], tpl.id(t, "ConsumerEventSource"), "DependsOn"),
		[]string{tpl.id(t, "ConsumerRoleDefaultPolicy")})
}

func TestEventSourceProperties(t *testing.T) {
	tpl := synthesise(t, plain(t, func(p *props) {
		p.Source.BatchSize = 500
		p.Source.BatchWindow = 5 * time.Second
		p.Source.StartingPosition = awslambda.StartingPosition_AT_TIMESTAMP
		p.Source.StartingTimestamp = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
		p.Source.Pollers.Min = 2
		p.Source.Pollers.Max = 8
		p.Source.Pollers.Group = "ledger"
		p.Source.Pollers.Log = "DEBUG"
		p.Source.Retries = new(20)
		p.Idempotency.RetryDelay = new(500 * time.Millisecond)
		p.Source.MaxRecordAge = 24 * time.Hour
		p.Source.KeepBatches = true
		p.Source.OnFailure.Topic = "payments-dlt"
		p.Source.Filters = []string{`{"value":{"kind":["payment"]}}`, `{"value":{"kind":["refund"]}}`}
		p.Source.SchemaRegistry = &consumer.SchemaRegistry{URI: "arn:aws:glue:eu-central-1:111122223333:registry/payments", Validate: []string{"key", "value"}}
	}))
	equal(t, "the event source", tpl.one(t, eventSource), values{
		"FunctionName":     tpl.ref(t, "ConsumerAlias"),
		"EventSourceArn":   cluster,
		"Topics":           []string{"payments"},
		"StartingPosition": "AT_TIMESTAMP", "StartingPositionTimestamp": 1795240800,
		"BatchSize": 500, "MaximumBatchingWindowInSeconds": 5,
		"FunctionResponseTypes":      []string{"ReportBatchItemFailures"},
		"BisectBatchOnFunctionError": false,
		"MaximumRetryAttempts":       20,
		"MaximumRecordAgeInSeconds":  86400,
		"DestinationConfig":          values{"OnFailure": values{"Destination": "kafka://payments-dlt"}},
		"ProvisionedPollerConfig": values{"MinimumPollers": 2, "MaximumPollers": 8,
			"PollerGroupName": "ledger"},
		"LoggingConfig": values{"SystemLogLevel": "DEBUG"},
		"MetricsConfig": values{"Metrics": []string{"EventCount", "ErrorCount", "KafkaMetrics"}},
		"FilterCriteria": values{"Filters": []values{{"Pattern": `{"value":{"kind":["payment"]}}`},
			{"Pattern": `{"value":{"kind":["refund"]}}`}}},
		"AmazonManagedKafkaEventSourceConfig": values{"ConsumerGroupId": "payments-ledger",
			"SchemaRegistryConfig": values{
				"SchemaRegistryURI":       "arn:aws:glue:eu-central-1:111122223333:registry/payments",
				"EventRecordFormat":       "JSON",
				"SchemaValidationConfigs": []values{{"Attribute": "KEY"}, {"Attribute": "VALUE"}},
			}},
	})
}

func TestEventSourceFailureDestination(t *testing.T) {
	for to, want := range map[consumer.OnFailure]func(tpl template) any{
		{Queue: true}:                        func(tpl template) any { return tpl.getAtt(t, "ConsumerOnFailure", "Arn") },
		{BucketARN: "arn:aws:s3:::given-up"}: func(template) any { return "arn:aws:s3:::given-up" },
		{Topic: "payments-given-up"}:         func(template) any { return "kafka://payments-given-up" },
	} {
		t.Run(text(to), func(t *testing.T) {
			tpl := synthesise(t, plain(t, finitely, func(p *props) { p.Source.OnFailure = to }))
			equal(t, "the destination", at(t, tpl.one(t, eventSource), "DestinationConfig", "OnFailure",
				"Destination"), want(tpl))
		})
	}
}

func TestAuthentication(t *testing.T) {
	self := func(p *props) {
		p.Cluster.ARN = ""
		p.Cluster.BootstrapServers = []string{"b-1.example.com:9096", "b-2.example.com:9096"}
		p.Cluster.SecretARN = secret
	}
	vpc := func(p *props) {
		p.Cluster.SubnetIDs = []string{"subnet-1"}
		p.Cluster.SecurityGroupIDs = []string{"sg-1"}
	}
	with := func(auth consumer.Auth) change {
		return func(p *props) { p.Cluster.Auth, p.Cluster.SecretARN = auth, secret }
	}
	access := func(pairs ...string) []values {
		var list []values
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, values{"Type": pairs[i], "URI": pairs[i+1]})
		}
		return list
	}
	network := []string{"VPC_SUBNET", "subnet:subnet-1", "VPC_SECURITY_GROUP", "security_group:sg-1"}
	for name, c := range map[string]struct {
		changes []change
		want    []values
	}{
		"MSK, IAM": {nil, nil},
		"MSK, SCRAM": {[]change{with(consumer.AuthSCRAM512)},
			access("SASL_SCRAM_512_AUTH", secret)},
		"MSK, mTLS": {[]change{with(consumer.AuthMTLS)},
			access("CLIENT_CERTIFICATE_TLS_AUTH", secret)},
		"MSK, none":           {[]change{func(p *props) { p.Cluster.Auth = consumer.AuthNone }}, nil},
		"self-managed, SCRAM": {[]change{self}, access("SASL_SCRAM_512_AUTH", secret)},
		"self-managed, weaker": {[]change{self, func(p *props) { p.Cluster.Auth = "scram-sha-256" }},
			access("SASL_SCRAM_256_AUTH", secret)},
		"self-managed, PLAIN, private CA, VPC": {[]change{self, vpc,
			func(p *props) { p.Cluster.Auth = "plain"; p.Cluster.CASecretARN = secret }},
			access(append([]string{"BASIC_AUTH", secret, "SERVER_ROOT_CA_CERTIFICATE", secret},
				network...)...)},
		"self-managed, mTLS": {[]change{self, func(p *props) { p.Cluster.Auth = "mtls" }},
			access("CLIENT_CERTIFICATE_TLS_AUTH", secret)},
		"self-managed, none, in a VPC": {[]change{self, vpc, func(p *props) { p.Cluster.Auth = "none"; p.Cluster.SecretARN = "" }},
			access(network...)},
	} {
		t.Run(name, func(t *testing.T) {
			source := synthesise(t, plain(t, c.changes...)).one(t, eventSource)
			var got, want any = source["SourceAccessConfigurations"], c.want
			if c.want == nil {
				want = nil
			}
			equal(t, "access", got, want)
			if source["SelfManagedEventSource"] != nil {
				equal(t, "brokers", at(t, source, "SelfManagedEventSource", "Endpoints",
					"KafkaBootstrapServers"),
					[]string{"b-1.example.com:9096", "b-2.example.com:9096"})
				equal(t, "group", source["SelfManagedKafkaEventSourceConfig"],
					values{"ConsumerGroupId": "payments-ledger"})
				equal(t, "cluster", source["EventSourceArn"], nil)
			}
		})
	}
}

// Partial failures without ReportBatchItemFailures would lose records.
func TestPartialFailuresAreOneProperty(t *testing.T) {
	for name, c := range map[string]struct {
		changes change
		want    eventsource.Failures
		types   any
	}{
		"by default": {nil, eventsource.FailPartial, []string{"ReportBatchItemFailures"}},
		"partial": {func(p *props) { p.Source.Failures = "partial" }, eventsource.FailPartial,
			[]string{"ReportBatchItemFailures"}},
		"batch":             {func(p *props) { p.Source.Failures = "batch" }, eventsource.FailBatch, nil},
		"on demand pollers": {func(p *props) { p.Source.Pollers.OnDemand = true }, eventsource.FailBatch, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tpl := synthesise(t, plain(t, c.changes))
			equal(t, "the function's", config(t, tpl).Failures, c.want)
			equal(t, "the event source's", tpl.one(t, eventSource)["FunctionResponseTypes"], c.types)
		})
	}
}

func TestOnDemandPollersOmitUnsupportedProperties(t *testing.T) {
	source := synthesise(t, plain(t, func(p *props) { p.Source.Pollers.OnDemand = true })).one(t, eventSource)
	for _, property := range []string{
		"ProvisionedPollerConfig", "FunctionResponseTypes", "BisectBatchOnFunctionError",
		"MaximumRetryAttempts", "MaximumRecordAgeInSeconds",
		"LoggingConfig", "MetricsConfig", "DestinationConfig",
	} {
		equal(t, property, source[property], nil)
	}
}

func TestEachTopicHasAnEventSource(t *testing.T) {
	tpl := synthesise(t, plain(t, func(p *props) {
		p.Source.Topics = []consumer.Topic{{Name: "payments"}, {Name: "refunds", Group: "refunds-ledger"}}
	}))
	groups := make(map[string]string)
	for _, source := range tpl.of(eventSource) {
		groups[at(t, source, "Topics", 0).(string)] = at(t, source, "AmazonManagedKafkaEventSourceConfig",
			"ConsumerGroupId").(string)
	}
	equal(t, "groups by topic", groups, map[string]string{"payments": "payments-ledger",
		"refunds": "refunds-ledger"})
	equal(t, "namespace", config(t, tpl).Records.Namespace, "payments-ledger")
	tpl.id(t, "ConsumerEventSource") // the first one's ID is what it was before there was a second
}

func TestConfluentRegistry(t *testing.T) {
	source := synthesise(t, plain(t, func(p *props) {
		p.Source.SchemaRegistry = &consumer.SchemaRegistry{URI: "https://registry.example.com", SecretARN: secret, Format: "source"}
	})).one(t, eventSource)
	equal(t, "the registry", at(t, source, "AmazonManagedKafkaEventSourceConfig", "SchemaRegistryConfig"),
		values{
			"SchemaRegistryURI": "https://registry.example.com", "EventRecordFormat": "SOURCE",
			"SchemaValidationConfigs": []values{{"Attribute": "VALUE"}},
			"AccessConfigs":           []values{{"Type": "BASIC_AUTH", "URI": secret}},
		})
}
