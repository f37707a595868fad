package consumer

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
)

// Props are the construct's properties, in groups. Required are Function.Code, a cluster (Cluster.ARN or
// Cluster.BootstrapServers), Source.Topics and Source.ConsumerGroup. The zero value of a property means its
// default, and a property whose zero means something else is a pointer. The tags of the fields have defaults,
// valid values and the function's variables; settings.go explains them. Strings may be tokens of the CDK,
// which are not checked.
type Props struct {
	Function    Function    // the Lambda function
	Cluster     Cluster     // the Kafka cluster
	Source      Source      // the topics, and the event source mappings that read them
	Idempotency Idempotency // keys, claims and attempts
	Store       Store       // where the keys are
	DeadLetters DeadLetters // records that the function gives up
	Network     Network     // the VPC of the function; none by default
	Alarms      Alarms
	// Outbox adds a table for events that handlers publish in their transactions, and the relay that sends
	// them to Kafka. With StoreDynamoDB only. Default: none.
	Outbox *Outbox
	// Maintenance adds a function that maintains the store of keys on a schedule. Default: none.
	Maintenance *Maintenance

	// VPCEndpoints creates the endpoints that a function in a private VPC needs: DynamoDB with StoreDynamoDB,
	// SQS, Secrets Manager with Store.SecretARN or a secret of the relay, S3 with exports, and X-Ray with
	// Function.Tracing.
	VPCEndpoints bool
	// EncryptionKey encrypts all data at rest: tables, queues, log groups, environment, alarm topic. The
	// policy of an imported key must admit logs.<region>.amazonaws.com and cloudwatch.amazonaws.com; the
	// policy of a key of this app is extended. StackProps.Env must name the region. Default: AWS's own keys.
	EncryptionKey awskms.IKey
	// RemovalPolicy applies to tables, queues and log groups.
	RemovalPolicy awscdk.RemovalPolicy `words:"RETAIN DESTROY"`
}

// Function has the settings of the Lambda function.
type Function struct {
	// Code is the directory or the .zip file of the function's code. With ProvidedAL2023 it has the program, a
	// file named bootstrap, for Architecture and Store.Type. With another Runtime it may also be a .jar file.
	Code         string
	Architecture Architecture `words:"arm64 x86_64"`
	// Runtime is the identifier of a Lambda runtime. Default: ProvidedAL2023, for a program that uses this
	// library. A function on another runtime, such as python3.13 or java21, runs unchanged behind the layer
	// of LayerZip (docs/layer.md). It has no Outbox and no Idempotency.Concurrency.
	Runtime string `form:"runtime"`
	// Handler is the function's handler as the runtime takes it, such as app.handler. Required with another
	// Runtime than ProvidedAL2023, which has none.
	Handler string `form:"handler" required:"true" needs:"layer"`
	// LayerZip is the file of the layer for Architecture and Store.Type: dist/idemsk-layer-arm64.zip after
	// `make build`, or …-arm64-postgres.zip. Required with another Runtime than ProvidedAL2023.
	LayerZip string `needs:"layer"`
	// Timeout is more than Idempotency.Lease.
	Timeout  time.Duration `default:"1m" range:"1s to 14m" unit:"1s"`
	MemoryMB int           `default:"512" range:"128 to 10240"`
	// ReservedConcurrency is the maximum number of concurrent invocations. Default: not reserved.
	ReservedConcurrency int `range:"1 to 1000000"`
	// LogLevel is the level of the function's own log, and of the relay and the maintenance. Lambda's filter
	// stays at INFO or below, because it would drop the metrics.
	LogLevel         string `words:"INFO DEBUG WARN ERROR" env:"IDEMSK_LOG_LEVEL" readers:"function relay maintenance"`
	LogRetentionDays int    `default:"30" words:"1 3 5 7 14 30 60 90 120 150 180 365 400 545 731 1096 1827 2192 2557 2922 3288 3653"`
	// Tracing enables active tracing with X-Ray.
	Tracing bool
	// Environment has further variables of the function. Variables that the construct sets are refused.
	Environment map[string]string
	// Canary shifts traffic to a new version in steps, and back when an alarm rises.
	Canary Canary `words:"off 10-percent-5-minutes 10-percent-15-minutes linear-10-percent-every-minute"`
}

// Cluster has the settings of the Kafka cluster. One of ARN and BootstrapServers is required.
type Cluster struct {
	// ARN is the ARN of an MSK cluster, provisioned or serverless.
	ARN string `form:"clusterARN"`
	// BootstrapServers are brokers, host:port, of a self-managed cluster.
	BootstrapServers []string `form:"broker" most:"10"`
	// Auth is how the event source authenticates. Default: AuthIAM for MSK, AuthSCRAM512 for a self-managed
	// cluster.
	Auth Auth
	// SecretARN is the Secrets Manager secret with the credentials: user name and password for SCRAM and
	// PLAIN, certificate and private key for mTLS.
	SecretARN string `form:"secretARN"`
	// SecretKeyARN is the KMS key that SecretARN is encrypted with, if it is a customer key. MSK requires one
	// for SCRAM.
	SecretKeyARN string `form:"keyARN"`
	// CASecretARN is a secret with the root certificate of a self-managed cluster's brokers, if no public CA
	// issued it.
	CASecretARN string `form:"secretARN" needs:"ca"`
	// SubnetIDs and SecurityGroupIDs give access to a self-managed cluster in a VPC. For an MSK cluster AWS
	// knows them.
	SubnetIDs        []string `needs:"network"`
	SecurityGroupIDs []string `needs:"network"`
}

