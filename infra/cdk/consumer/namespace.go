package consumer

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
)

// pinNamespace makes CloudFormation refuse an update that changes the namespace, which would forget every key. A synthesis
// knows nothing of what is deployed, but CloudFormation does: `cdk deploy` keeps the value that a parameter has, and the new
// template allows only the new namespace. So the update fails before anything changes, with the words below, and
//
//	cdk deploy --parameters PARAMETER=NEW
//
// changes it on purpose. A pipeline that deploys without "previous parameters" has no such guard: give it DeployedNamespace.
func (c *Consumer) pinNamespace() {
	p := &c.props
	c.NamespaceParameter = awscdk.NewCfnParameter(c.Construct, jsii.String("PinnedNamespace"), &awscdk.CfnParameterProps{
		Type:          jsii.String("String"),
		Default:       &p.Namespace,
		AllowedValues: jsii.Strings(p.Namespace),
		Description:   jsii.String("The namespace of the keys. It must not change: another one forgets every key."),
	})
	c.NamespaceParameter.SetConstraintDescription(jsii.String("the namespace of the keys would change to " + p.Namespace +
		" and every record count as new: set the namespace to the deployed one (output Namespace), or confirm with --parameters " +
		*c.NamespaceParameter.LogicalId() + "=" + p.Namespace))
	c.NamespaceOutput = awscdk.NewCfnOutput(c.Construct, jsii.String("Namespace"), &awscdk.CfnOutputProps{
		Value: c.NamespaceParameter.ValueAsString(), Description: jsii.String("namespace of the keys; give it as DeployedNamespace"),
	})
}
