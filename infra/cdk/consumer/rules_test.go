package consumer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// The function's own code checks its variables. The messages name properties.
func TestChecksOfVariables(t *testing.T) {
	const duration = ": want a duration like 30s or 168h, from "
	refused{
		`Idempotency.Key is "id": want header:NAME, key, json:$.a,$.b, hash, hash:json, hash:$.a,$.b or offset`: {"Idempotency.Key": "id"},
		`Idempotency.Fingerprint is "body": want value, json:$.a,$.b or none`:                                   {"Idempotency.Fingerprint": "body"},
		`Idempotency.MissingKey is "drop": want one of reject, process`:                                         {"Idempotency.MissingKey": "drop"},
		`Idempotency.Order is "topic": want one of partition, key, none`:                                        {"Idempotency.Order": "topic"},
		`Idempotency.Concurrency is "10001": want a whole number from 1 to 10000`:                               {"Idempotency.Concurrency": 10_001},
		`Idempotency.CommitWindow is "10001": want a whole number from 1 to 10000`:                              {"Idempotency.CommitWindow": 10_001},
		`Idempotency.Lease is "10ms"` + duration + `100ms to 1h0m0s`:                                            {"Idempotency.Lease": 10 * time.Millisecond},
		`Idempotency.MaxClockSkew is "2m"` + duration + `0s to 1m0s`:                                            {"Idempotency.MaxClockSkew": 2 * time.Minute},
		`Idempotency.Wait is "16m": want deadline, 0, or a duration of at most 15m0s`:                           {"Idempotency.Wait": 16 * time.Minute},
		`Idempotency.DeadlineMargin is "2m"` + duration + `1ms to 1m0s`:                                         {"Idempotency.DeadlineMargin": 2 * time.Minute},
		`Idempotency.DeadlineMargin is "1m": want less than Function.Timeout, 1m`:                               {"Idempotency.DeadlineMargin": time.Minute},
		`Idempotency.StoreDown is "half": want one of closed, open`:                                             {"Idempotency.StoreDown": "half"},
		`Idempotency.Effects is "once": want one of at-least-once, at-most-once`:                                {"Idempotency.Effects": "once"},
		`Idempotency.MaxAttempts is "-1": want a whole number from 1 to 1000000`:                                {"Idempotency.MaxAttempts": -1},
		`Idempotency.RetryDelay is "5m1s"` + duration + `0s to 5m0s`:                                            {"Idempotency.RetryDelay": 301 * time.Second},
		`Idempotency.OutageFailures is "1001": want off, or a number from 1 to 1000`:                            {"Idempotency.OutageFailures": 1001},
		`Idempotency.OutageLimit is "169h"` + duration + `0s to 168h0m0s`:                                       {"Idempotency.OutageLimit": 169 * time.Hour},
		`Idempotency.Retention is "20s": want at least Idempotency.Lease, 30s`:                                  {"Idempotency.Retention": 20 * time.Second},
		`Idempotency.MaxResult is "400000": want a whole number from 0 to 358400`:                               {"Idempotency.MaxResult": 400_000},
	}.run(t)
}

