package consumer_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// Each check, with the words it says.
func TestEachCheck(t *testing.T) {
	for want, change := range map[string]func(p *consumer.Props){
		// the function's program
		"CodeDir is \"\": want the directory of the function's bootstrap: dist/handler-arm64 after `make build`":                    func(p *consumer.Props) { p.CodeDir = "" },
		"CodeDir is \"nowhere\": want a directory with the function's program, but there is no nowhere/bootstrap: run `make build`": func(p *consumer.Props) { p.CodeDir = "nowhere" },
		"CodeDir is \"folder\": want a directory with the function's program, but folder/bootstrap is no file: run `make build`":    func(p *consumer.Props) { p.CodeDir = "folder"; _ = os.MkdirAll("folder/bootstrap", 0o755) },
		`Handler is "app.handler": want none with Runtime provided.al2023, or another Runtime: it is of functions behind the layer`: func(p *consumer.Props) { p.Handler = "app.handler" },
		`LayerZip is "layer.zip": want none with Runtime provided.al2023, or another Runtime: it is of functions behind the layer`:  func(p *consumer.Props) { p.LayerZip = "layer.zip" },
		`Architecture is "arm": want one of arm64, x86_64`:                                                                          func(p *consumer.Props) { p.Architecture = "arm" },

		// a function behind the layer
		`Runtime is "python2": want provided.al2023, or one of Python, Node.js, Java, .NET or Ruby, like python3.13`:                          wrapped(func(p *consumer.Props) { p.Runtime = "python2" }),
		`CodeDir is "": want the directory of the function's code, or its .zip or .jar file`:                                                  wrapped(func(p *consumer.Props) { p.CodeDir = "" }),
		`CodeDir is "nowhere": want the directory of the function's code, or its .zip or .jar file, which must exist`:                         wrapped(func(p *consumer.Props) { p.CodeDir = "nowhere" }),
		`Handler is "": want the function's handler as Runtime takes it, like app.handler: up to 128 characters without blanks`:               wrapped(func(p *consumer.Props) { p.Handler = "" }),
		`Handler is "my app.handler": want the function's handler as Runtime takes it, like app.handler: up to 128 characters without blanks`: wrapped(func(p *consumer.Props) { p.Handler = "my app.handler" }),
		"LayerZip is \"\": want the file of the layer: dist/idemsk-layer-arm64.zip after `make build`":                                        wrapped(func(p *consumer.Props) { p.LayerZip = "" }),
		"LayerZip is \"\": want the file of the layer: dist/idemsk-layer-x86_64-redis.zip after `make build`": wrapped(func(p *consumer.Props) {
			p.LayerZip, p.Architecture, p.Store, p.StoreURL = "", consumer.X8664, consumer.StoreRedis,
				"redis://h"
		}),
		"LayerZip is \"nowhere.zip\": want the file of the layer, dist/idemsk-layer-arm64.zip after `make build`: open nowhere.zip: no such file or directory": wrapped(func(p *consumer.Props) { p.LayerZip = "nowhere.zip" }),
		"LayerZip is \"built/bootstrap\": want the file of the layer, dist/idemsk-layer-arm64.zip after `make build`: zip: not a valid zip file":               wrapped(func(p *consumer.Props) { p.LayerZip = "built/bootstrap" }),
		"LayerZip is \"other.zip\": want the file of the layer, dist/idemsk-layer-arm64.zip after `make build`: it has no bin/idemsk-layer":                    wrapped(func(p *consumer.Props) { p.LayerZip = "other.zip"; zipped("other.zip", "bootstrap", "") }),
		"LayerZip is \"short.zip\": want the file of the layer, dist/idemsk-layer-arm64.zip after `make build`: bin/idemsk-layer: EOF": wrapped(func(p *consumer.Props) {
			p.LayerZip = "short.zip"
			zipped("short.zip", "bin/idemsk-layer", "")
		}),
		"LayerZip is \"script.zip\": want the file of the layer, dist/idemsk-layer-arm64.zip after `make build`: bin/idemsk-layer is no program for Linux on arm64 or x86_64": wrapped(func(p *consumer.Props) {
			p.LayerZip = "script.zip"
			zipped("script.zip", "bin/idemsk-layer", "#!/bin/sh\nexec something-else\n")
		}),
		"LayerZip is \"layer.zip\": want the layer for Architecture x86_64, dist/idemsk-layer-x86_64.zip: this one is for arm64":  wrapped(func(p *consumer.Props) { p.Architecture = consumer.X8664 }),
		`Order is "partition": want none with Runtime python3.13: the layer passes records on in the order of their partitions`:   wrapped(func(p *consumer.Props) { p.Order = "partition" }),
		`Concurrency is "8": want none with Runtime python3.13: the layer passes many records on in one call`:                     wrapped(func(p *consumer.Props) { p.Concurrency = 8 }),
		`Outbox is "set": want none with Runtime python3.13: handlers publish by the library, in its transactions`:                wrapped(boxed(func(*consumer.Props, *consumer.OutboxProps) {})),
		`Environment is "AWS_LAMBDA_EXEC_WRAPPER": want other names: the construct sets this one from its own prop`:               wrapped(func(p *consumer.Props) { p.Environment = map[string]string{"AWS_LAMBDA_EXEC_WRAPPER": "/opt/other"} }),
		`BatchSize is "3000": want at most 2975: at RecordTime 20ms the batch takes 1m, and Timeout less DeadlineMargin is 59.5s`: wrapped(func(p *consumer.Props) { p.BatchSize = 3000 }),

		// cluster and authentication
		`ClusterARN is "": want an MSK cluster's ARN, or BootstrapServers for a self-managed cluster`:          func(p *consumer.Props) { p.ClusterARN = "" },
		`ClusterARN is "payments": want arn:aws:kafka:REGION:ACCOUNT:cluster/NAME/UUID`:                        func(p *consumer.Props) { p.ClusterARN = "payments" },
		`BootstrapServers is "b:1,b:2": want none together with ClusterARN: one consumer reads one cluster`:    func(p *consumer.Props) { p.BootstrapServers, p.SecretARN = []string{"b:1", "b:2"}, secret },
		`BootstrapServers is "broker": want HOST:PORT`:                                                         self(func(p *consumer.Props) { p.BootstrapServers = []string{"broker"} }),
		`BootstrapServers is "11": want at most 10 brokers: these tell of the others`:                          self(func(p *consumer.Props) { p.BootstrapServers = strings.Fields(strings.Repeat("b:9092 ", 11)) }),
		`Auth is "scram-sha-256": want one of iam, scram-sha-512, mtls, none`:                                  func(p *consumer.Props) { p.Auth, p.SecretARN = consumer.AuthSCRAM256, secret },
		`Auth is "iam": want one of scram-sha-256, scram-sha-512, plain, mtls, none`:                           self(func(p *consumer.Props) { p.Auth, p.SecretARN = consumer.AuthIAM, "" }),
		`Auth is "none": want another one, or BrokerSubnetIDs: brokers on the internet must authenticate`:      self(func(p *consumer.Props) { p.Auth, p.SecretARN = consumer.AuthNone, "" }),
		`SecretARN is "": want the ARN of the secret that Auth mtls needs`:                                     func(p *consumer.Props) { p.Auth = consumer.AuthMTLS },
		`SecretARN is "` + secret + `": want none with Auth iam, which uses no secret`:                         func(p *consumer.Props) { p.SecretARN = secret },
		`SecretARN is "secret": want arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME`:                        func(p *consumer.Props) { p.Auth, p.SecretARN = consumer.AuthMTLS, "secret" },
		`SecretKeyARN is "key": want arn:aws:kms:REGION:ACCOUNT:key/ID`:                                        func(p *consumer.Props) { p.SecretKeyARN = "key" },
		`CASecretARN is "ca": want arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME`:                          self(func(p *consumer.Props) { p.CASecretARN = "ca" }),
		`CASecretARN is "` + secret + `": want none with ClusterARN: Lambda trusts the certificates of MSK`:    func(p *consumer.Props) { p.CASecretARN = secret },
		`BrokerSubnetIDs is "subnet-1": want both or neither of BrokerSubnetIDs and BrokerSecurityGroupIDs`:    self(func(p *consumer.Props) { p.BrokerSubnetIDs = []string{"subnet-1"} }),
		`BrokerSubnetIDs is "subnet-1": want none with ClusterARN: AWS knows the network of an MSK cluster`:    func(p *consumer.Props) { p.BrokerSubnetIDs = []string{"subnet-1"} },
		`BrokerSecurityGroupIDs is "sg-1": want none with ClusterARN: AWS knows the network of an MSK cluster`: func(p *consumer.Props) { p.BrokerSecurityGroupIDs = []string{"sg-1"} },

		// topics, groups and the namespace
		`Topics is "": want at least one topic`: func(
			p *consumer.Props) {
			p.Topics = nil
		},
		`Topics is "a b": want a topic's name, 1 to 249 letters, digits or any of ._-`: func(
			p *consumer.Props) {
			p.Topics[0].Name = "a b"
		},
		`Topics is "payments=a b": want a group of 1 to 200 letters, digits or any of -/*:_+=.@`: func(
			p *consumer.Props) {
			p.Topics[0].Group = "a b"
		},
		`Topics is "refunds": want a group of its own, as in refunds=GROUP: AWS wants another for every event source, and payments has ledger`: func(p *consumer.Props) {
			p.Topics = append(p.Topics, consumer.Topic{Name: "refunds"})
		},
		`Topics is "payments": want each topic once`: func(
			p *consumer.Props) {
			p.Topics = append(p.Topics,
				consumer.Topic{Name: "payments", Group: "other"})
		},
		`ConsumerGroup is "": want 1 to 200 letters, digits or any of -/*:_+=.@`: func(
			p *consumer.Props) {
			p.ConsumerGroup = ""
		},
		`Namespace is "a#b": want a name without '#'`: func(
			p *consumer.Props) {
			p.Namespace = "a#b"
		},
		`Namespace is "ledger-2": want "ledger", the deployed one: in another namespace every record counts as new and takes effect again`: func(p *consumer.Props) {
			p.ConsumerGroup, p.DeployedNamespace = "ledger-2", "ledger"
		},
		`KeyScope is "account": want one of topic, namespace`: func(
			p *consumer.Props) {
			p.KeyScope = "account"
		},
		`KeyScope is "topic:payments": want "topic:paid+payments", the deployed one, or topics added to it: the records of paid would count as new and take effect again`: func(p *consumer.Props) {
			p.DeployedKeyScope = "topic:paid+payments"
		},
		`KeyScope is "namespace": want "topic:payments", the deployed one, or topics added to it: the records of every topic would count as new and take effect again`: func(p *consumer.Props) {
			p.KeyScope, p.DeployedKeyScope = "namespace", "topic:payments"
		},

		// batches
		`BatchSize is "10001": want 1 to 10000`:                                                                                       func(p *consumer.Props) { p.BatchSize = 10_001 },
		`BatchSize is "-1": want 1 to 10000`:                                                                                          func(p *consumer.Props) { p.BatchSize = -1 },
		`BatchWindow is "1.5s": want whole seconds from 0s to 5m`:                                                                     func(p *consumer.Props) { p.BatchWindow = 1500 * time.Millisecond },
		`BatchWindow is "5m1s": want whole seconds from 0s to 5m`:                                                                     func(p *consumer.Props) { p.BatchWindow = 301 * time.Second },
		`RecordTime is "-1s": want 1µs to 14m`:                                                                                        func(p *consumer.Props) { p.RecordTime = -time.Second },
		`StartingPosition is "NEWEST": want one of TRIM_HORIZON, LATEST, AT_TIMESTAMP`:                                                func(p *consumer.Props) { p.StartingPosition = "NEWEST" },
		`StartingTimestamp is "0001-01-01T00:00:00Z": want a time with StartingPosition AT_TIMESTAMP, none with another`:              func(p *consumer.Props) { p.StartingPosition = consumer.AtTimestamp },
		`StartingTimestamp is "1970-01-01T00:00:01Z": want a time with StartingPosition AT_TIMESTAMP, none with another`:              func(p *consumer.Props) { p.StartingTimestamp = time.Unix(1, 0).UTC() },
		`BatchSize is "2976": want at most 2975: at RecordTime 20ms the batch takes 59.52s, and Timeout less DeadlineMargin is 59.5s`: func(p *consumer.Props) { p.BatchSize = 2976 },
		`BatchSize is "100": want at most 59: at RecordTime 1s the batch takes 1m40s, and Timeout less DeadlineMargin is 59.5s`:       func(p *consumer.Props) { p.RecordTime = time.Second },
		`BatchSize is "10000": want at most 9504: at RecordTime 200ms the batch takes 1m2.6s, and Timeout less DeadlineMargin is 59.5s`: func(p *consumer.Props) {
			p.BatchSize, p.RecordTime, p.Order = 10_000, 200*time.Millisecond, "none"
		},

		// retries, age and what the event source gives up
		`Retries is "10001": want 0 to 10000`:                                                                                                    finite(10_001, nil),
		`Retries is "3": want 0 without FiniteRetries, where the event source tries for ever`:                                                    func(p *consumer.Props) { p.Retries = 3 },
		`Retries is "4": want at least MaxAttempts, 5: the event source would give up a record before it becomes a dead letter`:                  finite(4, nil),
		`Retries is "6": want more: they span 30s (each waits at most 5s), and a dead process holds its keys for Lease and MaxClockSkew, 31s`:    finite(6, func(p *consumer.Props) { p.Wait = 5 * time.Second }),
		`Retries is "10000": want more: they span 0s (each waits at most 0s), and a dead process holds its keys for Lease and MaxClockSkew, 31s`: finite(10_000, func(p *consumer.Props) { p.Wait = -1 }),
		`Retries is "infinite": want a number with OnFailure (queue): AWS turns endless retries into 10 where there is a destination`:            func(p *consumer.Props) { p.OnFailure.Queue = true },
		`MaxRecordAge is "59s": want whole seconds from 1m to 168h`:                                                                              finite(10, func(p *consumer.Props) { p.MaxRecordAge = 59 * time.Second }),
		`MaxRecordAge is "169h": want whole seconds from 1m to 168h`:                                                                             finite(10, func(p *consumer.Props) { p.MaxRecordAge = 169 * time.Hour }),
		`MaxRecordAge is "1m30s": want more than Lease and MaxClockSkew, 1m31s: the event source would give up what a dead process holds`: finite(10, func(p *consumer.Props) {
			p.MaxRecordAge, p.Lease, p.Timeout = 90*time.Second, 90*time.Second, 2*time.Minute
		}),
		`MaxRecordAge is "1m25s": want more than the delays of RetryDelay between MaxAttempts, 1m25s: the event source would give up a record before it becomes a dead letter`: finite(10, func(p *consumer.Props) {
			p.MaxRecordAge, p.RetryDelay, p.Timeout = 85*time.Second, time.Second, 2*time.Minute
		}),
		`RetryDelay is "1s": want a shorter delay or none with Retries, a longer Timeout or Wait, or fewer MaxAttempts: before the last attempt a key waits up to 1m4s, a delivery waits at most 59.5s, and one that comes too early uses up a retry`: finite(10, func(p *consumer.Props) {
			p.RetryDelay = 0
		}),
		`RetryDelay is "2m": want a shorter delay or none with Retries, a longer Timeout or Wait, or fewer MaxAttempts: before the last attempt a key waits up to 5m, a delivery waits at most 5m, and one that comes too early uses up a retry`: finite(10, func(p *consumer.Props) {
			p.RetryDelay, p.Wait, p.Timeout = 2*time.Minute, 5*time.Minute, 10*time.Minute
		}),
		`Retention is "24h": want at least MaxRecordAge, 48h: a record that is redelivered later would take effect again`: finite(10, func(p *consumer.Props) {
			p.Retention, p.MaxRecordAge = 24*time.Hour, 48*time.Hour
		}),
		`Retention is "168h": want at least TopicRetention, 169h: a record that is redelivered later would take effect again`:               func(p *consumer.Props) { p.TopicRetention = 169 * time.Hour },
		`TopicRetention is "-1h": want a duration above 0`:                                                                                  func(p *consumer.Props) { p.TopicRetention = -time.Hour },
		`OnFailure is "none": want a queue, a bucket or a topic with Retries or MaxRecordAge: what the event source gives up would be lost`: finite(10, func(p *consumer.Props) { p.OnFailure.Queue = false }),
		`OnFailure is "queue, topic:dlt": want one of them: an event source has one destination`:                                            finite(10, func(p *consumer.Props) { p.OnFailure.Topic = "dlt" }),
		`DeadLetterBucketARN is "arn:aws:s3:::b/": want arn:aws:s3:::NAME, or arn:aws:s3:::NAME/PREFIX`:                                     func(p *consumer.Props) { p.DeadLetterBucketARN = "arn:aws:s3:::b/" },
		`OnFailure.BucketARN is "bucket": want arn:aws:s3:::NAME`:                                                                           finite(10, func(p *consumer.Props) { p.OnFailure = consumer.OnFailure{BucketARN: "bucket"} }),
		`OnFailure.Topic is "a b": want a topic's name, 1 to 249 letters, digits or any of ._-`:                                             finite(10, func(p *consumer.Props) { p.OnFailure = consumer.OnFailure{Topic: "a b"} }),
		`OnFailure.Topic is "payments": want a topic that is not consumed: AWS refuses the loop`:                                            finite(10, func(p *consumer.Props) { p.OnFailure = consumer.OnFailure{Topic: "payments"} }),

		// pollers
		`Pollers.Min is "201": want 1 to 200`: func(
			p *consumer.Props) {
			p.Pollers = consumer.Pollers{Min: 201, Max: 300}
		},
		`Pollers.Max is "2001": want 1 to 2000`: func(
			p *consumer.Props) {
			p.Pollers.Max = 2001
		},
		`Pollers.Min is "5": want at most Pollers.Max, 4`: func(
			p *consumer.Props) {
			p.Pollers = consumer.Pollers{Min: 5, Max: 4}
		},
		`PollerLog is "TRACE": want one of DEBUG, INFO, WARN`: func(
			p *consumer.Props) {
			p.PollerLog = "TRACE"
		},
		`Failures is "all": want one of partial, batch`: func(
			p *consumer.Props) {
			p.Failures = "all"
		},
		`OnDemand is "true": want false with Failures: AWS offers that in provisioned mode only`: func(
			p *consumer.Props) {
			p.OnDemand, p.Failures = true, consumer.FailPartial
		},
		`OnDemand is "true": want false with Pollers: AWS offers that in provisioned mode only`: func(
			p *consumer.Props) {
			p.OnDemand, p.Pollers.Max = true, 5
		},
		`OnDemand is "true": want false with KeepBatches: AWS offers that in provisioned mode only`: func(
			p *consumer.Props) {
			p.OnDemand, p.KeepBatches = true, true
		},
		`OnDemand is "true": want false with SchemaRegistry: AWS offers that in provisioned mode only`: func(
			p *consumer.Props) {
			p.OnDemand, p.SchemaRegistry = true, &consumer.SchemaRegistry{URI: "https://registry"}
		},

		// filters and schemas
		`Filters is "6": want at most 5 patterns`:                                                                func(p *consumer.Props) { p.Filters = strings.Fields(strings.Repeat("{} ", 6)) },
		`Filters is "[]": want a JSON object of at most 4096 bytes, like {"value":{"kind":["payment"]}}`:         func(p *consumer.Props) { p.Filters = []string{"[]"} },
		`SchemaRegistry.URI is "registry": want a Glue registry's ARN, or the https URL of a Confluent registry`: func(p *consumer.Props) { p.SchemaRegistry = &consumer.SchemaRegistry{URI: "registry"} },
		`SchemaRegistry.SecretARN is "secret": want arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME`: func(
			p *consumer.Props) {
			p.SchemaRegistry = &consumer.SchemaRegistry{URI: "https://r", SecretARN: "secret"}
		},
		`SchemaRegistry.SecretARN is "` + secret +
			`": want none with a Glue registry, which the role may read`: func(p *consumer.Props) {
			p.SchemaRegistry = &consumer.SchemaRegistry{URI: "arn:aws:glue:eu-central-1:111122223333:registry/r", SecretARN: secret}
		},

		// keys and engine
		`Key is "id": want header:NAME, key, json:$.a,$.b, hash or offset`: func(
			p *consumer.Props) {
			p.Key = "id"
		},
		`Key is "header:": want header:NAME, key, json:$.a,$.b, hash or offset`: func(
			p *consumer.Props) {
			p.Key = "header:"
		},
		`Fingerprint is "body": want value, json:$.a,$.b or none`: func(
			p *consumer.Props) {
			p.Fingerprint = "body"
		},
		`Order is "topic": want one of partition, key, none`: func(
			p *consumer.Props) {
			p.Order = "topic"
		},
		`MissingKey is "drop": want one of reject, process`: func(
			p *consumer.Props) {
			p.MissingKey = "drop"
		},
		`StoreDown is "half": want one of closed, open`: func(
			p *consumer.Props) {
			p.StoreDown = "half"
		},
		`Concurrency is "10001": want 1 to 10000`: func(
			p *consumer.Props) {
			p.Concurrency = 10_001
		},
		`CommitWindow is "10001": want 1 to 10000`: func(
			p *consumer.Props) {
			p.CommitWindow = 10_001
		},
		`Lease is "10ms": want 100ms to 1h`: func(
			p *consumer.Props) {
			p.Lease = 10 * time.Millisecond
		},
		`MaxClockSkew is "2m": want 0s to 1m`: func(
			p *consumer.Props) {
			p.MaxClockSkew = 2 * time.Minute
		},
		`Wait is "16m": want at most 15m`: func(
			p *consumer.Props) {
			p.Wait = 16 * time.Minute
		},
		`Retention is "20s": want 30s to 87600h`: func(
			p *consumer.Props) {
			p.Retention = 20 * time.Second
		},
		`MaxAttempts is "-1": want 1 to 1000000`: func(
			p *consumer.Props) {
			p.MaxAttempts = -1
		},
		`RetryDelay is "5m1s": want at most 5m`: func(
			p *consumer.Props) {
			p.RetryDelay = 301 * time.Second
		},
		`OutageFailures is "1001": want at most 1000`: func(
			p *consumer.Props) {
			p.OutageFailures = 1001
		},
		`OutageLimit is "169h": want 0s to 168h`: func(
			p *consumer.Props) {
			p.OutageLimit = 169 * time.Hour
		},
		`MaxResult is "400000": want at most 358400 bytes`: func(
			p *consumer.Props) {
			p.MaxResult = 400_000
		},
		`DeadlineMargin is "2m": want 1ms to 1m`: func(
			p *consumer.Props) {
			p.DeadlineMargin = 2 * time.Minute
		},
		`DeadlineMargin is "1m": want less than Timeout, 1m`: func(
			p *consumer.Props) {
			p.DeadlineMargin = time.Minute
		},

		// function
		`Timeout is "15m": want at most 14m: AWS allows no more for a Kafka event source`:                                                               func(p *consumer.Props) { p.Timeout = 15 * time.Minute },
		`Timeout is "30s": want more than Lease, 30s: an invocation could never wait for a dead one's lease`:                                            func(p *consumer.Props) { p.Timeout = 30 * time.Second },
		`Timeout is "1m0.5s": want whole seconds from 1s to 14m`:                                                                                        func(p *consumer.Props) { p.Timeout = 60500 * time.Millisecond },
		`MemoryMB is "64": want 128 to 10240`:                                                                                                           func(p *consumer.Props) { p.MemoryMB = 64 },
		`ReservedConcurrency is "-1": want above 0, or 0 for not reserved`:                                                                              func(p *consumer.Props) { p.ReservedConcurrency = -1 },
		`LogLevel is "LOUD": want one of DEBUG, INFO, WARN, ERROR`:                                                                                      func(p *consumer.Props) { p.LogLevel = "LOUD" },
		`LogRetentionDays is "31": want one of 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653`: func(p *consumer.Props) { p.LogRetentionDays = 31 },
		`Canary is "some": want one of off, 10-percent-5-minutes, 10-percent-15-minutes, linear-10-percent-every-minute`:                                func(p *consumer.Props) { p.Canary = "some" },
		`Environment is "1A": want names of letters, digits and '_', a letter first`:                                                                    func(p *consumer.Props) { p.Environment = map[string]string{"1A": ""} },
		`Environment is "IDEMSK_FAILURES": want other names: the construct sets this one from its own prop`:                                             func(p *consumer.Props) { p.Environment = map[string]string{"IDEMSK_FAILURES": "partial"} },

		// the outbox
		"Outbox.RelayDir is \"\": want the directory of the relay's bootstrap: dist/relay-arm64 after `make build`": boxed(func(_ *consumer.Props, o *consumer.OutboxProps) { o.RelayDir = "" }),
		`Outbox is "set": want none with Store redis: this one is DynamoDB's; docs/outbox.md tells of the others`: boxed(func(p *consumer.Props, _ *consumer.OutboxProps) {
			p.Store, p.StoreURL = consumer.StoreRedis, "redis://h"
		}),
		`Claim is "all": want one of key, partition`: func(p *consumer.Props) { p.Claim = "all" },
		`Claim is "partition": want key with Store redis: only DynamoDB keeps leases of partitions`: func(
			p *consumer.Props) {
			p.Store, p.StoreURL, p.Claim = consumer.StoreRedis, "redis://h", consumer.ClaimByPartition
		},
		`Claim is "partition": want key with Store postgres: only DynamoDB keeps leases of partitions`: func(
			p *consumer.Props) {
			p.Store, p.StoreURL, p.Claim = consumer.StorePostgres, "postgres://h/d", consumer.ClaimByPartition
		},
		`Outbox.TableName is "a b": want 3 to 255 letters, digits, '_', '.' or '-'`: boxed(
			func(_ *consumer.Props, o *consumer.OutboxProps) { o.TableName = "a b" }),
		`Outbox.TableName is "keys": want another one than TableName: a transaction can't write the table of keys`: boxed(func(p *consumer.Props, o *consumer.OutboxProps) {
			p.TableName, o.TableName = "keys", "keys"
		}),
		"Outbox.Brokers is \"\": want HOST:PORT of some brokers: `aws kafka get-bootstrap-brokers` tells those of ClusterARN, which CloudFormation does not know": boxed(
			func(_ *consumer.Props, o *consumer.OutboxProps) { o.Brokers = nil }),
		`Outbox.Brokers is "b-1": want HOST:PORT`: boxed(
			func(p *consumer.Props, o *consumer.OutboxProps) { o.Brokers, p.VPC = []string{"b-1"}, vpc{} }),
		`Outbox.Auth is "scram-sha-256": want one of iam, scram-sha-512, mtls, none`: boxed(
			func(_ *consumer.Props, o *consumer.OutboxProps) { o.Auth = consumer.AuthSCRAM256 }),
		`Outbox.Auth is "iam": want one of scram-sha-256, scram-sha-512, plain, mtls, none`: self(
			boxed(func(p *consumer.Props, o *consumer.OutboxProps) {
				p.Auth, o.Auth, o.Brokers, o.Topics = consumer.AuthPlain, consumer.AuthIAM, nil, nil
			})),
		`Outbox.SecretARN is "": want the ARN of the secret that Outbox.Auth mtls needs`: boxed(
			func(_ *consumer.Props, o *consumer.OutboxProps) {
				o.Auth, o.Topics = consumer.AuthMTLS, nil
			}),
		`Outbox.SecretARN is "` + secret +
			`": want none with Outbox.Auth iam, which uses no secret`: boxed(
			func(_ *consumer.Props, o *consumer.OutboxProps) { o.SecretARN = secret }),
		`Outbox.SecretARN is "secret": want arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME`: boxed(
			func(_ *consumer.Props, o *consumer.OutboxProps) {
				o.Auth, o.Topics, o.SecretARN = consumer.AuthSCRAM512, nil, "secret"
			}),
		`Outbox.SecretKeyARN is "` + key +
			`": want Outbox.SecretARN with it`: boxed(
			func(_ *consumer.Props, o *consumer.OutboxProps) { o.SecretKeyARN = key }),
		`Outbox.CA is "…": want none without Outbox.TLS: with Outbox.Auth none there are no certificates`: boxed(func(_ *consumer.Props, o *consumer.OutboxProps) {
			o.Auth, o.Topics, o.CA = consumer.AuthNone, nil, "ca.pem"
		}),
		`Outbox.CA is "…": want at most 3072 bytes, or a file beside the bootstrap: /var/task/NAME`: boxed(
			func(_ *consumer.Props, o *consumer.OutboxProps) { o.CA = strings.Repeat("x", 3073) }),
		`Outbox.CA is "": want the certificate that is in CASecretARN, in PEM or a file: the relay does not read that secret`: self(boxed(func(p *consumer.Props, o *consumer.OutboxProps) {
			p.CASecretARN, o.Brokers, o.Topics = secret, nil, nil
		})),
		`Outbox.Topics is "": want the topics that handlers publish to: the relay may write no other`:                  boxed(func(_ *consumer.Props, o *consumer.OutboxProps) { o.Topics = nil }),
		`Outbox.Topics is "credited": want none with Outbox.Auth none: Kafka's own ACLs say what may be written`:       boxed(func(_ *consumer.Props, o *consumer.OutboxProps) { o.Auth = consumer.AuthNone }),
		`Outbox.Topics is "a b": want a topic's name, 1 to 249 letters, digits or any of ._-`:                          boxed(func(_ *consumer.Props, o *consumer.OutboxProps) { o.Topics = []string{"a b"} }),
		`Outbox.Topics is "credited": want each topic once`:                                                            boxed(func(_ *consumer.Props, o *consumer.OutboxProps) { o.Topics = []string{"credited", "credited"} }),
		`Outbox.KafkaTimeout is "2m": want 1s to 1m`:                                                                   boxed(func(_ *consumer.Props, o *consumer.OutboxProps) { o.KafkaTimeout = 2 * time.Minute }),
		`Outbox.Attempts is "21": want 1 to 20`:                                                                        boxed(func(_ *consumer.Props, o *consumer.OutboxProps) { o.Attempts = 21 }),
		`Outbox.Timeout is "11s": want more than Outbox.KafkaTimeout and a second, 11s: the relay would begin nothing`: boxed(func(_ *consumer.Props, o *consumer.OutboxProps) { o.Timeout = 11 * time.Second }),
		`Outbox.Timeout is "16m": want whole seconds from 1s to 15m`:                                                   boxed(func(_ *consumer.Props, o *consumer.OutboxProps) { o.Timeout = 16 * time.Minute }),
		`Outbox.MemoryMB is "64": want 128 to 10240`:                                                                   boxed(func(_ *consumer.Props, o *consumer.OutboxProps) { o.MemoryMB = 64 }),
		`Outbox.VPC is "": want the VPC of the brokers: of the ports of MSK only 9194, 9196 and 9198 are public`:       boxed(func(_ *consumer.Props, o *consumer.OutboxProps) { o.Brokers[0] = "b-1.example.com:9098" }),
		`Outbox.VPC is "": want a VPC that reaches the brokers, as the event source does from BrokerSubnetIDs`: self(boxed(func(p *consumer.Props, o *consumer.OutboxProps) {
			p.BrokerSubnetIDs, p.BrokerSecurityGroupIDs, o.Brokers, o.Topics = []string{"subnet-1"},
				[]string{"sg-1"}, nil, nil
		})),
		`Outbox.Subnets is "set": want Outbox.VPC with it`: boxed(
			func(_ *consumer.Props, o *consumer.OutboxProps) { o.Subnets = &awsec2.SubnetSelection{} }),
		`Outbox.SecurityGroups is "set": want Outbox.VPC with it`: boxed(
			func(_ *consumer.Props, o *consumer.OutboxProps) { o.SecurityGroups = []awsec2.ISecurityGroup{nil} }),
		`Outbox.MaxAge is "24h": want 1m to 12h`: boxed(
			func(_ *consumer.Props, o *consumer.OutboxProps) { o.MaxAge = 24 * time.Hour }),
		`Environment is "IDEMSK_OUTBOX_TABLE": want other names: the construct sets this one from its own prop`: boxed(func(p *consumer.Props, _ *consumer.OutboxProps) {
			p.Environment = map[string]string{"IDEMSK_OUTBOX_TABLE": "t"}
		}),

		// the rest
		`TableName is "a b": want 3 to 255 letters, digits, '_', '.' or '-'`: func(
			p *consumer.Props) {
			p.TableName = "a b"
		},
		`RemovalPolicy is "SNAPSHOT": want one of RETAIN, DESTROY`: func(
			p *consumer.Props) {
			p.RemovalPolicy = awscdk.RemovalPolicy_SNAPSHOT
		},
		`AlarmEmail is "oncall": want an address like oncall@example.com`: func(
			p *consumer.Props) {
			p.AlarmEmail = "oncall"
		},
		`MaxLag is "-1": want a number of records above 0`: func(
			p *consumer.Props) {
			p.MaxLag = -1
		},
		`MaxInProgress is "1ms": want 1s to 87600h`: func(
			p *consumer.Props) {
			p.MaxInProgress = time.Millisecond
		},
		`MaxAge is "1ms": want 1s to 87600h`: func(
			p *consumer.Props) {
			p.MaxAge = time.Millisecond
		},
		`Endpoints is "set": want a VPC with it`: func(
			p *consumer.Props) {
			p.Endpoints = true
		},
		`Subnets is "set": want a VPC with it`: func(
			p *consumer.Props) {
			p.Subnets = &awsec2.SubnetSelection{}
		},
	} {
		t.Run(want, func(t *testing.T) {
			p := valid(t)
			change(&p)
			err := consumer.Check(p)
			if err == nil || err.Error() != want {
				t.Errorf("Check says:\n%v\nwant:\n%s", err, want)
			}
		})
	}
}

func TestCheckReportsAllErrors(t *testing.T) {
	p := valid(t)
	p.BatchSize, p.Topics, p.Lease = -1, nil, 2*time.Hour
	err := consumer.Check(p)
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 4 { // and the timeout is not above the lease
		t.Errorf("Check says:\n%v\nwant four errors", err)
	}
}

// New panics with what Check says, before anything of the CDK is needed.
func TestNewRefusesWhatCheckRefuses(t *testing.T) {
	defer func() {
		err, _ := recover().(error)
		if err == nil || !strings.Contains(err.Error(), "BatchSize is \"-1\"") {
			t.Errorf("New panicked with %v", err)
		}
	}()
	p := valid(t)
	p.BatchSize = -1
	consumer.New(nil, "Consumer", &p)
}
