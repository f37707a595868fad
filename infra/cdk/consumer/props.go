package consumer

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
)

// Props are the construct's settings. The zero value of a field means its default; Check describes the valid
// values. Required are CodeDir, a cluster (ClusterARN or BootstrapServers), Topics and ConsumerGroup. Strings
// may be CDK tokens, which are not checked.
type Props struct {
	// CodeDir is the directory of the function's code. With ProvidedAL2023 it has the program, a file named
	// bootstrap. With another Runtime it may also be a .zip or .jar file.
	CodeDir string
	// Architecture is the processor architecture of the function. Default: ARM64.
	Architecture Architecture
	// Runtime is the identifier of a Lambda runtime. Default: ProvidedAL2023, for a program that uses this
	// library. A function on another runtime, such as python3.13, nodejs22.x, java21 or dotnet8, runs
	// unchanged behind the layer of LayerZip; see docs/layer.md. It can have no Order, Concurrency and
	// Outbox.
	Runtime string
	// Handler is the function's handler as the runtime takes it, such as app.handler. Required with another
	// Runtime than ProvidedAL2023, which has none.
	Handler string
	// LayerZip is the file of the layer for Architecture and Store: dist/idemsk-layer-arm64.zip after `make
	// build`, or …-arm64-postgres.zip, …-arm64-redis.zip. Required with another Runtime than ProvidedAL2023,
	// which has none.
	LayerZip string

	// ClusterARN is the MSK cluster's ARN, provisioned or serverless. Either this or BootstrapServers.
	ClusterARN string
	// BootstrapServers are the brokers, host:port, of a self-managed cluster.
	BootstrapServers []string
	// Auth is how the event source authenticates. Default: AuthIAM for MSK, AuthSCRAM512 for a self-managed
	// cluster.
	Auth Auth
	// SecretARN is the Secrets Manager secret with the credentials: user name and password for SCRAM and
	// PLAIN, certificate and private key for mTLS.
	SecretARN string
	// SecretKeyARN is the KMS key that SecretARN is encrypted with, if it is a customer key. MSK requires one
	// for SCRAM.
	SecretKeyARN string
	// CASecretARN is a secret with the root certificate of a self-managed cluster's brokers, if no public CA
	// issued it.
	CASecretARN string
	// BrokerSubnetIDs and BrokerSecurityGroupIDs give access to a self-managed cluster in a VPC. For an MSK
	// cluster AWS knows them.
	BrokerSubnetIDs, BrokerSecurityGroupIDs []string

	// Topics are the topics. Each has an event source mapping; all share the function and its table of keys.
	Topics []Topic
	// ConsumerGroup is the Kafka consumer group of the first topic, up to 200 characters. It can't be changed
	// later: another group means another event source mapping, which starts at StartingPosition.
	ConsumerGroup string
	// Namespace is the name of the consumer and the prefix of every key, so that two consumers of a topic can
	// share a table. In another namespace every record counts as new; see DeployedNamespace. Default:
	// ConsumerGroup.
	Namespace string
	// KeyScope is the scope of keys: KeyScopeTopic (default) or KeyScopeNamespace. With KeyScopeNamespace the
	// same key in two topics is the same request, and a topic can be renamed.
	KeyScope KeyScope
	// DeployedNamespace and DeployedKeyScope are the deployed values, from the stack's outputs. With them,
	// Check refuses another namespace or scope, and Topics without a deployed topic. Without them
	// CloudFormation refuses these at the deployment; see pinned.go.
	DeployedNamespace, DeployedKeyScope string

	// BatchSize is the maximum number of records of an invocation, 1 to 10,000. Default: 100.
	BatchSize int
	// BatchWindow is the maximum time for gathering a batch, in whole seconds up to 5 minutes. Default: AWS's
	// default, 500 ms.
	BatchWindow time.Duration
	// RecordTime is the time of a single record, with its handler and two requests to the table. Check
	// compares BatchSize with it. Default: 20 ms.
	RecordTime time.Duration
	// StartingPosition is the position at which a new consumer group starts: TrimHorizon (default), Latest or
	// AtTimestamp.
	StartingPosition StartingPosition
	// StartingTimestamp is the time of AtTimestamp.
	StartingTimestamp time.Time
	// Pollers are the event pollers of provisioned mode. Retries, partial failures, schemas, and the logs and
	// metrics of the event source need this mode. Default: 1 to 10.
	Pollers Pollers
	// OnDemand turns provisioned mode off.
	OnDemand bool
	// Failures is how the function reports failed records. It sets IDEMSK_FAILURES and the event source's
	// ReportBatchItemFailures together. Default: FailPartial, or FailBatch with OnDemand, which supports
	// nothing else.
	Failures Failures
	// Retries is the number of retries of a batch, 0 to 10,000, if FiniteRetries is set. By default the event
	// source retries until the record leaves the topic. Then no record is lost, and one that always fails
	// becomes a dead letter after MaxAttempts. Finite retries are used up by an outage of the handler or of
	// the store, although it uses up no attempts.
	Retries int
	// FiniteRetries enables Retries.
	FiniteRetries bool
	// KeepBatches disables the bisection of failed batches.
	KeepBatches bool
	// MaxRecordAge is the age at which the event source gives up a record, 60 s to 168 h in whole seconds.
	// Default: never.
	MaxRecordAge time.Duration
	// TopicRetention is the retention of the topics. If set, Check compares Retention with it.
	TopicRetention time.Duration
	// Filters are patterns of Lambda's event filtering, as JSON. Filtered records never reach the function.
	Filters []string
	// SchemaRegistry makes the event source validate and decode records.
	SchemaRegistry *SchemaRegistry
	// PollerLog is the level of the event source's own log: PollerLogWarn, PollerLogInfo (default) or
	// PollerLogDebug.
	PollerLog PollerLog
	// OnFailure is the destination of batches that the event source gives up. Default: none, because with
	// unlimited retries it gives up none.
	OnFailure OnFailure

	// Key, Fingerprint, Order, MissingKey and StoreDown are the variables IDEMSK_KEY and so on, and their
	// defaults.
	Key, Fingerprint, Order, MissingKey, StoreDown string
	// HashKeys is IDEMSK_HASH_KEYS.
	HashKeys bool
	// Concurrency is IDEMSK_CONCURRENCY, the number of records handled concurrently, 1 to 10,000. Default:
	// 32, or 8 with StorePostgres, because each handler with a transaction holds a connection.
	Concurrency int
	// Unbatched is IDEMSK_BATCHING=off: each claim and each completion is a request of its own.
	Unbatched bool
	// Claim is IDEMSK_CLAIM, how keys are claimed: ClaimByKey (default) or ClaimByPartition.
	Claim Claim
	// CommitWindow is IDEMSK_COMMIT_WINDOW, the maximum number of unconfirmed completions, 1 to 10,000.
	// Default: 256.
	CommitWindow int
	// Lease is IDEMSK_LEASE, 100 ms to 1 h. Default: 30 s.
	Lease time.Duration
	// MaxClockSkew is IDEMSK_MAX_CLOCK_SKEW, up to 1 minute. Default: 1 s.
	MaxClockSkew time.Duration
	// Wait is IDEMSK_WAIT, the maximum wait for a key that is in flight elsewhere. A negative value means no
	// wait. Default: until the deadline.
	Wait time.Duration
	// Retention is IDEMSK_RETENTION, how long a settled key is kept. It must exceed the time of the latest
	// redelivery. Default: 168 h.
	Retention time.Duration
	// MaxAttempts is IDEMSK_MAX_ATTEMPTS, 1 to 1,000,000. Default: 5.
	MaxAttempts int
	// RetryDelay is IDEMSK_RETRY_DELAY, how long the key of a failed record can't be claimed again, up to 5
	// minutes. Each further attempt makes it four times as long, up to 5 minutes. A negative value means no
	// delay. Default: 1 s.
	RetryDelay time.Duration
	// OutageFailures is IDEMSK_OUTAGE_FAILURES, the number of different keys whose first attempts must fail
	// one after another for an outage, in which attempts are not counted, 1 to 1,000. A negative value means
	// never. Default: 5.
	OutageFailures int
	// OutageLimit is IDEMSK_OUTAGE_LIMIT, the time after which attempts count again in an outage, up to 168
	// h. Default: none.
	OutageLimit time.Duration
	// MaxResult is IDEMSK_MAX_RESULT in bytes, up to 358,400. Default: 4,096. A negative value stores no
	// results.
	MaxResult int
	// DeadlineMargin is IDEMSK_DEADLINE_MARGIN, 1 ms to 1 minute. Default: 500 ms.
	DeadlineMargin time.Duration

	// Timeout is the function's timeout in whole seconds, more than Lease and at most 14 minutes. Default: 1
	// minute.
	Timeout time.Duration
	// MemoryMB is the function's memory, 128 to 10,240. Default: 512.
	MemoryMB int
	// ReservedConcurrency is the maximum number of concurrent invocations. Default: not reserved.
	ReservedConcurrency int
	// LogLevel is the level of the function's own log: DEBUG, INFO (default), WARN or ERROR. Lambda's filter
	// stays at INFO or below, because it would drop the metrics.
	LogLevel string
	// LogRetentionDays is a retention period that CloudWatch Logs supports. Default: 30.
	LogRetentionDays int
	// Tracing enables active tracing with X-Ray.
	Tracing bool
	// Environment are further variables of the function. Variables that the construct sets are refused.
	Environment map[string]string
	// Canary shifts traffic to a new version in steps, and back when an alarm rises. Default: CanaryOff, all
	// at once.
	Canary Canary

	// DeadLetterBucketARN is an S3 bucket, or a prefix in it, for the values of large dead letters:
	// arn:aws:s3:::NAME/PREFIX. CodeDir must contain a program with app/s3, which the example function is
	// not. A customer key of the bucket must admit Role to kms:GenerateDataKey. Default: none; large dead
	// letters are sent without their values.
	DeadLetterBucketARN string

	// Store is the store of keys: StoreDynamoDB (default), in a table of the construct, or StorePostgres or
	// StoreRedis, on an existing server. CodeDir must contain the program for the store
	// (dist/handler-arm64-postgres, -redis). The server must admit the function, which is in VPC with
	// SecurityGroups, or Function's Connections.
	Store Store
	// StoreURL is the server's URL without user and password: postgres://HOST:PORT/DATABASE, or
	// rediss://HOST:PORT, optionally with ?cluster=true. It is optional if the secret contains the server.
	StoreURL string
	// StoreSecretARN is the Secrets Manager secret with user and password, with a url, or in the format of
	// RDS. The function reads it at its start, and again when the server refuses the password.
	StoreSecretARN string
	// StoreSecretKeyARN is the KMS key that StoreSecretARN is encrypted with, if it is a customer key.
	StoreSecretKeyARN string
	// StoreTable is the table in PostgreSQL, which `idemsk migrate` creates before the first deployment, or
	// the prefix of keys in Redis. Default: idemsk.
	StoreTable string

	// Outbox adds a table for events that handlers publish in their transactions, and the relay that sends
	// them to Kafka. StoreDynamoDB only. Default: none.
	Outbox *OutboxProps

	// Maintenance adds a function that maintains the store of keys on a schedule. Default: none.
	Maintenance *MaintenanceProps

	// TableName is the table's name. Default: generated by CloudFormation, which is recommended, because a
	// named table can't be replaced.
	TableName string
	// ContributorInsights shows the most used keys in CloudWatch. It costs a fee for each request.
	ContributorInsights bool
	// DeletionUnprotected disables the deletion protection of the table, for tests.
	DeletionUnprotected bool
	// RemovalPolicy applies to the table, dead letters and logs when the stack is deleted. Default: RETAIN.
	RemovalPolicy awscdk.RemovalPolicy
	// EncryptionKey encrypts all data at rest: table, queues, log group, environment, alarm topic. The policy
	// of an imported key must admit logs.<region>.amazonaws.com and cloudwatch.amazonaws.com; the policy of a
	// key of this app is extended. Default: AWS's own keys.
	EncryptionKey awskms.IKey

	// VPC is the VPC of the function. MSK does not need it, because the event source connects to the cluster
	// itself. Default: none.
	VPC awsec2.IVpc
	// Subnets selects the function's subnets. Default: the VPC's private subnets.
	Subnets *awsec2.SubnetSelection
	// SecurityGroups are the function's security groups. Default: a new one that allows all outbound traffic.
	SecurityGroups []awsec2.ISecurityGroup
	// Endpoints creates the VPC endpoints that a private function needs; see network.go. Needs VPC.
	Endpoints bool

	// AlarmEmail receives all alarms after it has confirmed the subscription.
	AlarmEmail string
	// AlarmTopic receives all alarms.
	AlarmTopic awssns.ITopic
	// MaxLag is the alarm threshold for the lag in records, breached for 15 minutes. Default: 100,000.
	MaxLag int
	// MaxInProgress is the alarm threshold for InProgressAge, the time since the first claim of an unsettled
	// key. It is evaluated as MaxAge is. Default: 15 minutes.
	MaxInProgress time.Duration
	// MaxAge is the alarm threshold for RecordAge, the time between production and handling, breached three
	// times within 15 minutes, or within four times Timeout plus a minute if that is longer. Default: 15
	// minutes.
	MaxAge time.Duration
}