func TestChecksOfRedelivery(t *testing.T) {
	const (
		again  = ": a record that is redelivered later would take effect again"
		letter = ": the event source would give up a record before it becomes a dead letter"
		held   = ", and a dead process holds its keys for Idempotency.Lease and Idempotency.MaxClockSkew, 31s"
		early  = ": want a shorter delay or none with Source.Retries, a longer Function.Timeout or Idempotency.Wait, or fewer " +
			"Idempotency.MaxAttempts: before the last attempt a key waits up to "
		uses = ", and one that comes too early uses up a retry"
	)
	refused{
		`Source.Retries is "4": want at least Idempotency.MaxAttempts, 5` + letter:                                                                  finite.with(set{"Source.Retries": 4}),
		`Source.Retries is "6": want more: they span 30s (each waits at most 5s)` + held:                                                            finite.with(set{"Source.Retries": 6, "Idempotency.Wait": 5 * time.Second}),
		`Source.Retries is "10000": want more: they span 0s (each waits at most 0s)` + held:                                                         finite.with(set{"Source.Retries": 10_000, "Idempotency.Wait": time.Duration(0)}),
		`Source.Retries is "infinite": want a number with Source.OnFailure (queue): AWS turns endless retries into 10 where there is a destination`: {"Source.OnFailure.Queue": true},
		`Source.MaxRecordAge is "1m30s": want more than Idempotency.Lease and Idempotency.MaxClockSkew, 1m31s: the event source would give up what a dead process holds`: finite.with(set{
			"Source.MaxRecordAge": 90 * time.Second, "Idempotency.Lease": 90 * time.Second,
			"Function.Timeout": 2 * time.Minute}),
		`Source.MaxRecordAge is "1m25s": want more than the delays of Idempotency.RetryDelay between Idempotency.MaxAttempts, 1m25s` + letter: finite.with(set{
			"Source.MaxRecordAge": 85 * time.Second, "Idempotency.RetryDelay": time.Second,
			"Function.Timeout": 2 * time.Minute}),
		`Idempotency.RetryDelay is "1s"` + early + `1m4s, a delivery waits at most 59.5s` + uses: finite.with(set{"Idempotency.RetryDelay": nil}),
		`Idempotency.RetryDelay is "2m"` + early + `5m, a delivery waits at most 5m` + uses: finite.with(set{
			"Idempotency.RetryDelay": 2 * time.Minute, "Idempotency.Wait": 5 * time.Minute,
			"Function.Timeout": 10 * time.Minute}),
		`Idempotency.Retention is "24h": want at least Source.MaxRecordAge, 48h` + again: finite.with(set{
			"Idempotency.Retention": 24 * time.Hour, "Source.MaxRecordAge": 48 * time.Hour}),
		`Idempotency.Retention is "168h": want at least Source.TopicRetention, 169h` + again:                                                                     {"Source.TopicRetention": 169 * time.Hour},
		`Source.OnFailure is "none": want a queue, a bucket or a topic with Source.Retries or Source.MaxRecordAge: what the event source gives up would be lost`: finite.with(set{"Source.OnFailure.Queue": false}),
		`Source.OnFailure is "queue, topic:dlt": want one of them: an event source has one destination`:                                                          finite.with(set{"Source.OnFailure.Topic": "dlt"}),
		`Source.OnFailure.BucketARN is "bucket": want arn:aws:s3:::NAME`:                                                                                         finite.with(set{"Source.OnFailure.Queue": nil, "Source.OnFailure.BucketARN": "bucket"}),
		`Source.OnFailure.Topic is "a b": want 1 to 249 letters, digits, '.', '_' and '-'`:                                                                       finite.with(set{"Source.OnFailure.Queue": nil, "Source.OnFailure.Topic": "a b"}),
		`Source.OnFailure.Topic is "payments": want a topic that is not consumed: AWS refuses the loop`:                                                          finite.with(set{"Source.OnFailure.Queue": nil, "Source.OnFailure.Topic": "payments"}),
	}.run(t)
}

func TestChecksOfTheStore(t *testing.T) {
	const (
		dynamo = ": want none with Store.Type dynamodb: its table is made here, and named by Store.Table"
		server = ": want none with Store.Type redis: it is of DynamoDB"
		cache  = "arn:aws:memorydb:eu-central-1:111122223333:cluster/keys"
	)
	postgres := set{"Store.Type": "postgres", "Store.URL": "postgres://h/d"}
	refused{
		`Store.Type is "mysql": want one of dynamodb, postgres, redis`:                                    {"Store.Type": "mysql"},
		`Store.URL is "redis://h"` + dynamo:                                                               {"Store.URL": "redis://h"},
		`Store.SecretARN is "` + secret + `"` + dynamo:                                                    {"Store.SecretARN": secret},
		`Store.Table is "a b": want 3 to 255 letters, digits, '_', '.' or '-'`:                            {"Store.Table": "a b"},
		`Store.Table is "a.b.c": want a table's name, or its schema and name`:                             postgres.with(set{"Store.Table": "a.b.c"}),
		`Store.Table is "a{b}": want 1 to 128 letters, digits, '_', '.', ':' or '-'`:                      redis.with(set{"Store.Table": "a{b}"}),
		`Store.URL is "": want rediss://HOST:PORT, or Store.SecretARN for a secret that names the server`: redis.with(set{"Store.URL": nil}),
		`Store.URL is "postgres://h/d": want rediss://HOST:PORT`:                                          redis.with(set{"Store.URL": "postgres://h/d"}),
		`Store.URL is "h:5432": want postgres://HOST:PORT/DATABASE`:                                       postgres.with(set{"Store.URL": "h:5432"}),
		`Store.URL is "…": want postgres://HOST:PORT/DATABASE`:                                            postgres.with(set{"Store.URL": "postgres://u:hush%zz@h"}),
		`Store.URL is "postgres://u:xxxxx@h/d": want a URL without user and password, which would be in the template: put them into the secret of Store.SecretARN`: postgres.with(set{"Store.URL": "postgres://u:hush@h/d"}),
		`Store.URL is "redis://u@h?iam=payments": want rediss:// with iam, which needs TLS`:                                                                        redis.with(set{"Store.URL": "redis://u@h?iam=payments"}),
		`Store.URL is "rediss://u:xxxxx@h?iam=` + cache + `": want a user without a password with iam: rediss://USER@HOST:PORT?iam=ARN`:                            redis.with(set{"Store.URL": "rediss://u:hush@h?iam=" + cache}),
		`Store.SecretARN is "` + secret + `": want none with iam in Store.URL, which uses no secret`:                                                               redis.with(set{"Store.URL": "rediss://u@h?iam=" + cache, "Store.SecretARN": secret}),
		`Store.SecretARN is "payments": want arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME`:                                                                    redis.with(set{"Store.SecretARN": "payments"}),
		`Store.SecretKeyARN is "` + key + `": want Store.SecretARN with it`:                                                                                        redis.with(set{"Store.SecretKeyARN": key}),
		`Store.ContributorInsights is "true"` + server:                                                                                                             redis.with(set{"Store.ContributorInsights": true}),
		`Outbox is "set": want none with Store.Type redis: this one is DynamoDB's; docs/outbox.md tells of the others`:                                             redis.with(outbox),
		`Maintenance.PruneEvery is "1h": want none with Store.Type redis, which deletes expired keys itself`:                                                       redis.with(maintenance, set{"Maintenance.PruneEvery": time.Hour}),
		`Function.Environment is "IDEMSK_STORE_URL": want other names: the construct sets this one from its own property`:                                          redis.with(set{"Function.Environment": map[string]string{"IDEMSK_STORE_URL": "redis://i"}}),
	}.run(t)
}

