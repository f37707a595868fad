package consumer

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
)

// Props are the construct's settings. The zero value of a field stands for its default; Check tells what is allowed. Only
// CodeDir, a cluster (ClusterARN or BootstrapServers), Topics and ConsumerGroup must be given. Strings may be CDK tokens; what is
// a token is not checked.
type Props struct {
	// CodeDir is the directory that holds the function's program, a file named bootstrap for provided.al2023.
	CodeDir string
	// Architecture is what CodeDir was built for. Default: ARM64.
	Architecture Architecture

	// ClusterARN is the MSK cluster's ARN, provisioned or serverless. Either this or BootstrapServers.
	ClusterARN string
	// BootstrapServers are the brokers, host:port, of a self-managed cluster.
	BootstrapServers []string
	// Auth is how the event source authenticates. Default: AuthIAM for MSK, AuthSCRAM512 for a self-managed cluster.
	Auth Auth
	// SecretARN is the Secrets Manager secret with the credentials: user name and password for SCRAM and PLAIN, certificate and
	// private key for mTLS.
	SecretARN string
	// SecretKeyARN is the KMS key that SecretARN is encrypted with, if it is a customer key. MSK requires one for SCRAM.
	SecretKeyARN string
	// CASecretARN is a secret with the root certificate of a self-managed cluster's brokers, if no public CA issued it.
	CASecretARN string
	// BrokerSubnetIDs and BrokerSecurityGroupIDs are how a self-managed cluster in a VPC is reached. Of an MSK cluster, AWS
	// knows them.
	BrokerSubnetIDs, BrokerSecurityGroupIDs []string

	// Topics are consumed by one event source mapping each, all by one function with one memory of keys.
	Topics []Topic
	// ConsumerGroup is the Kafka consumer group of the first topic, up to 200 characters. AWS can't change it later: another
	// group is another event source mapping, which starts at StartingPosition.
	ConsumerGroup string
	// Namespace names the consumer. It is put before every key, so that two consumers of a topic may share a table. Default:
	// ConsumerGroup. In another namespace every record counts as new. See DeployedNamespace.
	Namespace string
	// KeyScope says whether keys are those of a topic, KeyScopeTopic (default), or of the namespace, KeyScopeNamespace: then the
	// same key in two topics is the same request, and a topic may be renamed.
	KeyScope KeyScope
	// DeployedNamespace and DeployedKeyScope are what the stack was deployed with, from its outputs. If they are given, Check
	// refuses another namespace or scope, and topics that lack a deployed one. Without them CloudFormation refuses at the
	// deployment; see pinned.go.
	DeployedNamespace, DeployedKeyScope string

	// BatchSize is the most records of an invocation, 1 to 10,000. Default: 100.
	BatchSize int
	// BatchWindow is the longest time that records are gathered for a batch, whole seconds up to 5 minutes. Default: AWS's own,
	// 500 ms.
	BatchWindow time.Duration
	// RecordTime is how long a record takes on its own, the handler and two requests to the table. Default: 20 ms. It is what
	// BatchSize is checked with.
	RecordTime time.Duration
	// StartingPosition is where a new consumer group begins: TrimHorizon (default), Latest or AtTimestamp.
	StartingPosition StartingPosition
	// StartingTimestamp is what AtTimestamp means.
	StartingTimestamp time.Time
	// Pollers are the event pollers of provisioned mode, which everything about retries, partial failures, schemas,
	// logs and metrics of the event source needs. Default: 1 to 10.
	Pollers Pollers
	// OnDemand turns provisioned mode off.
	OnDemand bool
	// Failures is how the function reports records that failed; it sets IDEMSK_FAILURES and the event source's
	// ReportBatchItemFailures together. Default: FailPartial, or FailBatch with OnDemand, which offers nothing else.
	Failures Failures
	// Retries is how often the event source tries a batch again, 0 to 10,000, if FiniteRetries is set. By default it tries until
	// the record leaves the topic: nothing is lost, and what always fails becomes a dead letter after MaxAttempts.
	Retries int
	// FiniteRetries makes Retries count.
	FiniteRetries bool
	// KeepBatches turns off that a failed batch is halved.
	KeepBatches bool
	// MaxRecordAge is the age at which the event source gives a record up, 60 s to 168 h in whole seconds. Default: never.
	MaxRecordAge time.Duration
	// TopicRetention is how long the topics keep a record, if that is to be checked against Retention.
	TopicRetention time.Duration
	// Filters are patterns of Lambda's event filtering, as JSON. Filtered records never reach the function.
	Filters []string
	// SchemaRegistry makes the event source validate and decode records.
	SchemaRegistry *SchemaRegistry
	// PollerLog is the level of the event source's own log: PollerLogWarn, PollerLogInfo (default) or PollerLogDebug.
	PollerLog PollerLog
	// OnFailure is where the event source sends what it gives up. Default: nowhere, as with endless retries it gives nothing up.
	OnFailure OnFailure

	// Key, Fingerprint, Order, MissingKey and StoreDown are the variables IDEMSK_KEY and so on, and their defaults.
	Key, Fingerprint, Order, MissingKey, StoreDown string
	// HashKeys is IDEMSK_HASH_KEYS.
	HashKeys bool
	// Concurrency is IDEMSK_CONCURRENCY: records handled at once, 1 to 10,000. Default: 32, and 8 with StorePostgres: each
	// handler that has a transaction holds a connection.
	Concurrency int
	// Unbatched is IDEMSK_BATCHING=off: a request to the table for each claim and each completion.
	Unbatched bool
	// ClaimOnCommit is IDEMSK_CLAIM=commit, for handlers that do nothing but enlist: see docs/atomic.md. Not with StoreRedis.
	ClaimOnCommit bool
	// CommitWindow is IDEMSK_COMMIT_WINDOW, 1 to 10,000: how many handlers may have returned whose completion is on its way.
	// Default: 256.
	CommitWindow int
	// Lease is IDEMSK_LEASE, 100 ms to 1 h. Default: 30 s.
	Lease time.Duration
	// MaxClockSkew is IDEMSK_MAX_CLOCK_SKEW, up to 1 minute. Default: 1 s.
	MaxClockSkew time.Duration
	// Wait is IDEMSK_WAIT, the longest wait for a key in flight elsewhere. Default: until the deadline. A negative value: not at all.
	Wait time.Duration
	// Retention is IDEMSK_RETENTION: how long a settled key is remembered. It must outlive the longest redelivery. Default: 168 h.
	Retention time.Duration
	// MaxAttempts is IDEMSK_MAX_ATTEMPTS, 1 to 1,000,000. Default: 5.
	MaxAttempts int
	// MaxResult is IDEMSK_MAX_RESULT in bytes, up to 358,400. Default: 4,096. A negative value stores no results.
	MaxResult int
	// DeadlineMargin is IDEMSK_DEADLINE_MARGIN, 1 ms to 1 minute. Default: 500 ms.
	DeadlineMargin time.Duration

	// Timeout is the function's, more than Lease and at most 14 minutes, in whole seconds. Default: 1 minute.
	Timeout time.Duration
	// MemoryMB is the function's memory, 128 to 10,240. Default: 512.
	MemoryMB int
	// ReservedConcurrency is the most invocations at once. Default: not reserved.
	ReservedConcurrency int
	// LogLevel is that of the function's own lines: DEBUG, INFO (default), WARN or ERROR. Lambda's filter stays at INFO or below,
	// since it would drop the metrics too.
	LogLevel string
	// LogRetentionDays is one of the numbers of days that CloudWatch Logs offers. Default: 30.
	LogRetentionDays int
	// Tracing turns X-Ray's active tracing on.
	Tracing bool
	// Environment holds further variables of the function. Those that the construct sets itself are refused.
	Environment map[string]string
	// Canary shifts traffic to a new version step by step, and back when an alarm rises. Default: CanaryOff, all at once.
	Canary Canary

	// Store is where the keys are: StoreDynamoDB (default), in a table of the construct's own, or StorePostgres or StoreRedis, on a
	// server that is there. CodeDir must hold a program that was built for it (dist/handler-arm64-postgres, -redis), and the server
	// must let the function in: it is in VPC, behind SecurityGroups, or Function's Connections.
	Store Store
	// StoreURL is the server without user and password, postgres://HOST:PORT/DATABASE, rediss://HOST:PORT or with ?cluster=true.
	// It is not needed if the secret names the server.
	StoreURL string
	// StoreSecretARN is the Secrets Manager secret with user and password, or with a url, or as RDS writes it. The function
	// reads it at its start, and again when the server refuses the password.
	StoreSecretARN string
	// StoreSecretKeyARN is the KMS key that StoreSecretARN is encrypted with, if it is a customer key.
	StoreSecretKeyARN string
	// StoreTable is the table in PostgreSQL, which `idemsk migrate` makes before the first deployment, or the prefix of keys in Redis.
	// Default: idemsk.
	StoreTable string

	// Outbox adds a table of events that handlers publish in their transactions, and the relay that sends them to Kafka.
	// Default: none. StoreDynamoDB only.
	Outbox *OutboxProps

	// TableName is the table's. Default: CloudFormation's choice, which is best: a named table can't be replaced.
	TableName string
	// ContributorInsights shows the most used keys in CloudWatch, at a price for each request.
	ContributorInsights bool
	// DeletionUnprotected lets the table be deleted: for tests.
	DeletionUnprotected bool
	// RemovalPolicy says what becomes of the table, dead letters and logs when the stack is deleted. Default: RETAIN.
	RemovalPolicy awscdk.RemovalPolicy
	// EncryptionKey is for everything at rest: table, queues, log group, environment, alarm topic. Default: AWS's own keys. The policy of an
	// imported key must admit logs.<region>.amazonaws.com and cloudwatch.amazonaws.com; that of a key of this app is amended.
	EncryptionKey awskms.IKey

	// VPC puts the function into a VPC. MSK does not need that: the event source reaches the cluster by itself. Default: none.
	VPC awsec2.IVpc
	// Subnets selects the function's. Default: the VPC's private ones.
	Subnets *awsec2.SubnetSelection
	// SecurityGroups are the function's. Default: a new one that lets everything out.
	SecurityGroups []awsec2.ISecurityGroup
	// Endpoints creates the VPC endpoints that a private function needs; see network.go. Needs VPC.
	Endpoints bool

	// AlarmEmail is told of every alarm; it must confirm the subscription.
	AlarmEmail string
	// AlarmTopic is told of every alarm.
	AlarmTopic awssns.ITopic
	// MaxLag is how many records the consumer may be behind for 15 minutes. Default: 100,000.
	MaxLag int
	// MaxInProgress is the InProgressAge, the time since the first claim of a key that is not settled, that is alarming as often as
	// MaxAge. Default: 15 minutes.
	MaxInProgress time.Duration
	// MaxAge is the RecordAge, the time between production and handling, that is alarming three times within 15 minutes, or within
	// four times Timeout and a minute if that is longer. Default: 15 minutes.
	MaxAge time.Duration
}

