package consumer_test

import (
	"archive/zip"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

const (
	cluster = "arn:aws:kafka:eu-central-1:111122223333:cluster/payments/6cc0432b-8618-4f44-bccc-e1fbd8fb7c4d-2"
	secret  = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:AmazonMSK_payments-AbCdEf"
	key     = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
)

// set are values of properties by path. A nil value is the zero value.
type set map[string]any

// with returns a set with the values of others.
func (s set) with(others ...set) set {
	all := maps.Clone(s)
	for _, other := range others {
		maps.Copy(all, other)
	}
	return all
}

// props returns the properties of a valid consumer with the values of a set.
func (s set) props() (p consumer.Props) {
	least := set{"Function.Code": "built", "Cluster.ARN": cluster,
		"Source.Topics": []consumer.Topic{{Name: "payments"}}, "Source.ConsumerGroup": "ledger"}
	for path, value := range least.with(s) {
		field := reflect.ValueOf(&p).Elem()
		for name := range strings.SplitSeq(path, ".") {
			if field.Kind() == reflect.Pointer {
				if field.IsNil() {
					field.Set(reflect.New(field.Type().Elem()))
				}
				field = field.Elem()
			}
			field = field.FieldByName(name)
		}
		switch v := reflect.ValueOf(value); {
		case value == nil:
			field.SetZero()
		case field.Kind() == reflect.Pointer && field.Type() != v.Type():
			field.Set(reflect.New(field.Type().Elem()))
			field.Elem().Set(v)
		case field.Kind() == reflect.Interface:
			field.Set(v)
		default:
			field.Set(v.Convert(field.Type()))
		}
	}
	return p
}

var (
	selfManaged = set{"Cluster.ARN": "", "Cluster.BootstrapServers": []string{"b-1.example.com:9096"},
		"Cluster.SecretARN": secret}
	// wrapped is a function behind the layer.
	wrapped = set{"Function.Runtime": "python3.13", "Function.Handler": "app.handler",
		"Function.LayerZip": "layer.zip"}
	// outbox is one with public brokers.
	outbox = set{"Outbox.RelayCode": "built", "Outbox.Brokers": []string{"b-1.example.com:9198"},
		"Outbox.Topics": []string{"credited"}}
	maintenance = set{"Maintenance.Code": "built", "Maintenance.Export.BucketARN": "arn:aws:s3:::exports/bookings/"}
	// finite has finite retries, and no delay between attempts.
	finite = set{"Source.Retries": 10, "Source.OnFailure.Queue": true, "Idempotency.RetryDelay": time.Duration(0)}
	redis  = set{"Store.Type": consumer.StoreRedis, "Store.URL": "redis://h"}
)

// vpc stands for one.
type vpc struct{ awsec2.IVpc }

// built changes to a directory with the files that the properties name.
func built(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	err := os.MkdirAll("folder/bootstrap", 0o750)
	for name, content := range map[string]string{
		"built/bootstrap": "#!/bin/sh\n",
		"layer.zip":       zipped(t, "bin/idemsk-layer", "\x7fELF"+strings.Repeat("\x00", 14)+"\xb7\x00"),
		"program.zip":     zipped(t, "bootstrap", "\x7fELF"+strings.Repeat("\x00", 14)+"\xb7\x00"),
		"intel.zip":       zipped(t, "bootstrap", "\x7fELF"+strings.Repeat("\x00", 14)+"\x3e\x00"),
		"apple/bootstrap": "\xcf\xfa\xed\xfe" + strings.Repeat("\x00", 28),
		"other.zip":       zipped(t, "bootstrap", ""),
		"short.zip":       zipped(t, "bin/idemsk-layer", ""),
		"script.zip":      zipped(t, "bin/idemsk-layer", "#!/bin/sh\nexec something-else\n"),
	} {
		if err == nil {
			err = os.MkdirAll(filepath.Dir(name), 0o750)
		}
		if err == nil {
			err = os.WriteFile(name, []byte(content), 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// zipped returns a zip with one file.
func zipped(t *testing.T, name, content string) string {
	t.Helper()
	var file strings.Builder
	z := zip.NewWriter(&file)
	w, err := z.Create(name)
	if err == nil {
		_, err = w.Write([]byte(content))
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return file.String()
}

func TestValidProps(t *testing.T) {
	built(t)
	for name, given := range map[string]set{
		"least":      {},
		"a .zip":     {"Function.Code": "program.zip"},
		"x86-64":     {"Function.Code": "intel.zip", "Function.Architecture": consumer.X8664},
		"serverless": {"Cluster.ARN": cluster[:len(cluster)-1] + "s3"},
		"China":      {"Cluster.ARN": strings.Replace(cluster, "arn:aws:", "arn:aws-cn:", 1)},
		"tokens": finite.with(set{"Cluster.ARN": "${Token[TOKEN.1]}", "Cluster.Auth": "scram-sha-512",
			"Cluster.SecretARN": "${Token[TOKEN.2]}", "Source.OnFailure.Queue": nil,
			"Source.OnFailure.BucketARN": "${Token[TOKEN.3]}", "Idempotency.Namespace": "${Token[TOKEN.4]}"}),
		"tokens of a server": redis.with(set{"Store.URL": "${Token[TOKEN.1]}"}),
		"self-managed":       selfManaged,
		"self-managed, two brokers": selfManaged.with(set{
			"Cluster.BootstrapServers": []string{"b-1.example.com:9096", "10.0.0.1:9092"}}),
		"retries that span the lease": finite.with(set{"Source.Retries": 5}),
		"retries with short waits": finite.with(set{"Source.Retries": 7,
			"Idempotency.Wait": 5 * time.Second}),
		"deliveries that wait for the longest delay": finite.with(set{"Idempotency.RetryDelay": time.Second,
			"Function.Timeout": 65 * time.Second}),
		"no outage and no delay": {"Idempotency.RetryDelay": time.Duration(0),
			"Idempotency.OutageFailures": 0},
		"the longest retention of the topic": {"Source.TopicRetention": 168 * time.Hour},
		"a topic that outlives the record age": finite.with(set{"Source.TopicRetention": 1000 * time.Hour,
			"Source.MaxRecordAge": 168 * time.Hour, "Idempotency.RetryDelay": 500 * time.Millisecond}),
		"the largest batch":                     {"Source.BatchSize": 2975},
		"the largest batch, order by key":       {"Source.BatchSize": 10_000, "Idempotency.Order": "key"},
		"the longest timeout":                   {"Function.Timeout": 14 * time.Minute},
		"the namespace that is deployed":        {"Idempotency.DeployedNamespace": "ledger"},
		"the scope of keys that is deployed":    {"Idempotency.DeployedKeyScope": "topic:payments"},
		"a hash of the value as the key":        {"Idempotency.Key": "hash:$.id"},
		"an outbox":                             outbox,
		"an outbox in a VPC":                    outbox.with(set{"Network.VPC": vpc{}, "Outbox.Brokers": []string{"b:9098"}}),
		"an outbox's table that is set by hand": {"Function.Environment": map[string]string{"IDEMSK_OUTBOX_TABLE": "t"}},
		"an outbox with tokens":                 outbox.with(set{"Outbox.Brokers": []string{"${Token[TOKEN.1]}"}}),
		"maintenance":                           maintenance,
		"a function in Python":                  wrapped,
		"a function in Java": wrapped.with(set{"Function.Runtime": "java8.al2", "Function.Handler": "App",
			"Function.Code": "built/bootstrap"}),
		"a wrapper script of its own in Go": {
			"Function.Environment": map[string]string{"AWS_LAMBDA_EXEC_WRAPPER": "/opt/other"}},
		"on demand": {"Source.Pollers.OnDemand": true},
		"two topics, a group each": {
			"Source.Topics": []consumer.Topic{{Name: "payments"}, {Name: "refunds", Group: "refunds"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := consumer.Check(given.props()); err != nil {
				t.Error(err)
			}
		})
	}
}
