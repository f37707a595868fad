package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

type object = map[string]any

func mapping(topic, function string, more object) object {
	m := object{
		"UUID": "uuid-" + topic, "Topics": []string{topic}, "State": "Enabled",
		"FunctionArn":      "arn:aws:lambda:us-east-1:000000000000:function:" + function + ":live",
		"EventSourceArn":   "arn:aws:kafka:us-east-1:000000000000:cluster/c/1",
		"StartingPosition": "TRIM_HORIZON", "BatchSize": 100,
	}
	for name, value := range more {
		m[name] = value
	}
	return m
}

// deployedAt starts a Lambda endpoint with event source mappings, and returns options for it. It answers as
// LocalStack 2026.3.0 does: GetFunction accepts versions and aliases, GetFunctionConfiguration accepts
// versions only.
func deployedAt(t *testing.T, mappings ...object) (string, *local.Options) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch {
		case strings.HasSuffix(r.URL.Path, "/event-source-mappings"),
			strings.HasSuffix(r.URL.Path, "/event-source-mappings/"):
			_ = json.NewEncoder(w).Encode(object{"EventSourceMappings": mappings})
		case strings.HasSuffix(r.URL.Path, ":live"):
			_, _ = io.WriteString(w, `{"Configuration":{"Timeout":77}}`)
		default:
			w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	cfg := awstest.Config(t, server.URL)
	cfg.RetryMaxAttempts = 1
	o := &local.Options{ESM: esm.DefaultConfig(),
		AWS: func(context.Context) (aws.Config, error) { return cfg, nil }}
	return server.URL, o
}