// Topic is a topic and its consumer group.
type Topic struct {
	Name string
	// Group is the consumer group. AWS requires a different one for each event source mapping. Default:
	// Props.ConsumerGroup.
	Group string
}

// Pollers are provisioned event pollers, each with up to 5 MB/s.
type Pollers struct {
	Min   int    // 1 to 200; default 1
	Max   int    // 1 to 2,000; default 10
	Group string // shares capacity among event sources of one VPC; default: none
}

// Store is the kind of store of the keys.
type Store string

// The stores.
const (
	StoreDynamoDB Store = "dynamodb"
	StorePostgres Store = "postgres"
	StoreRedis    Store = "redis" // or Valkey
)

// ProvidedAL2023 is the runtime of programs that use this library.
const ProvidedAL2023 = "provided.al2023"

// Architecture is a processor architecture.
type Architecture string

// The architectures of Lambda.
const (
	ARM64 Architecture = "arm64"
	X8664 Architecture = "x86_64"
)

// Auth is how the event source authenticates with the brokers.
type Auth string

// The ways to authenticate.
const (
	AuthIAM      Auth = "iam"           // MSK only, with the function's role
	AuthSCRAM256 Auth = "scram-sha-256" // self-managed only
	AuthSCRAM512 Auth = "scram-sha-512"
	AuthPlain    Auth = "plain" // self-managed only
	AuthMTLS     Auth = "mtls"
	AuthNone     Auth = "none" // reachable within a VPC only
)

