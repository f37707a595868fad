package consumer

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"
)

// grant gives the role the permissions of the function and the pollers. The event sources depend on them.
func (c *Consumer) grant() {
	p := &c.props
	c.grantStore()
	c.allow("Logs", []string{"logs:CreateLogStream", "logs:PutLogEvents"}, *c.LogGroup.LogGroupArn())
	if p.Function.Tracing { // X-Ray has no ARNs
		c.allow("Tracing", tracingActions, "*")
	}
	c.allow("DeadLetters", []string{"sqs:SendMessage"}, *c.DeadLetterQueue.QueueArn())
	if arn := p.DeadLetters.BucketARN; arn != "" {
		c.allow("DeadLetterValues", []string{"s3:PutObject"}, strings.TrimSuffix(arn, "/")+"/*")
	}
	c.grantKey()
	c.grantBrokers()
	c.grantSecrets()
	c.grantOnFailure()
	policy := c.Role.Node().FindChild(jsii.String("DefaultPolicy"))
	for _, source := range c.EventSources {
		source.Node().AddDependency(policy)
	}
}

func (c *Consumer) grantStore() {
	p := &c.props
	if c.Table != nil {
		c.allow("Table", []string{
			"dynamodb:BatchGetItem", "dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate", "dynamodb:PutItem",
			"dynamodb:UpdateItem",
		}, *c.Table.TableArn())
	}
	allowSecret(c.Role, "StoreSecret", p.Store.SecretARN, p.Store.SecretKeyARN)
	p.Store.allowLogin(c.Role)
}

// grantKey lets the function use the customer keys of the table and of the queues.
func (c *Consumer) grantKey() {
	key := c.props.EncryptionKey
	if key == nil {
		return
	}
	allow(c.Role, "Key", keyActions, *key.KeyArn())
	allowVia(c.Role, "KeyOfQueues", "sqs", queueKeyActions, *key.KeyArn())
	if c.Table != nil {
		allowVia(c.Role, "KeyOfTables", "dynamodb", tableKeyActions, *key.KeyArn())
	}
}

func (c *Consumer) grantBrokers() {
	p := &c.props
	if !p.selfManaged() {
		c.allow("Cluster", []string{"kafka:DescribeClusterV2", "kafka:GetBootstrapBrokers"}, p.Cluster.ARN)
		if p.Cluster.Auth == AuthSCRAM512 {
			c.allow("Scram", []string{"kafka:ListScramSecrets"}, p.Cluster.ARN)
		}
	}
	if p.Cluster.Auth == AuthIAM {
		c.allow("Connect", []string{"kafka-cluster:Connect",
			"kafka-cluster:DescribeClusterDynamicConfiguration"}, p.Cluster.ARN)
		for _, topic := range p.Source.Topics {
			c.allow("", []string{"kafka-cluster:DescribeTopic", "kafka-cluster:ReadData"},
				p.kafkaARN("topic", topic.Name))
			c.allow("", []string{"kafka-cluster:AlterGroup", "kafka-cluster:DescribeGroup"},
				p.kafkaARN("group", topic.Group))
		}
	}
	if !p.selfManaged() || len(p.Cluster.SubnetIDs) > 0 || p.Network.VPC != nil {
		// EC2's Describe actions have no ARNs, and Lambda checks at the function's creation that its role may
		// use any interface.
		c.allow("NetworkInterfaces", networkInterfaceActions, "*")
	}
	if p.Network.VPC != nil {
		c.allow("Addresses", addressActions, "*")
	}
}

// networkInterfaceActions are the actions that AWS requires for functions and clusters in a VPC.
var networkInterfaceActions = []string{
	"ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces",
	"ec2:DescribeSecurityGroups",
	"ec2:DescribeSubnets", "ec2:DescribeVpcs",
}

// The permissions of both functions, each with its own role.
var (
	addressActions = []string{"ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses"}
	tracingActions = []string{"xray:PutTelemetryRecords", "xray:PutTraceSegments"}
)

