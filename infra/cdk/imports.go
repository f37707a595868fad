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

// importNetwork puts the function into the VPC, if there is one.
func (s *settings) importNetwork(st *stack) consumer.Network {
	if s.VPCID == "" {
		return consumer.Network{}
	}
	attributes := &awsec2.VpcAttributes{
		VpcId: &s.VPCID, AvailabilityZones: jsii.Strings(s.AvailabilityZones...),
		PrivateSubnetIds: jsii.Strings(s.SubnetIDs...),
	}
	if len(s.RouteTableIDs) > 0 {
		attributes.PrivateSubnetRouteTableIds = jsii.Strings(s.RouteTableIDs...)
	}
	n := consumer.Network{VPC: awsec2.Vpc_FromVpcAttributes(st.Stack, jsii.String("Vpc"), attributes)}
	for _, id := range s.SecurityGroups {
		n.SecurityGroups = append(n.SecurityGroups,
			awsec2.SecurityGroup_FromSecurityGroupId(st.Stack, jsii.String("SecurityGroup-"+id), &id, nil))
	}
	return n
}

func importKey(st *stack, arn string) awskms.IKey {
	return awskms.Key_FromKeyArn(st.Stack, jsii.String("Key"), &arn)
}

func importTopic(st *stack, arn string) awssns.ITopic {
	return awssns.Topic_FromTopicArn(st.Stack, jsii.String("AlarmTopic"), &arn)
}