func TestChecksOfTheOutbox(t *testing.T) {
	with := func(changes set) set { return outbox.with(changes) }
	own := selfManaged.with(outbox, set{"Outbox.Brokers": nil, "Outbox.Topics": nil})
	refused{
		`Outbox.RelayCode is "": want the directory or the .zip file of the relay's program, which is named bootstrap`:                                             with(set{"Outbox.RelayCode": ""}),
		`Outbox.TableName is "a b": want 3 to 255 letters, digits, '_', '.' or '-'`:                                                                                with(set{"Outbox.TableName": "a b"}),
		`Outbox.TableName is "keys": want another one than Store.Table: a transaction can't write the table of keys`:                                               with(set{"Store.Table": "keys", "Outbox.TableName": "keys"}),
		"Outbox.Brokers is \"\": want HOST:PORT of some brokers: `aws kafka get-bootstrap-brokers` tells those of Cluster.ARN, which CloudFormation does not know": with(set{"Outbox.Brokers": nil}),
		`Outbox.Brokers is "b-1": want HOST:PORT for each`:                                                                                                         with(set{"Outbox.Brokers": []string{"b-1"}, "Network.VPC": vpc{}}),
		`Outbox.Auth is "scram-sha-256": want one of iam, scram-sha-512, mtls, none`:                                                                               with(set{"Outbox.Auth": consumer.AuthSCRAM256}),
		`Outbox.Auth is "iam": want one of scram-sha-512, scram-sha-256, plain, mtls, none`:                                                                        own.with(set{"Outbox.Auth": consumer.AuthIAM}),
		`Outbox.SecretARN is "": want the ARN of the secret that Outbox.Auth mtls needs`:                                                                           with(set{"Outbox.Auth": consumer.AuthMTLS, "Outbox.Topics": nil}),
		`Outbox.SecretARN is "` + secret + `": want none with Outbox.Auth iam, which uses no secret`:                                                               with(set{"Outbox.SecretARN": secret}),
		`Outbox.SecretARN is "secret": want arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME`:                                                                     with(set{"Outbox.Auth": consumer.AuthSCRAM512, "Outbox.Topics": nil, "Outbox.SecretARN": "secret"}),
		`Outbox.SecretKeyARN is "` + key + `": want Outbox.SecretARN with it`:                                                                                      with(set{"Outbox.SecretKeyARN": key}),
		`Outbox.CA is "…": want none without Outbox.TLS: with Outbox.Auth none there are no certificates`:                                                          with(set{"Outbox.Auth": consumer.AuthNone, "Outbox.Topics": nil, "Outbox.CA": "ca.pem"}),
		`Outbox.CA is "…": want at most 3072 bytes, or a file beside the bootstrap: /var/task/NAME`:                                                                with(set{"Outbox.CA": strings.Repeat("x", 3073)}),
		`Outbox.CA is "": want the certificate that is in Cluster.CASecretARN, in PEM or a file: the relay does not read that secret`:                              own.with(set{"Cluster.CASecretARN": secret}),
		`Outbox.Topics is "": want the topics that handlers publish to: the relay may write no other`:                                                              with(set{"Outbox.Topics": nil}),
		`Outbox.Topics is "credited": want none with Outbox.Auth none: Kafka's own ACLs say what may be written`:                                                   with(set{"Outbox.Auth": consumer.AuthNone}),
		`Outbox.Topics is "a b": want 1 to 249 letters, digits, '.', '_' and '-' for each`:                                                                         with(set{"Outbox.Topics": []string{"a b"}}),
		`Outbox.Topics is "credited,credited": want each once`:                                                                                                     with(set{"Outbox.Topics": []string{"credited", "credited"}}),
		`Outbox.KafkaTimeout is "2m": want 1s to 1m`:                                                                                                               with(set{"Outbox.KafkaTimeout": 2 * time.Minute}),
		`Outbox.Timeout is "11s": want more than Outbox.KafkaTimeout and a second, 11s: the relay would begin nothing`:                                             with(set{"Outbox.Timeout": 11 * time.Second}),
		`Outbox.Timeout is "16m": want whole seconds from 1s to 15m`:                                                                                               with(set{"Outbox.Timeout": 16 * time.Minute}),
		`Outbox.MemoryMB is "64": want 128 to 10240`:                                                                                                               with(set{"Outbox.MemoryMB": 64}),
		`Outbox.MaxAge is "24h": want 1m to 12h`:                                                                                                                   with(set{"Outbox.MaxAge": 24 * time.Hour}),
		`Outbox.Network.VPC is "": want the VPC of the brokers: of the ports of MSK only 9194, 9196 and 9198 are public`:                                           with(set{"Outbox.Brokers": []string{"b-1.example.com:9098"}}),
		`Outbox.Network.VPC is "": want a VPC that reaches the brokers, as the event source does from Cluster.SubnetIDs`:                                           own.with(set{"Cluster.SubnetIDs": []string{"subnet-1"}, "Cluster.SecurityGroupIDs": []string{"sg-1"}}),
		`Outbox.Network.Subnets is "set": want Outbox.Network.VPC with it`:                                                                                         with(set{"Outbox.Network.Subnets": &awsec2.SubnetSelection{}}),
		`Outbox.Network.SecurityGroups is "set": want Outbox.Network.VPC with it`:                                                                                  with(set{"Outbox.Network.SecurityGroups": []awsec2.ISecurityGroup{nil}}),
	}.run(t)
}

