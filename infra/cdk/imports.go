package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// What exists is named by its IDs, not looked up: a synthesis then asks AWS nothing, and its result depends
// on the settings only.

// network is the VPC of the function.
type network struct {
	vpcID            string
	zones            []string
	subnetIDs        []string
	routeTableIDs    []string
	securityGroupIDs []string
}

// apply puts the function into the VPC, if there is one.
func (n *network) apply(st *stack, props *consumer.Props) {
	if n.vpcID == "" {
		return
	}
	attributes := &awsec2.VpcAttributes{
		VpcId: &n.vpcID, AvailabilityZones: jsii.Strings(n.zones...),
		PrivateSubnetIds: jsii.Strings(n.subnetIDs...),
	}
	if len(n.routeTableIDs) > 0 {
		attributes.PrivateSubnetRouteTableIds = jsii.Strings(n.routeTableIDs...)
	}
	props.VPC = awsec2.Vpc_FromVpcAttributes(st.Stack, jsii.String("Vpc"), attributes)
	for _, id := range n.securityGroupIDs {
		props.SecurityGroups = append(props.SecurityGroups,
			awsec2.SecurityGroup_FromSecurityGroupId(st.Stack, jsii.String("SecurityGroup-"+id), &id, nil))
	}
}

func importKey(st *stack, arn string) awskms.IKey {
	return awskms.Key_FromKeyArn(st.Stack, jsii.String("Key"), &arn)
}

func importTopic(st *stack, arn string) awssns.ITopic {
	return awssns.Topic_FromTopicArn(st.Stack, jsii.String("AlarmTopic"), &arn)
}
