package consumer

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/jsii-runtime-go"
)

// Network is where a function runs in a VPC. MSK does not need one for reading, because the event source
// connects to the cluster itself.
type Network struct {
	VPC awsec2.IVpc
	// Subnets selects the function's subnets. Default: the VPC's private subnets.
	Subnets *awsec2.SubnetSelection
	// SecurityGroups are the function's security groups. Default: a new one that allows all outbound traffic.
	SecurityGroups []awsec2.ISecurityGroup
}

func (c *checker) network() {
	c.inVPC("Network", &c.Network)
	if c.VPCEndpoints && c.Network.VPC == nil {
		c.fail("VPCEndpoints", true, "Network.VPC with it")
	}
}

// inVPC refuses settings of a network without a VPC.
func (c *checker) inVPC(group string, n *Network) {
	if n.VPC == nil && n.Subnets != nil {
		c.fail(group+".Subnets", "set", "%s.VPC with it", group)
	}
	if n.VPC == nil && len(n.SecurityGroups) > 0 {
		c.fail(group+".SecurityGroups", "set", "%s.VPC with it", group)
	}
}

// addNetwork adds the VPC endpoints of a function in a VPC without internet access: DynamoDB (free) if it has
// the keys, SQS for dead letters, Secrets Manager for the store's password, and X-Ray for tracing. For an
// outbox's relay in the same VPC it adds DynamoDB, Secrets Manager for the relay's password, and X-Ray. For
// exports it adds S3. Logs and metrics need no endpoint, because Lambda sends the function's output to
// CloudWatch. The endpoints' policies allow everything, because other resources in the VPC may use the
// endpoints.
//
// The event pollers run elsewhere and, in provisioned mode, need no endpoints. On demand, the cluster's VPC
// needs a NAT gateway or endpoints for Lambda, STS and, with a secret, Secrets Manager.
func (c *Consumer) addNetwork() {
	p := &c.props
	c.Endpoints = make(map[string]awsec2.IVpcEndpoint)
	if !p.VPCEndpoints {
		return
	}
	subnets := p.Network.Subnets
	if subnets == nil {
		subnets = &awsec2.SubnetSelection{SubnetType: awsec2.SubnetType_PRIVATE_WITH_EGRESS}
	}
	if c.Table != nil {
		c.Endpoints["dynamodb"] = awsec2.NewGatewayVpcEndpoint(c.Construct, jsii.String("DynamoDbEndpoint"),
			&awsec2.GatewayVpcEndpointProps{
				Vpc: p.Network.VPC, Service: awsec2.GatewayVpcEndpointAwsService_DYNAMODB(),
				Subnets: &[]*awsec2.SubnetSelection{subnets},
			})
	}
	c.addExportEndpoint(subnets)
	relay := c.Outbox != nil && p.Outbox.Network.VPC == p.Network.VPC
	if secret := relay && p.Outbox.SecretARN != ""; secret || p.Store.SecretARN != "" {
		c.addInterface("secretsmanager", "SecretsManagerEndpoint",
			awsec2.InterfaceVpcEndpointAwsService_SECRETS_MANAGER(), subnets, p.Store.SecretARN != "", secret)
	}
	c.addInterface("sqs", "SqsEndpoint", awsec2.InterfaceVpcEndpointAwsService_SQS(), subnets, true, false)
	if p.Function.Tracing {
		c.addInterface("xray", "XRayEndpoint", awsec2.InterfaceVpcEndpointAwsService_XRAY(), subnets, true,
			relay)
	}
}

// addInterface adds an endpoint that only the function, the relay, or both may reach.
func (c *Consumer) addInterface(name, id string, service awsec2.InterfaceVpcEndpointAwsService,
	subnets *awsec2.SubnetSelection, function, relay bool) {
	endpoint := awsec2.NewInterfaceVpcEndpoint(c.Construct, &id, &awsec2.InterfaceVpcEndpointProps{
		Vpc: c.props.Network.VPC, Service: service, Subnets: subnets, Open: jsii.Bool(false),
	})
	if function {
		endpoint.Connections().AllowDefaultPortFrom(c.Function, jsii.String("the consumer"))
	}
	if relay {
		endpoint.Connections().AllowDefaultPortFrom(c.Outbox.Relay, jsii.String("the relay"))
	}
	c.Endpoints[name] = endpoint
}
