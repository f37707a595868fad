package consumer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// refused has the properties of a check by its message. Each message is the only one.
type refused map[string]set

func (all refused) run(t *testing.T) {
	t.Helper()
	built(t)
	for want, given := range all {
		t.Run(want, func(t *testing.T) {
			if err := consumer.Check(given.props()); err == nil || err.Error() != want {
				t.Errorf("Check says:\n%v\nwant:\n%s", err, want)
			}
		})
	}
}

func TestChecksOfCode(t *testing.T) {
	const (
		missing = "want the directory or the .zip file of the function's program, but it has no file bootstrap: build it with " +
			"GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build -tags lambda.norpc "
		layer = "dist/idemsk-layer-arm64.zip after `make build`: "
		none  = ": want none with Function.Runtime provided.al2023, or another Function.Runtime: it is of functions behind the layer"
	)
	refused{
		`Function.Code is "": want the directory or the .zip file of the function's program, which is named bootstrap`:   {"Function.Code": ""},
		`Function.Code is "nowhere": ` + missing + "-o nowhere/bootstrap .":                                              {"Function.Code": "nowhere"},
		`Function.Code is "layer.zip": ` + missing + "-o DIR/bootstrap .":                                                {"Function.Code": "layer.zip"},
		`Function.Code is "folder": want the directory or the .zip file of the function's program: bootstrap is no file`: {"Function.Code": "folder"},
		`Function.Code is "apple": want the directory or the .zip file of the function's program: ` +
			"bootstrap is no program for Linux on arm64 or x86_64": {"Function.Code": "apple"},
		`Function.Code is "intel.zip": want a program for Function.Architecture arm64: bootstrap is for x86_64; build it with GOARCH=arm64`:   {"Function.Code": "intel.zip"},
		`Function.Code is "program.zip": want a program for Function.Architecture x86_64: bootstrap is for arm64; build it with GOARCH=amd64`: {"Function.Code": "program.zip", "Function.Architecture": consumer.X8664},
		`Function.Handler is "app.handler"` + none:                  {"Function.Handler": "app.handler"},
		`Function.LayerZip is "layer.zip"` + none:                   {"Function.LayerZip": "layer.zip"},
		`Function.Architecture is "arm": want one of arm64, x86_64`: {"Function.Architecture": "arm"},
		`Function.Runtime is "python2": want provided.al2023, or one of Python, Node.js, Java, .NET or Ruby, like python3.13`:                                   wrapped.with(set{"Function.Runtime": "python2"}),
		`Function.Code is "": want the directory of the function's code, or its .zip or .jar file`:                                                              wrapped.with(set{"Function.Code": ""}),
		`Function.Code is "nowhere": want the directory of the function's code, or its .zip or .jar file, which must exist`:                                     wrapped.with(set{"Function.Code": "nowhere"}),
		`Function.Handler is "": want the function's handler as Function.Runtime takes it, like app.handler: up to 128 characters without blanks`:               wrapped.with(set{"Function.Handler": ""}),
		`Function.Handler is "my app.handler": want the function's handler as Function.Runtime takes it, like app.handler: up to 128 characters without blanks`: wrapped.with(set{"Function.Handler": "my app.handler"}),
		"Function.LayerZip is \"\": want the file of the layer: dist/idemsk-layer-arm64.zip after `make build`":                                                 wrapped.with(set{"Function.LayerZip": ""}),
		"Function.LayerZip is \"\": want the file of the layer: dist/idemsk-layer-x86_64-redis.zip after `make build`":                                          wrapped.with(redis, set{"Function.LayerZip": "", "Function.Architecture": consumer.X8664}),
		"Function.LayerZip is \"nowhere.zip\": want the file of the layer, " + layer + "open nowhere.zip: no such file or directory":                            wrapped.with(set{"Function.LayerZip": "nowhere.zip"}),
		"Function.LayerZip is \"built/bootstrap\": want the file of the layer, " + layer + "zip: not a valid zip file":                                          wrapped.with(set{"Function.LayerZip": "built/bootstrap"}),
		"Function.LayerZip is \"other.zip\": want the file of the layer, " + layer + "it has no bin/idemsk-layer":                                               wrapped.with(set{"Function.LayerZip": "other.zip"}),
		"Function.LayerZip is \"short.zip\": want the file of the layer, " + layer + "bin/idemsk-layer: EOF":                                                    wrapped.with(set{"Function.LayerZip": "short.zip"}),
		"Function.LayerZip is \"script.zip\": want the file of the layer, " + layer + "bin/idemsk-layer is a script":                                            wrapped.with(set{"Function.LayerZip": "script.zip"}),
		"Function.LayerZip is \"layer.zip\": want the layer for Function.Architecture x86_64, dist/idemsk-layer-x86_64.zip: this one is for arm64":              wrapped.with(set{"Function.Architecture": consumer.X8664}),
		`Idempotency.Concurrency is "8": want none with Function.Runtime python3.13: the layer makes one call at a time`:                                        wrapped.with(set{"Idempotency.Concurrency": 8}),
		`Outbox is "set": want none with Function.Runtime python3.13: handlers publish by the library, in its transactions`:                                     wrapped.with(outbox),
	}.run(t)
}