func TestFromMapping(t *testing.T) {
	t.Parallel()
	url, o := deployedAt(t, object{"UUID": "q", "EventSourceArn": "arn:aws:sqs:us-east-1:000000000000:q"},
		mapping("payments", "ledger", object{
			"BatchSize": 321, "MaximumBatchingWindowInSeconds": 7, "StartingPosition": "AT_TIMESTAMP",
			"StartingPositionTimestamp": 1767225600.5,
			"MaximumRetryAttempts":      4, "MaximumRecordAgeInSeconds": 90,
			"BisectBatchOnFunctionError":          true,
			"FunctionResponseTypes":               []string{"ReportBatchItemFailures"},
			"ProvisionedPollerConfig":             object{"MinimumPollers": 2, "MaximumPollers": 5},
			"AmazonManagedKafkaEventSourceConfig": object{"ConsumerGroupId": "payments-ledger"},
			"FilterCriteria":                      object{"Filters": []object{{"Pattern": `{"value":{"a":[1]}}`}}},
			"DestinationConfig":                   object{"OnFailure": object{"Destination": "kafka://gave-up"}},
		}))
	said, err := local.FromMapping(t.Context(), o, url, local.Wanted{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said, "mapping uuid-payments at "+url+
		": topic payments, group payments-ledger, batches of 321, to arn:aws:lambda:") {
		t.Errorf("said %s", said)
	}
	c := &o.ESM
	if o.Invoke != url || o.Store != local.StoreNone ||
		!strings.HasSuffix(o.FunctionName, ":function:ledger:live") || c.Timeout != 77*time.Second {
		t.Errorf("the function: %+v", o)
	}
	if !slices.Equal(c.Topics, []string{"payments"}) || c.ConsumerGroup != "payments-ledger" ||
		c.BatchSize != 321 || c.MaximumBatchingWindow != 7*time.Second ||
		c.StartingPosition != esm.AtTimestamp || c.StartingPositionTimestamp.UnixMilli() != 1767225600500 ||
		c.MaximumRetryAttempts != 4 ||
		c.MaximumRecordAge != 90*time.Second || !c.BisectBatchOnFunctionError ||
		!slices.Equal(c.FunctionResponseTypes, []string{esm.ReportBatchItemFailures}) ||
		c.Pollers != 5 || c.FilterCriteria != `{"Filters":[{"Pattern":"{\"value\":{\"a\":[1]}}"}]}` ||
		c.OnFailure != "kafka://gave-up" ||
		c.EventSourceARN != "arn:aws:kafka:us-east-1:000000000000:cluster/c/1" {
		t.Errorf("%+v", c)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

// The schema registry of a mapping is taken over. An address that the caller gives replaces that of the
// mapping.
func TestFromMappingWithASchemaRegistry(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:glue:us-east-1:000000000000:registry/bank"
	for name, test := range map[string]struct {
		config, access object
		given          string
		want, says     string
	}{
		"MSK": {object{}, nil, "", arn, ""},
		"an address of the caller": {object{},
			object{"Type": "BASIC_AUTH", "URI": "arn:aws:secretsmanager:us-east-1:000000000000:secret:s"},
			local.RegistryFake, local.RegistryFake, ""},
		"authentication": {object{}, object{"Type": "BASIC_AUTH"}, "", "",
			"registry " + arn + " of the event source mapping uuid-payments needs authentication"},
		"no registry": {nil, nil, local.RegistryFake, "",
			"--schema-registry: the event source mapping uuid-payments has no schema registry"},
	} {
		for _, source := range []string{"AmazonManagedKafkaEventSourceConfig",
			"SelfManagedKafkaEventSourceConfig"} {
			more := object{source: object{"ConsumerGroupId": "g"}}
			if test.config != nil {
				config := object{"SchemaRegistryURI": arn, "EventRecordFormat": "SOURCE",
					"SchemaValidationConfigs": []object{{"Attribute": "KEY"}, {"Attribute": "VALUE"}}}
				if test.access != nil {
					config["AccessConfigs"] = []object{test.access}
				}
				more[source] = object{"ConsumerGroupId": "g", "SchemaRegistryConfig": config}
			}
			url, o := deployedAt(t, mapping("payments", "ledger", more))
			o.SchemaRegistry = test.given
			_, err := local.FromMapping(t.Context(), o, url, local.Wanted{})
			if test.says != "" {
				if !errors.Is(err, local.ErrOptions) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("%s: %v; want %q", name, err, test.says)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			want := esm.SchemaRegistry{EventRecordFormat: esm.FormatSource,
				Attributes: []string{esm.AttributeKey, esm.AttributeValue}}
			if o.SchemaRegistry != test.want || o.ESM.SchemaRegistry == nil ||
				!reflect.DeepEqual(*o.ESM.SchemaRegistry, want) {
				t.Errorf("%s: %s, %+v", name, o.SchemaRegistry, o.ESM.SchemaRegistry)
			}
			if err := o.ESM.Validate(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Parameters that a mapping does not set keep AWS's default. A self-managed cluster has no ARN, and its group
// is the mapping's UUID.
func TestFromMappingWithDefaults(t *testing.T) {
	t.Parallel()
	m := mapping("payments", "ledger", object{"SelfManagedEventSource": object{},
		"MaximumRecordAgeInSeconds": -1, "MaximumRetryAttempts": -1})
	delete(m, "EventSourceArn")
	delete(m, "BatchSize")
	url, o := deployedAt(t, m)
	if _, err := local.FromMapping(t.Context(), o, url,
		local.Wanted{Function: "ledger", Topic: "payments"}); err != nil {
		t.Fatal(err)
	}
	if c := &o.ESM; c.ConsumerGroup != "uuid-payments" || c.BatchSize != 100 ||
		c.MaximumRecordAge != esm.Infinite || c.MaximumRetryAttempts != esm.Infinite || c.Validate() != nil {
		t.Errorf("%+v: %v", c, c.Validate())
	}
}

// The function is named in any form that AWS accepts. make deploy-local prints the ARN of the alias.
func TestFromMappingOfANamedFunction(t *testing.T) {
	t.Parallel()
	two := []object{mapping("payments", "ledger", nil), mapping("refunds", "other", nil)}
	const arn = "arn:aws:lambda:us-east-1:000000000000:function:ledger"
	for _, name := range []string{"ledger", "ledger:live", arn, arn + ":live",
		"000000000000:function:ledger"} {
		url, o := deployedAt(t, two...)
		if _, err := local.FromMapping(t.Context(), o, url, local.Wanted{Function: name}); err != nil ||
			o.FunctionName != arn+":live" {
			t.Errorf("%s: %s, %v", name, o.FunctionName, err)
		}
	}
	for _, name := range []string{"ledger:other", "led", "ledger:live:live",
		strings.Replace(arn, "us-east-1", "eu-west-1", 1)} {
		url, o := deployedAt(t, two...)
		_, err := local.FromMapping(t.Context(), o, url, local.Wanted{Function: name})
		if err == nil || !strings.HasSuffix(err.Error(),
			"for the function "+name+"; there are: topic payments to ledger:live; topic refunds to other:live") {
			t.Errorf("%s: %v; want an error that lists the mappings", name, err)
		}
	}
}

func TestFromMappingThatCannotBeServed(t *testing.T) {
	t.Parallel()
	two := []object{mapping("payments", "ledger", nil), mapping("refunds", "ledger", nil)}
	for says, test := range map[string]struct {
		mappings []object
		wanted   local.Wanted
	}{
		"there is no event source mapping on Kafka at http://127.0.0.1": {nil, local.Wanted{}},
		": deploy one (make deploy-local)":                              {nil, local.Wanted{}},
		"for the function other with the topic payments; there are: topic payments to": {two,
			local.Wanted{Function: "other", Topic: "payments"}},
		"there are 2 event source mappings": {two, local.Wanted{}},
		"name one with --function-name or --topic: topic payments to ledger:live; topic": {two,
			local.Wanted{Function: "ledger"}},
		"the event source mapping uuid-payments is disabled: enable it": {[]object{mapping(
			"payments", "ledger", object{"State": "Disabled"})}, local.Wanted{}},
		"the function arn:aws:lambda:us-east-1:000000000000:function:gone of the event": {[]object{mapping(
			"payments", "x", object{"FunctionArn": "arn:aws:lambda:us-east-1:000000000000:function:gone"})},
			local.Wanted{}},
	} {
		url, o := deployedAt(t, test.mappings...)
		if _, err := local.FromMapping(t.Context(), o, url, test.wanted); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%v; want an error that says %q", err, says)
		}
	}
	_, o := deployedAt(t)
	if _, err := local.FromMapping(t.Context(), o, "http://127.0.0.1:1", local.Wanted{}); err == nil ||
		!strings.Contains(err.Error(), "nothing answers at http://127.0.0.1:1") {
		t.Errorf("%v", err)
	}
}
