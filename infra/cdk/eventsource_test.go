package main

import (
	"testing"

	"github.com/idemsk/idemsk/lambda/eventsource"
)

func TestEventSource(t *testing.T) {
	for name, arn := range map[string]string{"provisioned": cluster, "serverless": serverless} {
		t.Run(name, func(t *testing.T) {
			tpl := synthesise(t, plain(t, values{"clusterArn": arn}))
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

func TestEventSourceSettings(t *testing.T) {
	tpl := synthesise(t, plain(t, values{
		"batchSize": 500, "batchWindow": "5s", "startingPosition": "2026-11-21T06:00:00Z", "pollersMin": 2,
		"pollersMax": 8, "pollerGroup": "ledger",
		"pollerLog": "DEBUG", "retries": 20, "retryDelay": "500ms", "maxRecordAge": "24h",
		"keepBatches": true, "onFailure": "topic:payments-dlt",
		"filters":        `[{"value":{"kind":["payment"]}},{"value":{"kind":["refund"]}}]`,
		"schemaRegistry": "arn:aws:glue:eu-central-1:111122223333:registry/payments",
		"schemaValidate": "key,value",
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
	for setting, want := range map[string]func(tpl template) any{
		"queue": func(
			tpl template) any {
			return tpl.getAtt(t, "ConsumerOnFailure", "Arn")
		},
		"arn:aws:s3:::given-up":   func(template) any { return "arn:aws:s3:::given-up" },
		"topic:payments-given-up": func(template) any { return "kafka://payments-given-up" },
	} {
		t.Run(setting, func(t *testing.T) {
			tpl := synthesise(t, plain(t, values{"onFailure": setting, "retries": 10, "retryDelay": "500ms"}))
			equal(t, "the destination", at(t, tpl.one(t, eventSource), "DestinationConfig", "OnFailure",
				"Destination"), want(tpl))
		})
	}
}

func TestAuthentication(t *testing.T) {
	self := values{"clusterArn": nil, "bootstrapServers": "b-1.example.com:9096,b-2.example.com:9096",
		"secretArn": secret}
	vpc := values{"brokerSubnets": "subnet-1", "brokerSecurityGroups": "sg-1"}
	access := func(pairs ...string) []values {
		var list []values
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, values{"Type": pairs[i], "URI": pairs[i+1]})
		}
		return list
	}
	network := []string{"VPC_SUBNET", "subnet:subnet-1", "VPC_SECURITY_GROUP", "security_group:sg-1"}
	for name, c := range map[string]struct {
		settings []values
		want     []values
	}{
		"MSK, IAM": {nil, nil},
		"MSK, SCRAM": {[]values{{"auth": "scram-sha-512", "secretArn": secret}},
			access("SASL_SCRAM_512_AUTH", secret)},
		"MSK, mTLS": {[]values{{"auth": "mtls", "secretArn": secret}},
			access("CLIENT_CERTIFICATE_TLS_AUTH", secret)},
		"MSK, none":           {[]values{{"auth": "none"}}, nil},
		"self-managed, SCRAM": {[]values{self}, access("SASL_SCRAM_512_AUTH", secret)},
		"self-managed, weaker": {[]values{self, {"auth": "scram-sha-256"}},
			access("SASL_SCRAM_256_AUTH", secret)},
		"self-managed, PLAIN, private CA, VPC": {[]values{self, vpc,
			{"auth": "plain", "caSecretArn": secret}},
			access(append([]string{"BASIC_AUTH", secret, "SERVER_ROOT_CA_CERTIFICATE", secret},
				network...)...)},
		"self-managed, mTLS": {[]values{self, {"auth": "mtls"}},
			access("CLIENT_CERTIFICATE_TLS_AUTH", secret)},
		"self-managed, none, in a VPC": {[]values{self, vpc, {"auth": "none", "secretArn": nil}},
			access(network...)},
	} {
		t.Run(name, func(t *testing.T) {
			source := synthesise(t, plain(t, c.settings...)).one(t, eventSource)
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
func TestPartialFailuresAreOneSetting(t *testing.T) {
	for name, c := range map[string]struct {
		settings values
		want     eventsource.Failures
		types    any
	}{
		"by default": {nil, eventsource.FailPartial, []string{"ReportBatchItemFailures"}},
		"partial": {values{"failures": "partial"}, eventsource.FailPartial,
			[]string{"ReportBatchItemFailures"}},
		"batch":             {values{"failures": "batch"}, eventsource.FailBatch, nil},
		"on demand pollers": {values{"onDemand": true}, eventsource.FailBatch, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tpl := synthesise(t, plain(t, c.settings))
			equal(t, "the function's", config(t, tpl).Failures, c.want)
			equal(t, "the event source's", tpl.one(t, eventSource)["FunctionResponseTypes"], c.types)
		})
	}
}

func TestOnDemandPollersOmitUnsupportedProperties(t *testing.T) {
	source := synthesise(t, plain(t, values{"onDemand": "true"})).one(t, eventSource)
	for _, property := range []string{
		"ProvisionedPollerConfig", "FunctionResponseTypes", "BisectBatchOnFunctionError",
		"MaximumRetryAttempts", "MaximumRecordAgeInSeconds",
		"LoggingConfig", "MetricsConfig", "DestinationConfig",
	} {
		equal(t, property, source[property], nil)
	}
}

func TestEachTopicHasAnEventSource(t *testing.T) {
	tpl := synthesise(t, plain(t, values{"topics": "payments,refunds=refunds-ledger"}))
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
	source := synthesise(t, plain(t, values{
		"schemaRegistry": "https://registry.example.com", "schemaRegistrySecretArn": secret,
		"schemaFormat": "source",
	})).one(t, eventSource)
	equal(t, "the registry", at(t, source, "AmazonManagedKafkaEventSourceConfig", "SchemaRegistryConfig"),
		values{
			"SchemaRegistryURI": "https://registry.example.com", "EventRecordFormat": "SOURCE",
			"SchemaValidationConfigs": []values{{"Attribute": "VALUE"}},
			"AccessConfigs":           []values{{"Type": "BASIC_AUTH", "URI": secret}},
		})
}