func TestChecksOfTheFunction(t *testing.T) {
	refused{
		`Function.Timeout is "15m": want whole seconds from 1s to 14m`:                                                                                           {"Function.Timeout": 15 * time.Minute},
		`Function.Timeout is "1m0.5s": want whole seconds from 1s to 14m`:                                                                                        {"Function.Timeout": 60500 * time.Millisecond},
		`Function.Timeout is "30s": want more than Idempotency.Lease, 30s: an invocation could never wait for a dead one's lease`:                                {"Function.Timeout": 30 * time.Second},
		`Function.MemoryMB is "64": want 128 to 10240`:                                                                                                           {"Function.MemoryMB": 64},
		`Function.ReservedConcurrency is "-1": want 1 to 1000000`:                                                                                                {"Function.ReservedConcurrency": -1},
		`Function.LogLevel is "LOUD": want one of INFO, DEBUG, WARN, ERROR`:                                                                                      {"Function.LogLevel": "LOUD"},
		`Function.LogRetentionDays is "31": want one of 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653`: {"Function.LogRetentionDays": 31},
		`Function.Canary is "some": want one of off, 10-percent-5-minutes, 10-percent-15-minutes, linear-10-percent-every-minute`:                                {"Function.Canary": "some"},
		`Function.Environment is "1A": want names of letters, digits and '_', a letter first`:                                                                    {"Function.Environment": map[string]string{"1A": ""}},
		`Function.Environment is "IDEMSK_FAILURES": want other names: the construct sets this one from its own property`:                                         {"Function.Environment": map[string]string{"IDEMSK_FAILURES": "partial"}},
		`Function.Environment is "IDEMSK_DEAD_LETTER_BUCKET": want other names: the construct sets this one from its own property`:                               {"Function.Environment": map[string]string{"IDEMSK_DEAD_LETTER_BUCKET": "b"}},
		`Function.Environment is "IDEMSK_OUTBOX_TABLE": want other names: the construct sets this one from its own property`:                                     outbox.with(set{"Function.Environment": map[string]string{"IDEMSK_OUTBOX_TABLE": "t"}}),
		`Function.Environment is "AWS_LAMBDA_EXEC_WRAPPER": want other names: the construct sets this one from its own property`:                                 wrapped.with(set{"Function.Environment": map[string]string{"AWS_LAMBDA_EXEC_WRAPPER": "/opt/other"}}),
		`DeadLetters.BucketARN is "letters": want arn:aws:s3:::NAME, or arn:aws:s3:::NAME/PREFIX`:                                                                {"DeadLetters.BucketARN": "letters"},
		`RemovalPolicy is "SNAPSHOT": want one of RETAIN, DESTROY`:                                                                                               {"RemovalPolicy": awscdk.RemovalPolicy_SNAPSHOT},
		`Alarms.Email is "oncall": want an address like oncall@example.com`:                                                                                      {"Alarms.Email": "oncall"},
		`Alarms.MaxLag is "-1": want 1 to 1000000000`:                                                                                                            {"Alarms.MaxLag": -1},
		`Alarms.MaxInProgress is "1ms": want 1s to 87600h`:                                                                                                       {"Alarms.MaxInProgress": time.Millisecond},
		`Alarms.MaxAge is "1ms": want 1s to 87600h`:                                                                                                              {"Alarms.MaxAge": time.Millisecond},
		`VPCEndpoints is "true": want Network.VPC with it`:                                                                                                       {"VPCEndpoints": true},
		`Network.Subnets is "set": want Network.VPC with it`:                                                                                                     {"Network.Subnets": &awsec2.SubnetSelection{}},
		`Network.SecurityGroups is "set": want Network.VPC with it`:                                                                                              {"Network.SecurityGroups": []awsec2.ISecurityGroup{nil}},
	}.run(t)
}

