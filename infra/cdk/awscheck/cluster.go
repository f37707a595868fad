package main

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsmsk"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// topic is the topic of the check, and group its consumer group.
const (
	topic = "payments"
	group = "aws-check"
)

// newCluster builds the stack of the cluster and of the producer, which is in the cluster's VPC, because MSK
// Serverless has no public brokers. It returns the ARN of the cluster.
func newCluster(scope constructs.Construct, s *settings) (arn string) {
	st := awscdk.NewStack(scope, jsii.String(s.name+"-cluster"), &awscdk.StackProps{
		Description: jsii.String("idemsk aws-check: cluster and producer; destroyed at the end of the run"),
	})
	vpc := awsec2.NewVpc(st, jsii.String("Vpc"), &awsec2.VpcProps{
		// MSK Serverless wants subnets in two availability zones or more:
		// https://docs.aws.amazon.com/msk/latest/developerguide/serverless.html
		MaxAzs: jsii.Number(2), NatGateways: jsii.Number(0),
		SubnetConfiguration: &[]*awsec2.SubnetConfiguration{{Name: jsii.String("brokers"),
			SubnetType: awsec2.SubnetType_PRIVATE_ISOLATED}},
	})
	clients := awsec2.NewSecurityGroup(st, jsii.String("Clients"), &awsec2.SecurityGroupProps{
		Vpc: vpc, Description: jsii.String("brokers, event pollers and producer of aws-check"),
	})
	// The pollers use the security group of the cluster, so it must admit itself to the brokers' port for IAM:
	// https://docs.aws.amazon.com/lambda/latest/dg/with-msk-cluster-network.html
	clients.AddIngressRule(clients, awsec2.Port_Tcp(jsii.Number(9098)), jsii.String("Kafka with IAM"), nil)
	if s.onDemand {
		addEndpoints(st, vpc, clients)
	}
	subnets := *vpc.IsolatedSubnets()
	ids := make([]*string, len(subnets))
	for i, subnet := range subnets {
		ids[i] = subnet.SubnetId()
	}
	cluster := awsmsk.NewCfnServerlessCluster(st, jsii.String("Cluster"), &awsmsk.CfnServerlessClusterProps{
		ClusterName: &s.name,
		ClientAuthentication: &awsmsk.CfnServerlessCluster_ClientAuthenticationProperty{
			Sasl: &awsmsk.CfnServerlessCluster_SaslProperty{
				Iam: &awsmsk.CfnServerlessCluster_IamProperty{Enabled: true}}},
		VpcConfigs: &[]*awsmsk.CfnServerlessCluster_VpcConfigProperty{{SubnetIds: &ids,
			SecurityGroups: &[]*string{clients.SecurityGroupId()}}},
	})
	producer := newProducer(st, s, vpc, clients, *cluster.Ref())
	output(st, "ClusterArn", cluster.Ref())
	output(st, "ProducerName", producer.FunctionName())
	return *cluster.Ref()
}

// addEndpoints adds what the pollers on demand call from the cluster's VPC without a NAT:
// https://docs.aws.amazon.com/lambda/latest/dg/with-msk-cluster-network.html#msk-vpc-privatelink.
// Those of the provisioned mode need none:
// https://docs.aws.amazon.com/lambda/latest/dg/with-kafka-cluster-network.html
func addEndpoints(st awscdk.Stack, vpc awsec2.Vpc, clients awsec2.SecurityGroup) {
	for id, service := range map[string]awsec2.InterfaceVpcEndpointAwsService{
		"LambdaEndpoint": awsec2.InterfaceVpcEndpointAwsService_LAMBDA(),
		"StsEndpoint":    awsec2.InterfaceVpcEndpointAwsService_STS(),
	} {
		endpoint := awsec2.NewInterfaceVpcEndpoint(st, &id, &awsec2.InterfaceVpcEndpointProps{Vpc: vpc,
			Service: service, Open: jsii.Bool(false),
			Subnets: &awsec2.SubnetSelection{SubnetType: awsec2.SubnetType_PRIVATE_ISOLATED}})
		endpoint.Connections().AllowDefaultPortFrom(clients, jsii.String("event pollers"))
	}
}

// newProducer adds the function that creates the topic and sends the payments. It calls no AWS service but
// the brokers, so it needs no endpoint.
func newProducer(st awscdk.Stack, s *settings, vpc awsec2.Vpc, clients awsec2.SecurityGroup,
	cluster string) awslambda.Function {
	logs := awslogs.NewLogGroup(st, jsii.String("ProducerLogs"), &awslogs.LogGroupProps{
		RemovalPolicy: awscdk.RemovalPolicy_DESTROY, Retention: awslogs.RetentionDays_ONE_WEEK,
	})
	role := awsiam.NewRole(st, jsii.String("ProducerRole"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		Description: jsii.String("idemsk aws-check: producer"),
	})
	allow := func(actions []string, resources ...string) {
		role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Actions: jsii.Strings(actions...), Resources: jsii.Strings(resources...)}))
	}
	allow([]string{"logs:CreateLogStream", "logs:PutLogEvents"}, *logs.LogGroupArn())
	// The actions of a function in a VPC have no resources:
	// https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html#configuration-vpc-permissions
	allow([]string{"ec2:AssignPrivateIpAddresses", "ec2:CreateNetworkInterface",
		"ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets",
		"ec2:UnassignPrivateIpAddresses"}, "*")
	// https://docs.aws.amazon.com/msk/latest/developerguide/kafka-actions.html. The producer
	// does not write idempotently, which would need a further action: a record that it sends twice is one
	// duplicate more.
	allow([]string{"kafka-cluster:Connect"}, cluster)
	allow([]string{"kafka-cluster:CreateTopic", "kafka-cluster:DescribeTopic", "kafka-cluster:WriteData"},
		topicARN(cluster))
	f := awslambda.NewFunction(st, jsii.String("Producer"), &awslambda.FunctionProps{
		Description: jsii.String("idemsk aws-check: sends the payments"),
		Runtime:     awslambda.Runtime_PROVIDED_AL2023(), Handler: jsii.String("bootstrap"),
		Architecture: architecture(s.architecture), Code: awslambda.Code_FromAsset(&s.producer, nil),
		Role: role, LogGroup: logs, MemorySize: jsii.Number(512),
		Timeout: awscdk.Duration_Minutes(jsii.Number(5)),
		Vpc:     vpc, SecurityGroups: &[]awsec2.ISecurityGroup{clients},
		VpcSubnets: &awsec2.SubnetSelection{SubnetType: awsec2.SubnetType_PRIVATE_ISOLATED},
	})
	if policy := role.Node().TryFindChild(jsii.String("DefaultPolicy")); policy != nil {
		f.Node().AddDependency(policy) // Lambda checks the network actions when it creates the function
	}
	return f
}

// topicARN returns the IAM ARN of the topic: arn:…:topic/CLUSTER/UUID/TOPIC.
func topicARN(cluster string) string {
	parts := *awscdk.Fn_Split(jsii.String(":cluster/"), &cluster, jsii.Number(2))
	return strings.Join([]string{*parts[0], ":topic/", *parts[1], "/", topic}, "")
}

func architecture(a consumer.Architecture) awslambda.Architecture {
	if a == consumer.X8664 {
		return awslambda.Architecture_X86_64()
	}
	return awslambda.Architecture_ARM_64()
}

func output(st awscdk.Stack, id string, value *string) {
	awscdk.NewCfnOutput(st, &id, &awscdk.CfnOutputProps{Value: value})
}