// The permissions of roles on a customer key.
var (
	// keyActions are for everything that is read: environment, tables, stream, queues. They have no
	// condition, because it is not documented as which service Lambda decrypts the environment at a start.
	keyActions = []string{"kms:Decrypt"}
	// tableKeyActions are the minimum that DynamoDB needs for users of a table, besides keyActions, and the
	// actions of the CDK's own grants. CreateGrant is only for the creator of the table.
	// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html#dynamodb-customer-cmk-policy
	tableKeyActions = []string{
		"kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext",
		"kms:ReEncryptFrom", "kms:ReEncryptTo",
	}
	// queueKeyActions are the actions of a producer, besides keyActions.
	// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html
	queueKeyActions = []string{"kms:GenerateDataKey"}
)

func (c *Consumer) grantSecrets() {
	p := &c.props
	r := p.Source.SchemaRegistry
	allowSecret(c.Role, "", p.Cluster.SecretARN, "")
	allowSecret(c.Role, "", p.Cluster.CASecretARN, "")
	if r != nil {
		allowSecret(c.Role, "", r.SecretARN, "")
	}
	allowSecret(c.Role, "Secret", "", p.Cluster.SecretKeyARN)
	if r != nil && r.glue() {
		schemas := strings.Replace(r.URI, ":registry/", ":schema/", 1) + "/*"
		c.allow("SchemaRegistry", []string{"glue:GetRegistry"}, r.URI)
		c.allow("Schemas", []string{"glue:GetSchemaVersion"}, r.URI, schemas)
	}
}

func (c *Consumer) grantOnFailure() {
	switch to := c.props.Source.OnFailure; {
	case to.Queue:
		c.allow("OnFailure", []string{"sqs:SendMessage"}, *c.OnFailureQueue.QueueArn())
	case to.BucketARN != "":
		c.allow("OnFailure", []string{"s3:PutObject"}, to.BucketARN+"/*")
		c.allow("OnFailureBucket", []string{"s3:ListBucket"}, to.BucketARN)
	case to.Topic != "" && c.props.Cluster.Auth == AuthIAM:
		c.allow("OnFailure", []string{"kafka-cluster:DescribeTopic", "kafka-cluster:WriteData"},
			c.props.kafkaARN("topic", to.Topic))
	}
}

// kafkaARN returns the IAM ARN of a topic or group of an MSK cluster.
func (p *Props) kafkaARN(kind, name string) string {
	if isToken(p.Cluster.ARN) {
		// arn:partition:kafka:region:account:cluster/name/uuid
		parts := awscdk.Fn_Split(jsii.String(":cluster/"), &p.Cluster.ARN, jsii.Number(2))
		return *awscdk.Fn_Join(jsii.String(""),
			&[]*string{(*parts)[0], jsii.String(":" + kind + "/"), (*parts)[1], jsii.String("/" + name)})
	}
	return strings.Replace(p.Cluster.ARN, ":cluster/", ":"+kind+"/", 1) + "/" + name
}

func (c *Consumer) allow(sid string, actions []string, resources ...string) {
	allow(c.Role, sid, actions, resources...)
}

func allow(role awsiam.Role, sid string, actions []string, resources ...string) {
	role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: textOrNil(sid), Actions: jsii.Strings(actions...), Resources: jsii.Strings(resources...),
	}))
}

// allowSecret allows reading a secret, if there is one, which is encrypted with a customer key, if there is one.
func allowSecret(role awsiam.Role, sid, secret, key string) {
	if secret != "" {
		allow(role, sid, []string{"secretsmanager:GetSecretValue"}, secret)
	}
	if key != "" {
		allow(role, sid+"Key", []string{"kms:Decrypt"}, key)
	}
}

// allowVia allows actions that an AWS service requests on the role's behalf, but not requests of the role
// itself. The region is a wildcard, as AWS requires for DynamoDB; a key belongs to one region anyway.
func allowVia(role awsiam.Role, sid, service string, actions []string, resources ...string) {
	role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: &sid, Actions: jsii.Strings(actions...), Resources: jsii.Strings(resources...),
		Conditions: &map[string]any{"StringLike": map[string]any{"kms:ViaService": service +
			".*.amazonaws.com"}},
	}))
}

func (r *SchemaRegistry) glue() bool { return strings.HasPrefix(r.URI, "arn:") }
