package consumer

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"
)

// grant gives the role what the function and the pollers need, and makes the event sources wait for it.
func (c *Consumer) grant() {
	c.grantStore()
	c.allow("Logs", []string{"logs:CreateLogStream", "logs:PutLogEvents"}, *c.LogGroup.LogGroupArn())
	if c.props.Tracing { // X-Ray has no resource to name
		c.allow("Tracing", tracingActions, "*")
	}
	c.allow("DeadLetters", []string{"sqs:SendMessage"}, *c.DeadLetterQueue.QueueArn())
	if key := c.props.EncryptionKey; key != nil {
		c.allow("Key", keyActions, *key.KeyArn())
	}
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
			"dynamodb:BatchGetItem", "dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate", "dynamodb:PutItem", "dynamodb:UpdateItem",
		}, *c.Table.TableArn())
	}
	if p.StoreSecretARN != "" {
		c.allow("StoreSecret", []string{"secretsmanager:GetSecretValue"}, p.StoreSecretARN)
	}
	if p.StoreSecretKeyARN != "" {
		c.allow("StoreSecretKey", []string{"kms:Decrypt"}, p.StoreSecretKeyARN)
	}
}

func (c *Consumer) grantBrokers() {
	p := &c.props
	if !p.selfManaged() {
		c.allow("Cluster", []string{"kafka:DescribeClusterV2", "kafka:GetBootstrapBrokers"}, p.ClusterARN)
		if p.Auth == AuthSCRAM512 {
			c.allow("Scram", []string{"kafka:ListScramSecrets"}, p.ClusterARN)
		}
	}
	if p.Auth == AuthIAM {
		c.allow("Connect", []string{"kafka-cluster:Connect", "kafka-cluster:DescribeClusterDynamicConfiguration"}, p.ClusterARN)
		for _, topic := range p.Topics {
			c.allow("", []string{"kafka-cluster:DescribeTopic", "kafka-cluster:ReadData"}, p.kafkaARN("topic", topic.Name))
			c.allow("", []string{"kafka-cluster:AlterGroup", "kafka-cluster:DescribeGroup"}, p.kafkaARN("group", topic.Group))
		}
	}
	if !p.selfManaged() || len(p.BrokerSubnetIDs) > 0 || p.VPC != nil {
		// EC2 describes nothing by ARN, and Lambda tests at the function's creation that its role may use any interface.
		c.allow("NetworkInterfaces", networkInterfaceActions, "*")
	}
	if p.VPC != nil {
		c.allow("Addresses", addressActions, "*")
	}
}

// networkInterfaceActions are what AWS names for functions in a VPC and for clusters in one.
var networkInterfaceActions = []string{
	"ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSecurityGroups",
	"ec2:DescribeSubnets", "ec2:DescribeVpcs",
}

// What both functions may do, each with its own role.
var (
	addressActions = []string{"ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses"}
	keyActions     = []string{"kms:Decrypt", "kms:GenerateDataKey*"}
	tracingActions = []string{"xray:PutTelemetryRecords", "xray:PutTraceSegments"}
)

func (c *Consumer) grantSecrets() {
	p := &c.props
	secrets := []string{p.SecretARN, p.CASecretARN}
	if p.SchemaRegistry != nil {
		secrets = append(secrets, p.SchemaRegistry.SecretARN)
	}
	for _, secret := range secrets {
		if secret != "" {
			c.allow("", []string{"secretsmanager:GetSecretValue"}, secret)
		}
	}
	if p.SecretKeyARN != "" {
		c.allow("SecretKey", []string{"kms:Decrypt"}, p.SecretKeyARN)
	}
	if r := p.SchemaRegistry; r != nil && r.glue() {
		schemas := strings.Replace(r.URI, ":registry/", ":schema/", 1) + "/*"
		c.allow("SchemaRegistry", []string{"glue:GetRegistry"}, r.URI)
		c.allow("Schemas", []string{"glue:GetSchemaVersion"}, r.URI, schemas)
	}
}

func (c *Consumer) grantOnFailure() {
	switch to := c.props.OnFailure; {
	case to.Queue:
		c.allow("OnFailure", []string{"sqs:SendMessage"}, *c.OnFailureQueue.QueueArn())
	case to.BucketARN != "":
		c.allow("OnFailure", []string{"s3:PutObject"}, to.BucketARN+"/*")
		c.allow("OnFailureBucket", []string{"s3:ListBucket"}, to.BucketARN)
	case to.Topic != "" && c.props.Auth == AuthIAM:
		c.allow("OnFailure", []string{"kafka-cluster:DescribeTopic", "kafka-cluster:WriteData"}, c.props.kafkaARN("topic", to.Topic))
	}
}

// kafkaARN is the ARN of a topic or group, as IAM of MSK forms it from its cluster's.
func (p *Props) kafkaARN(kind, name string) string {
	if isToken(p.ClusterARN) {
		// arn:partition:kafka:region:account:cluster/name/uuid
		parts := awscdk.Fn_Split(jsii.String(":cluster/"), &p.ClusterARN, jsii.Number(2))
		return *awscdk.Fn_Join(jsii.String(""), &[]*string{(*parts)[0], jsii.String(":" + kind + "/"), (*parts)[1], jsii.String("/" + name)})
	}
	return strings.Replace(p.ClusterARN, ":cluster/", ":"+kind+"/", 1) + "/" + name
}

func (c *Consumer) allow(sid string, actions []string, resources ...string) {
	allow(c.Role, sid, actions, resources...)
}

func allow(role awsiam.Role, sid string, actions []string, resources ...string) {
	role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: optional(sid), Actions: jsii.Strings(actions...), Resources: jsii.Strings(resources...),
	}))
}

func (r *SchemaRegistry) glue() bool { return strings.HasPrefix(r.URI, "arn:") }