func TestChecksOfTheMaintenance(t *testing.T) {
	with := func(changes set) set { return maintenance.with(changes) }
	refused{
		`Maintenance.Code is "none": want the directory or the .zip file of the maintenance's program, but it has no file bootstrap: build it with ` +
			"GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build -tags lambda.norpc -o none/bootstrap github.com/idemsk/idemsk/lambda/maintenance": with(set{"Maintenance.Code": "none"}),
		`Maintenance.ReconcileEvery is "1m": want whole minutes from 5m to 744h`: with(set{"Maintenance.ReconcileEvery": time.Minute}),
		`Maintenance.PruneEvery is "5m30s": want whole minutes from 5m to 744h`: with(set{"Store.Type": "postgres",
			"Store.URL": "postgres://h/d", "Maintenance.PruneEvery": 330 * time.Second}),
		`Maintenance.Timeout is "16m": want whole seconds from 30s to 15m`:                                              with(set{"Maintenance.Timeout": 16 * time.Minute}),
		`Maintenance.MemoryMB is "64": want 128 to 10240`:                                                               with(set{"Maintenance.MemoryMB": 64}),
		`Maintenance.Export.BucketARN is "exports": want arn:aws:s3:::NAME/PREFIX`:                                      with(set{"Maintenance.Export.BucketARN": "exports"}),
		`Maintenance.Export.Field is "id": want Maintenance.Export.BucketARN with it, the bucket of the exports`:        with(set{"Maintenance.Export.BucketARN": nil, "Maintenance.Export.Field": "id"}),
		`Maintenance.Export.Topic is "refunds": want one of Source.Topics`:                                              with(set{"Maintenance.Export.Topic": "refunds"}),
		`Maintenance.Export.Topic is "payments": want none with Idempotency.KeyScope namespace: its keys have no topic`: with(set{"Maintenance.Export.Topic": "payments", "Idempotency.KeyScope": "namespace"}),
		`Maintenance.Export.Covers is "169h": want at most Idempotency.Retention, 168h: older keys are deleted`:         with(set{"Maintenance.Export.Covers": 169 * time.Hour}),
	}.run(t)
}

func TestCheckReportsAllErrors(t *testing.T) {
	built(t)
	err := consumer.Check(set{"Source.BatchSize": -1, "Source.Topics": nil, "Idempotency.Lease": 2 * time.Hour,
		"Function.Environment": map[string]string{"1A": ""}}.props())
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 4 {
		t.Errorf("Check says:\n%v\nwant four errors", err)
	}
}

// New panics with what Check says, before anything of the CDK is needed.
func TestNewRefusesWhatCheckRefuses(t *testing.T) {
	defer func() {
		err, _ := recover().(error)
		if err == nil || !strings.Contains(err.Error(), `Source.BatchSize is "-1"`) {
			t.Errorf("New panicked with %v", err)
		}
	}()
	consumer.New(nil, "Consumer", set{"Source.BatchSize": -1}.props())
}