// StartingPosition is where a consumer group without offsets starts.
type StartingPosition string

// The starting positions.
const (
	TrimHorizon StartingPosition = "TRIM_HORIZON"
	Latest      StartingPosition = "LATEST"
	AtTimestamp StartingPosition = "AT_TIMESTAMP"
)

// Failures is how the function reports failed records.
type Failures string

// The values of Failures.
const (
	FailPartial Failures = "partial" // reports each failed record: only these are redelivered
	FailBatch   Failures = "batch"   // fails the invocation: the batch is redelivered
)

// KeyScope is the scope in which an idempotency key identifies one request.
type KeyScope string

// The scopes of keys.
const (
	KeyScopeTopic     KeyScope = "topic"     // one topic of the consumer
	KeyScopeNamespace KeyScope = "namespace" // all topics of the consumer
)

// Claim is how the function claims keys.
type Claim string

// The values of Claim.
const (
	ClaimByKey Claim = "key" // each key is claimed before its handler
	// one lease claims a partition of a batch: see docs/operations.md. With StoreDynamoDB only.
	ClaimByPartition Claim = "partition"
)

// PollerLog is the level of an event source's log.
type PollerLog string

// The levels.
const (
	PollerLogDebug PollerLog = "DEBUG"
	PollerLogInfo  PollerLog = "INFO"
	PollerLogWarn  PollerLog = "WARN"
)

// Canary is how traffic shifts to a new version.
type Canary string

// The canaries.
const (
	CanaryOff         Canary = "off"
	Canary10Percent5  Canary = "10-percent-5-minutes"
	Canary10Percent15 Canary = "10-percent-15-minutes"
	CanaryLinear10    Canary = "linear-10-percent-every-minute"
)

// OnFailure is the destination of batches that the event source gives up. At most one field may be set.
type OnFailure struct {
	// Queue creates an SQS queue. Its messages contain the positions of the records, not the records.
	Queue bool
	// BucketARN is an S3 bucket. It receives the records too.
	BucketARN string
	// Topic is a topic of the same cluster. It receives the records too.
	Topic string
}

// SchemaRegistry is the event source's schema registry.
type SchemaRegistry struct {
	// URI is the ARN of a Glue registry, or the https URL of a Confluent one.
	URI string
	// SecretARN is the secret for a Confluent registry with basic authentication.
	SecretARN string
	// Source delivers validated records unchanged. Default: as JSON, which IDEMSK_KEY=json:… needs.
	Source bool
	// ValidateKey and ValidateValue select what is validated. Default: the value.
	ValidateKey, ValidateValue bool
}