func TestChecksOfTheCluster(t *testing.T) {
	const secretForm = ": want arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME"
	refused{
		`Cluster.ARN is "": want an MSK cluster's ARN, or Cluster.BootstrapServers for a self-managed cluster`:       {"Cluster.ARN": ""},
		`Cluster.ARN is "payments": want arn:aws:kafka:REGION:ACCOUNT:cluster/NAME/UUID`:                             {"Cluster.ARN": "payments"},
		`Cluster.BootstrapServers is "b:1,b:2": want none together with Cluster.ARN: one consumer reads one cluster`: selfManaged.with(set{"Cluster.ARN": cluster, "Cluster.BootstrapServers": []string{"b:1", "b:2"}}),
		`Cluster.BootstrapServers is "b:1,broker": want HOST:PORT for each`:                                          selfManaged.with(set{"Cluster.BootstrapServers": []string{"b:1", "broker"}}),
		`Cluster.BootstrapServers is "b:1,b:1": want each once`:                                                      selfManaged.with(set{"Cluster.BootstrapServers": []string{"b:1", "b:1"}}),
		`Cluster.BootstrapServers is "b:1,b:2,b:3,b:4,b:5,b:6,b:7,b:8,b:9,b:0,c:1": want at most 10`:                 selfManaged.with(set{"Cluster.BootstrapServers": strings.Fields("b:1 b:2 b:3 b:4 b:5 b:6 b:7 b:8 b:9 b:0 c:1")}),
		`Cluster.Auth is "scram-sha-256": want one of iam, scram-sha-512, mtls, none`:                                {"Cluster.Auth": consumer.AuthSCRAM256, "Cluster.SecretARN": secret},
		`Cluster.Auth is "iam": want one of scram-sha-512, scram-sha-256, plain, mtls, none`:                         selfManaged.with(set{"Cluster.Auth": consumer.AuthIAM}),
		`Cluster.Auth is "none": want another one, or Cluster.SubnetIDs: brokers on the internet must authenticate`:  selfManaged.with(set{"Cluster.Auth": consumer.AuthNone, "Cluster.SecretARN": ""}),
		`Cluster.SecretARN is "": want the ARN of the secret that Cluster.Auth mtls needs`:                           {"Cluster.Auth": consumer.AuthMTLS},
		`Cluster.SecretARN is "` + secret + `": want none with Cluster.Auth iam, which uses no secret`:               {"Cluster.SecretARN": secret},
		`Cluster.SecretARN is "secret"` + secretForm:                                                                 {"Cluster.Auth": consumer.AuthMTLS, "Cluster.SecretARN": "secret"},
		`Cluster.SecretKeyARN is "key": want arn:aws:kms:REGION:ACCOUNT:key/ID`:                                      {"Cluster.SecretKeyARN": "key"},
		`Cluster.CASecretARN is "ca"` + secretForm:                                                                   selfManaged.with(set{"Cluster.CASecretARN": "ca"}),
		`Cluster.CASecretARN is "` + secret + `": want none with Cluster.ARN: Lambda trusts the certificates of MSK`: {"Cluster.CASecretARN": secret},
		`Cluster.SubnetIDs is "subnet-1": want both or neither of Cluster.SubnetIDs and Cluster.SecurityGroupIDs`:    selfManaged.with(set{"Cluster.SubnetIDs": []string{"subnet-1"}}),
		`Cluster.SubnetIDs is "subnet-1": want none with Cluster.ARN: AWS knows the network of an MSK cluster`:       {"Cluster.SubnetIDs": []string{"subnet-1"}},
		`Cluster.SecurityGroupIDs is "sg-1": want none with Cluster.ARN: AWS knows the network of an MSK cluster`:    {"Cluster.SecurityGroupIDs": []string{"sg-1"}},
	}.run(t)
}

