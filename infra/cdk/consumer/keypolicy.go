package consumer

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"
)

// admitServices lets CloudWatch use a customer key for the log group and for alarms to an encrypted topic. It
// changes only the policy of a key of this app. The policy of an imported key is the user's responsibility.
func (c *Consumer) admitServices() {
	key := c.props.EncryptionKey
	if key == nil {
		return
	}
	stack := awscdk.Stack_Of(c.Construct)
	if *awscdk.Token_IsUnresolved(stack.Region()) {
		panic(&PropError{Prop: "EncryptionKey", Value: *key.KeyArn(),
			Want: "a stack whose StackProps.Env names the region: the table's key is per region"})
	}
	admit := func(service string, conditions map[string]any) {
		key.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Actions: jsii.Strings("kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*",
				"kms:DescribeKey"),
			Resources:  jsii.Strings("*"), // of the key itself
			Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(&service, nil)},
			Conditions: &conditions,
		}), jsii.Bool(true))
	}
	logs := *stack.FormatArn(&awscdk.ArnComponents{Service: jsii.String("logs"),
		Resource:     jsii.String("log-group"),
		ResourceName: jsii.String("*"), ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME})
	admit("logs."+*stack.Region()+".amazonaws.com",
		map[string]any{"ArnLike": map[string]any{"kms:EncryptionContext:aws:logs:arn": logs}})
	admit("cloudwatch.amazonaws.com", map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": stack.Account()}})
}