// Source has the settings of the event source mappings. Each topic has one.
type Source struct {
	// Topics are the topics. All share the function and its store of keys.
	Topics []Topic
	// ConsumerGroup is the Kafka consumer group of the first topic, up to 200 characters. It can't be changed
	// later: another group means another event source mapping, which starts at StartingPosition.
	ConsumerGroup string `form:"group" required:"true"`
	// StartingPosition is where a new consumer group starts.
	StartingPosition awslambda.StartingPosition `words:"TRIM_HORIZON LATEST AT_TIMESTAMP"`
	// StartingTimestamp is the time of StartingPosition_AT_TIMESTAMP.
	StartingTimestamp time.Time
	// BatchSize is the maximum number of records of an invocation.
	BatchSize int `default:"100" range:"1 to 10000"`
	// BatchWindow is the maximum time for gathering a batch. Default: AWS's default, 500 ms.
	BatchWindow time.Duration `range:"1s to 5m" unit:"1s"`
	// RecordTime is the time of a single record, with its handler and two requests to the store. Check
	// compares BatchSize with it.
	RecordTime time.Duration `default:"20ms" range:"1µs to 14m"`
	// Filters are patterns of Lambda's event filtering, as JSON. Filtered records never reach the function.
	Filters []string `form:"filter" most:"5"`
	// SchemaRegistry makes the event source validate and decode records. Default: none.
	SchemaRegistry *SchemaRegistry
	Pollers        Pollers
	// Failures is IDEMSK_FAILURES, how the function reports failed records. It also sets the event source's
	// ReportBatchItemFailures. Default: FailPartial, or FailBatch with Pollers.OnDemand.
	Failures Failures `words:"partial batch" env:"IDEMSK_FAILURES"`
	// Retries is the number of retries of a batch. Default: the event source retries until the record leaves
	// the topic. Then no record is lost, and one that always fails becomes a dead letter after
	// Idempotency.MaxAttempts. An outage of the handler or of the store uses up finite retries, although it
	// uses up no attempts. A number must be at least Idempotency.MaxAttempts and span Idempotency.Lease, and
	// needs OnFailure.
	Retries *int `range:"0 to 10000" unset:"infinite" needs:"provisioned"`
	// KeepBatches disables the bisection of failed batches.
	KeepBatches bool `needs:"provisioned"`
	// MaxRecordAge is the age at which the event source gives up a record: more than Idempotency.Lease and all
	// delays between attempts. It needs Retries and OnFailure. Default: never.
	MaxRecordAge time.Duration `range:"1m to 168h" unit:"1s" needs:"provisioned"`
	// TopicRetention is the retention of the topics. If set, Check compares Idempotency.Retention with it.
	TopicRetention time.Duration `range:"1s to 876000h"`
	// OnFailure is the destination of batches that the event source gives up. Default: none, because with
	// unlimited retries it gives up none.
	OnFailure OnFailure
}

// Topic is a topic and its consumer group.
type Topic struct {
	Name string
	// Group is the consumer group. AWS requires a different one for each event source mapping. Default:
	// Source.ConsumerGroup.
	Group string
}

// Pollers are the event pollers of provisioned mode, each with up to 5 MB/s.
type Pollers struct {
	Min int `default:"1" range:"1 to 200" needs:"provisioned"`
	Max int `range:"1 to 2000" needs:"provisioned"` // default: 10, or Min if that is greater
	// Group shares the capacity among event sources of one VPC. Default: none.
	Group string `needs:"provisioned"`
	// Log is the level of the event source's own log.
	Log string `words:"INFO DEBUG WARN" needs:"provisioned"`
	// OnDemand turns provisioned mode off. Retries, partial failures, schemas, on-failure destinations, and
	// the log and metrics of the event source need this mode.
	OnDemand bool
}

// SchemaRegistry is the event source's schema registry.
type SchemaRegistry struct {
	// URI is the ARN of a Glue registry, or the https URL of a Confluent one.
	URI string `form:"registry" required:"true" needs:"provisioned"`
	// SecretARN is the secret for a Confluent registry with basic authentication.
	SecretARN string `form:"secretARN" needs:"confluent"`
	// Format is how validated records are delivered: json, which Idempotency.Key json:… needs, or source,
	// which is unchanged.
	Format string `words:"json source"`
	// Validate says what is validated.
	Validate []string `default:"value" words:"key value"`
}

// OnFailure is the destination of batches that the event source gives up. At most one field may be set.
type OnFailure struct {
	Queue     bool   `needs:"provisioned"`                  // creates an SQS queue, which receives the positions of the records
	BucketARN string `form:"bucketARN" needs:"provisioned"` // of S3; receives the records too
	Topic     string `form:"topic" needs:"provisioned"`     // of the same cluster; receives the records too
}

// DeadLetters has the settings of the records that the function gives up. They are sent to a queue.
type DeadLetters struct {
	// BucketARN is an S3 bucket, or a prefix in it, for the values of large dead letters:
	// arn:aws:s3:::NAME/PREFIX. Function.Code must contain a program with app/s3, which the example
	// function is not. A customer key of the bucket must admit Role to kms:GenerateDataKey, and a VPC needs an
	// endpoint of S3. Default: none; large dead letters are sent without their values.
	BucketARN string `form:"prefixARN"`
}

// ProvidedAL2023 is the runtime of programs that use this library.
const ProvidedAL2023 = "provided.al2023"

// Architecture is a processor architecture.
type Architecture string

// The architectures of Lambda.
const (
	ARM64 Architecture = "arm64"
	X8664 Architecture = "x86_64"
)

// Auth is how a client authenticates with the brokers.
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

// Failures is how the function reports failed records.
type Failures string

// The values of Failures.
const (
	FailPartial Failures = "partial" // reports each failed record: only these are redelivered
	FailBatch   Failures = "batch"   // fails the invocation: the batch is redelivered
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