func TestChecksOfTopics(t *testing.T) {
	topics := func(all ...consumer.Topic) set { return set{"Source.Topics": all} }
	const again = " would count as new and take effect again"
	refused{
		`Source.Topics is "": want at least one topic`:                                                                                                 topics(),
		`Source.Topics is "a b": want 1 to 249 letters, digits, '.', '_' and '-'`:                                                                      topics(consumer.Topic{Name: "a b"}),
		`Source.Topics is "payments=a b": want a group of 1 to 200 letters, digits or any of -/*:_+=.@`:                                                topics(consumer.Topic{Name: "payments", Group: "a b"}),
		`Source.Topics is "refunds": want a group of its own, as in refunds=GROUP: AWS wants another for every event source, and payments has ledger`:  topics(consumer.Topic{Name: "payments"}, consumer.Topic{Name: "refunds"}),
		`Source.Topics is "payments": want each topic once`:                                                                                            topics(consumer.Topic{Name: "payments"}, consumer.Topic{Name: "payments", Group: "other"}),
		`Source.ConsumerGroup is "": want 1 to 200 letters, digits or any of -/*:_+=.@`:                                                                {"Source.ConsumerGroup": ""},
		`Idempotency.Namespace is "a#b": want a name without '#'`:                                                                                      {"Idempotency.Namespace": "a#b"},
		`Idempotency.Namespace is "ledger-2": want "ledger", the deployed one: in another namespace every record counts as new and takes effect again`: {"Source.ConsumerGroup": "ledger-2", "Idempotency.DeployedNamespace": "ledger"},
		`Idempotency.KeyScope is "account": want one of topic, namespace`:                                                                              {"Idempotency.KeyScope": "account"},
		`Idempotency.KeyScope is "topic:payments": want "topic:paid+payments", the deployed one, or topics added to it: the records of paid` + again:   {"Idempotency.DeployedKeyScope": "topic:paid+payments"},
		`Idempotency.KeyScope is "namespace": want "topic:payments", the deployed one, or topics added to it: the records of every topic` + again:      {"Idempotency.KeyScope": "namespace", "Idempotency.DeployedKeyScope": "topic:payments"},
	}.run(t)
}

