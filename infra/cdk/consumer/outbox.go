package consumer

import (
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"
)

// The attributes of the outbox's table. They equal those of outbox/dynamooutbox, which a test checks; an
// import would add a dependency on a Kafka client.
const (
	outboxAggregate  = "aggregate"
	outboxID         = "id"
	outboxExpiry     = "expiryTimestamp"
	outboxRequeuedAt = "requeuedAt"
)

// outboxVariable is the variable with the table's name, for the consumer and the relay.
const outboxVariable = "IDEMSK_OUTBOX_TABLE"

// relayBatch is the maximum number of the stream's items in an invocation of the relay.
const relayBatch = 100

// Outbox is the table of published events and the relay that sends them to Kafka.
type Outbox struct {
	Table       awsdynamodb.TableV2
	Role        awsiam.Role // of the relay and its event source
	LogGroup    awslogs.LogGroup
	Relay       awslambda.Function
	EventSource awslambda.CfnEventSourceMapping
}

// addOutbox adds the table, the relay and its event source. The table's partition key preserves the order of
// events: a stream has all items of a key in one shard.
func (c *Consumer) addOutbox() {
	o := c.props.Outbox
	if o == nil {
		return
	}
	c.Outbox = &Outbox{Table: c.newTable("Outbox", &awsdynamodb.TablePropsV2{
		TableName:           optional(o.TableName),
		PartitionKey:        text(outboxAggregate),
		SortKey:             text(outboxID),
		TimeToLiveAttribute: jsii.String(outboxExpiry),
		DynamoStream:        awsdynamodb.StreamViewType_NEW_IMAGE,
	})}
	c.addRelay()
	c.Outbox.EventSource = awslambda.NewCfnEventSourceMapping(c.Construct, jsii.String("RelayEventSource"),
		c.relayEventSource())
}

// addRelay adds the relay's function. A new version takes over between two batches.
func (c *Consumer) addRelay() {
	p, o := &c.props, c.props.Outbox
	c.Outbox.Role, c.Outbox.LogGroup, c.Outbox.Relay = c.addAuxiliary(&auxiliary{
		id: "Relay", role: "idemsk relay of " + p.ConsumerGroup,
		description: "idemsk: sends the outbox of " + p.ConsumerGroup + " to Kafka", dir: o.RelayDir,
		timeout: o.Timeout, memoryMB: o.MemoryMB, environment: c.relayEnvironment(), vpc: o.VPC,
		subnets: o.Subnets, securityGroups: o.SecurityGroups,
	})
}

func (c *Consumer) relayEnvironment() map[string]*string {
	o := c.props.Outbox
	env := map[string]*string{
		outboxVariable:          c.Outbox.Table.TableName(),
		"IDEMSK_KAFKA_BROKERS":  jsii.String(strings.Join(o.Brokers, ",")),
		"IDEMSK_KAFKA_AUTH":     jsii.String(string(o.Auth)),
		"IDEMSK_KAFKA_TLS":      jsii.String(strconv.FormatBool(o.encrypted())),
		"IDEMSK_KAFKA_TIMEOUT":  jsii.String(short(o.KafkaTimeout)),
		"IDEMSK_RELAY_ATTEMPTS": jsii.String(strconv.Itoa(o.Attempts)),
		"IDEMSK_LOG_LEVEL":      &c.props.LogLevel,
	}
	if o.CA != "" {
		env["IDEMSK_KAFKA_TLS_CA"] = &o.CA
	}
	if o.SecretARN != "" {
		env["IDEMSK_KAFKA_SECRET_ARN"] = &o.SecretARN
	}
	return env
}

// relayEventSource invokes the relay with new and requeued items. One batch of a shard at a time preserves
// the order. Failed batches are retried as long as the stream keeps them, because the relay itself parks
// events that Kafka rejects.
func (c *Consumer) relayEventSource() *awslambda.CfnEventSourceMappingProps {
	return &awslambda.CfnEventSourceMappingProps{
		FunctionName:               c.Outbox.Relay.FunctionArn(),
		EventSourceArn:             c.Outbox.Table.TableStreamArn(),
		StartingPosition:           jsii.String(string(TrimHorizon)),
		BatchSize:                  jsii.Number(relayBatch),
		ParallelizationFactor:      jsii.Number(1),
		FunctionResponseTypes:      jsii.Strings("ReportBatchItemFailures"),
		BisectBatchOnFunctionError: true,
		MaximumRetryAttempts:       jsii.Number(-1),
		MaximumRecordAgeInSeconds:  jsii.Number(-1),
		FilterCriteria: filterCriteria([]string{
			`{"eventName":["INSERT"]}`,
			`{"eventName":["MODIFY"],"dynamodb":{"NewImage":{"` + outboxRequeuedAt +
				`":{"N":[{"exists":true}]}}}}`,
		}),
	}
}

// grantOutbox lets the function write events and gives the relay's role its permissions. The relay's event
// source depends on them.
func (c *Consumer) grantOutbox() {
	if c.Outbox == nil {
		return
	}
	table, relay := *c.Outbox.Table.TableArn(), c.Outbox.Role
	c.allow("Outbox", []string{"dynamodb:PutItem"}, table)

	allow(relay, "Outbox", []string{"dynamodb:BatchGetItem", "dynamodb:UpdateItem"}, table)
	allow(relay, "Stream", []string{"dynamodb:DescribeStream", "dynamodb:GetRecords",
		"dynamodb:GetShardIterator"}, *c.Outbox.Table.TableStreamArn())
	// ListStreams has no ARN of a single stream
	allow(relay, "Streams", []string{"dynamodb:ListStreams"}, table+"/stream/*")
	c.grantAuxiliary(relay, c.Outbox.LogGroup, c.props.Outbox.VPC != nil)
	c.grantRelayBrokers()
	policy := relay.Node().FindChild(jsii.String("DefaultPolicy"))
	c.Outbox.EventSource.Node().AddDependency(policy)
}

func (c *Consumer) grantRelayBrokers() {
	p, o, relay := &c.props, c.props.Outbox, c.Outbox.Role
	if o.Auth == AuthIAM {
		allow(relay, "Connect", []string{"kafka-cluster:Connect", "kafka-cluster:WriteDataIdempotently"},
			p.ClusterARN)
		for _, topic := range o.Topics { // the dynamic configuration has max.message.bytes
			allow(relay, "", []string{"kafka-cluster:DescribeTopic",
				"kafka-cluster:DescribeTopicDynamicConfiguration", "kafka-cluster:WriteData"},
				p.kafkaARN("topic", topic))
		}
	}
	if o.SecretARN != "" {
		allow(relay, "Secret", []string{"secretsmanager:GetSecretValue"}, o.SecretARN)
	}
	if o.SecretKeyARN != "" {
		allow(relay, "SecretKey", []string{"kms:Decrypt"}, o.SecretKeyARN)
	}
}
