package consumer

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
)

// OutboxProps are the settings of an outbox: its table, and its relay, a function on the table's stream (lambda/relay). The zero
// value of a field stands for its default. The relay sends to the cluster that the consumer reads, and must be let in by
// its brokers: by their security group, and by the ACLs of topics if Auth is not AuthIAM.
type OutboxProps struct {
	// RelayDir is the directory that holds the relay's program, a file named bootstrap, for Props.Architecture. Required.
	RelayDir string
	// TableName is the table's. Default: CloudFormation's choice.
	TableName string

	// Brokers are some of the cluster's, host:port, for Auth. Default: Props.BootstrapServers. Of an MSK cluster they must be
	// given, as CloudFormation does not know them: aws kafka get-bootstrap-brokers tells.
	Brokers []string
	// Auth is how the relay authenticates: AuthIAM, AuthSCRAM512, AuthSCRAM256, AuthMTLS or AuthNone. Default: Props.Auth.
	Auth Auth
	// TLS has connections with AuthNone encrypted; all others are.
	TLS bool
	// CA is the certificate in PEM that the brokers' were issued by, or a file that holds it, as in /var/task/ca.pem for one beside
	// the bootstrap. Default: public CAs, which MSK's are.
	CA string
	// SecretARN is the Secrets Manager secret with username and password, or certificate and privateKey. Default: that of the event
	// source, if Auth is the same.
	SecretARN string
	// SecretKeyARN is the KMS key that SecretARN is encrypted with, if it is a customer key. Default: as SecretARN.
	SecretKeyARN string
	// Topics are those that handlers publish to: the relay may write these only. Required with AuthIAM, and for nothing else.
	Topics []string
	// KafkaTimeout is IDEMSK_KAFKA_TIMEOUT, how long what is sent at once may take, 1 s to 1 minute. Default: 10 s.
	KafkaTimeout time.Duration
	// Attempts is IDEMSK_RELAY_ATTEMPTS: how often Kafka may reject an event before it is set aside, 1 to 20. Default: 5.
	Attempts int

	// Timeout is the relay's as a function, at most 15 minutes and more than KafkaTimeout and a second, in whole seconds.
	// Default: 2 minutes.
	Timeout time.Duration
	// MemoryMB is the relay's memory, 128 to 10,240. Default: 512.
	MemoryMB int
	// VPC puts the relay into a VPC, from which it reaches the brokers. Default: Props.VPC. An MSK cluster needs one, unless its
	// brokers are public. In a VPC of its own the relay needs a way to DynamoDB and, with a secret, to Secrets Manager;
	// Props.Endpoints makes them in Props.VPC.
	VPC awsec2.IVpc
	// Subnets selects the relay's. Default: Props.Subnets if the VPC is the same, otherwise the VPC's private ones.
	Subnets *awsec2.SubnetSelection
	// SecurityGroups are the relay's. Default: Props.SecurityGroups if the VPC is the same, otherwise a new one that lets
	// everything out.
	SecurityGroups []awsec2.ISecurityGroup

	// MaxAge is the age of the stream's next item that is alarming three times within 5 minutes, or within four times Timeout and a
	// minute if that is longer; at most 12 h: the stream forgets after 24. Default: 5 minutes.
	MaxAge time.Duration
}