func TestChecksOfTheEventSource(t *testing.T) {
	const (
		age      = ": want whole seconds from 1m to 168h"
		at       = ": want a time with Source.StartingPosition AT_TIMESTAMP, none with another"
		onDemand = ": want none with Source.Pollers.OnDemand: AWS offers it in provisioned mode only"
		needs    = ", and Function.Timeout less Idempotency.DeadlineMargin is 59.5s"
		pattern  = `: want a JSON object of at most 4096 bytes, like {"value":{"kind":["payment"]}}, for each`
	)
	registry := func(more set) set { return set{"Source.SchemaRegistry.URI": "https://registry"}.with(more) }
	refused{
		`Source.BatchSize is "10001": want 1 to 10000`:                                                            {"Source.BatchSize": 10_001},
		`Source.BatchSize is "-1": want 1 to 10000`:                                                               {"Source.BatchSize": -1},
		`Source.BatchWindow is "1.5s": want whole seconds from 1s to 5m`:                                          {"Source.BatchWindow": 1500 * time.Millisecond},
		`Source.BatchWindow is "5m1s": want whole seconds from 1s to 5m`:                                          {"Source.BatchWindow": 301 * time.Second},
		`Source.RecordTime is "-1s": want 1µs to 14m`:                                                             {"Source.RecordTime": -time.Second},
		`Source.StartingPosition is "NEWEST": want one of TRIM_HORIZON, LATEST, AT_TIMESTAMP`:                     {"Source.StartingPosition": "NEWEST"},
		`Source.StartingTimestamp is "0001-01-01T00:00:00Z"` + at:                                                 {"Source.StartingPosition": "AT_TIMESTAMP"},
		`Source.StartingTimestamp is "1970-01-01T00:00:01Z"` + at:                                                 {"Source.StartingTimestamp": time.Unix(1, 0).UTC()},
		`Source.BatchSize is "2976": want at most 2975: at Source.RecordTime 20ms the batch takes 59.52s` + needs: {"Source.BatchSize": 2976},
		`Source.BatchSize is "3000": want at most 2975: at Source.RecordTime 20ms the batch takes 1m` + needs:     wrapped.with(set{"Source.BatchSize": 3000}),
		`Source.BatchSize is "100": want at most 59: at Source.RecordTime 1s the batch takes 1m40s` + needs:       {"Source.RecordTime": time.Second},
		`Source.BatchSize is "10000": want at most 9504: at Source.RecordTime 200ms the batch takes 1m2.6s` + needs: {
			"Source.BatchSize": 10_000, "Source.RecordTime": 200 * time.Millisecond, "Idempotency.Order": "none"},
		`Source.Retries is "10001": want 0 to 10000`:                    finite.with(set{"Source.Retries": 10_001}),
		`Source.MaxRecordAge is "59s"` + age:                            finite.with(set{"Source.MaxRecordAge": 59 * time.Second}),
		`Source.MaxRecordAge is "169h"` + age:                           finite.with(set{"Source.MaxRecordAge": 169 * time.Hour}),
		`Source.TopicRetention is "-1s": want 1s to 876000h`:            {"Source.TopicRetention": -time.Second},
		`Source.Pollers.Min is "201": want 1 to 200`:                    {"Source.Pollers.Min": 201},
		`Source.Pollers.Max is "2001": want 1 to 2000`:                  {"Source.Pollers.Max": 2001},
		`Source.Pollers.Min is "5": want at most Source.Pollers.Max, 4`: {"Source.Pollers.Min": 5, "Source.Pollers.Max": 4},
		`Source.Pollers.Log is "TRACE": want one of INFO, DEBUG, WARN`:  {"Source.Pollers.Log": "TRACE"},
		`Source.Failures is "all": want one of partial, batch`:          {"Source.Failures": "all"},
		`Source.Failures is "partial": want batch with Source.Pollers.OnDemand: AWS offers partial failures in provisioned mode only`: {"Source.Pollers.OnDemand": true, "Source.Failures": consumer.FailPartial},
		`Source.Pollers.Max is "5"` + onDemand:                                                                          {"Source.Pollers.OnDemand": true, "Source.Pollers.Max": 5},
		`Source.KeepBatches is "true"` + onDemand:                                                                       {"Source.Pollers.OnDemand": true, "Source.KeepBatches": true},
		`Source.SchemaRegistry.URI is "https://registry"` + onDemand:                                                    registry(set{"Source.Pollers.OnDemand": true}),
		`Source.Filters is "{},{ },{  },[]"` + pattern:                                                                  {"Source.Filters": []string{"{}", "{ }", "{  }", "[]"}},
		`Source.Filters is "1,2,3,4,5,6": want at most 5`:                                                               {"Source.Filters": strings.Fields("1 2 3 4 5 6")},
		`Source.SchemaRegistry.URI is "registry": want a Glue registry's ARN, or the https URL of a Confluent registry`: registry(set{"Source.SchemaRegistry.URI": "registry"}),
		`Source.SchemaRegistry.SecretARN is "secret": want arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME`:           registry(set{"Source.SchemaRegistry.SecretARN": "secret"}),
		`Source.SchemaRegistry.SecretARN is "` + secret + `": want none with a Glue registry, which the role may read`: {
			"Source.SchemaRegistry.URI":       "arn:aws:glue:eu-central-1:111122223333:registry/r",
			"Source.SchemaRegistry.SecretARN": secret},
		`Source.SchemaRegistry.Format is "avro": want one of json, source`:   registry(set{"Source.SchemaRegistry.Format": "avro"}),
		`Source.SchemaRegistry.Validate is "header": want one of key, value`: registry(set{"Source.SchemaRegistry.Validate": []string{"header"}}),
	}.run(t)
}