// Topic is a topic and the consumer group that reads it.
type Topic struct {
	Name string
	// Group is the consumer group. Default: Props.ConsumerGroup. AWS wants another one for every event source mapping.
	Group string
}

// Pollers are provisioned event pollers, each good for up to 5 MB/s.
type Pollers struct {
	Min   int    // 1 to 200; default 1
	Max   int    // 1 to 2,000; default 10
	Group string // shares capacity among event sources of one VPC; default: none
}

// Store is where keys are kept.
type Store string

// The stores.
const (
	StoreDynamoDB Store = "dynamodb"
	StorePostgres Store = "postgres"
	StoreRedis    Store = "redis" // or Valkey
)

// Architecture is a processor's.
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
	AuthIAM      Auth = "iam"       // MSK only, with the function's role
	AuthSCRAM256 Auth = "scram-256" // self-managed only
	AuthSCRAM512 Auth = "scram-512"
	AuthPlain    Auth = "plain" // self-managed only
	AuthMTLS     Auth = "mtls"
	AuthNone     Auth = "none" // reachable within a VPC only
)

// StartingPosition is where a consumer group begins that has no offsets yet.
type StartingPosition string

// The starting positions.
const (
	TrimHorizon StartingPosition = "TRIM_HORIZON"
	Latest      StartingPosition = "LATEST"
	AtTimestamp StartingPosition = "AT_TIMESTAMP"
)

