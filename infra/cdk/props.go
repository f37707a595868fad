package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// stackProps returns the properties of the stack: for example TerminationProtection, or Env with the region,
// which consumer.Props.EncryptionKey needs.
func stackProps() *awscdk.StackProps { return &awscdk.StackProps{} }

// customise sets the properties of the consumer that the context does not set, for example:
//
//	props.Source.BatchSize = 500
//	props.Function.Canary = consumer.Canary10Percent5
//	props.Network.VPC = awsec2.Vpc_FromVpcAttributes(stack, jsii.String("Vpc"), &awsec2.VpcAttributes{
//		VpcId: jsii.String("vpc-…"), AvailabilityZones: jsii.Strings("eu-central-1a"), PrivateSubnetIds: jsii.Strings("subnet-…"),
//	})
//	props.Outbox = &consumer.Outbox{Brokers: []string{"b-1.….amazonaws.com:9098"}, Topics: []string{"credited"}}
//	props.Maintenance = &consumer.Maintenance{Export: consumer.Export{BucketARN: "arn:aws:s3:::exports/bookings/"}}
func customise(stack awscdk.Stack, props *consumer.Props) {} //nolint:revive // the names are those of the example