// Failures is how the function reports records that failed.
type Failures string

// The ways to report.
const (
	FailPartial Failures = "partial" // by name: only these come again
	FailBatch   Failures = "batch"   // by an error: the batch comes again
)

// KeyScope says within what an idempotency key stands for one request.
type KeyScope string

// The scopes of keys.
const (
	KeyScopeTopic     KeyScope = "topic"     // the consumer's view of one topic
	KeyScopeNamespace KeyScope = "namespace" // all that the consumer reads
)

// PollerLog is the level of an event source's log.
type PollerLog string

// The levels.
const (
	PollerLogDebug PollerLog = "DEBUG"
	PollerLogInfo  PollerLog = "INFO"
	PollerLogWarn  PollerLog = "WARN"
)

// Canary is how traffic is shifted to a new version.
type Canary string

// The canaries.
const (
	CanaryOff         Canary = "off"
	Canary10Percent5  Canary = "10-percent-5-minutes"
	Canary10Percent15 Canary = "10-percent-15-minutes"
	CanaryLinear10    Canary = "linear-10-percent-every-minute"
)

// OnFailure is where the event source sends what it gives up. At most one field may be set.
type OnFailure struct {
	// Queue creates an SQS queue. Its messages say where the records were, they do not hold them.
	Queue bool
	// BucketARN is an S3 bucket, which gets the records too.
	BucketARN string
	// Topic is a topic of the same cluster, which gets the records too.
	Topic string
}

// SchemaRegistry is where the event source finds the schemas of records.
type SchemaRegistry struct {
	// URI is the ARN of a Glue registry, or the https URL of a Confluent one.
	URI string
	// SecretARN is the secret for a Confluent registry with basic authentication.
	SecretARN string
	// Source hands the records on as they are, validated. Default: as JSON, which IDEMSK_KEY=json:… needs.
	Source bool
	// ValidateKey and ValidateValue say what is checked against its schema. Default: the value.
	ValidateKey, ValidateValue bool
}
