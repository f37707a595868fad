package consumer

import (
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
)

// pinKeys makes CloudFormation refuse an accidental update that loses keys: a new namespace or scope loses
// all of them, and a renamed or removed topic loses its own. A synthesis does not know the deployed values,
// but CloudFormation does: `cdk deploy` keeps the value of a parameter, and the new template allows only the
// new value. So the update fails before any change, with the message below.
//
//	cdk deploy --parameters PARAMETER=NEW
//
// changes the value on purpose. A pipeline that deploys without "previous parameters" has no such protection;
// set Idempotency.DeployedNamespace and DeployedKeyScope there.
func (c *Consumer) pinKeys() {
	p := &c.props
	c.NamespaceParameter, c.NamespaceOutput = c.pin("Namespace", p.Idempotency.Namespace, "the namespace of the keys",
		"every record would count as new. Set the namespace to the deployed one (output Namespace)")
	c.KeyScopeParameter, c.KeyScopeOutput = c.pin("KeyScope", p.pinnedScope(), "the scope of the keys",
		"the records of a topic that is renamed or left out, or with another KeyScope all records, would count as new. To add a topic")
}

// pin adds a parameter that allows one value, and an output with the deployed value.
func (c *Consumer) pin(name, value, what, why string) (awscdk.CfnParameter, awscdk.CfnOutput) {
	parameter := awscdk.NewCfnParameter(c.Construct, jsii.String("Pinned"+name), &awscdk.CfnParameterProps{
		Type:          jsii.String("String"),
		Default:       &value,
		AllowedValues: jsii.Strings(value),
		Description:   jsii.String("Pinned: " + what + ". Another value forgets keys."),
	})
	parameter.SetConstraintDescription(jsii.String(what + " would change to " + value + ": " + why +
		", or to change it on purpose, deploy with --parameters " +
		*parameter.LogicalId() + "=" + value))
	output := awscdk.NewCfnOutput(c.Construct, jsii.String(name), &awscdk.CfnOutputProps{
		Value: parameter.ValueAsString(), Description: jsii.String(what + "; give it as Deployed" + name),
	})
	return parameter, output
}

// pinnedScope returns "namespace", or "topic:" with the names of the topics.
func (p *Props) pinnedScope() string {
	if p.Idempotency.KeyScope == KeyScopeNamespace {
		return string(KeyScopeNamespace)
	}
	names := make([]string, 0, len(p.Source.Topics))
	for _, t := range p.Source.Topics {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return string(KeyScopeTopic) + ":" + strings.Join(names, "+")
}

// forgotten returns the deployed topics whose keys another scope would lose. Another kind of scope loses all
// keys.
func (p *Props) forgotten() []string {
	kind, list, _ := strings.Cut(p.Idempotency.DeployedKeyScope, ":")
	if kind != string(p.Idempotency.KeyScope) {
		return []string{"every topic"}
	}
	return slices.DeleteFunc(strings.Split(list, "+"), func(name string) bool {
		return name == "" || slices.ContainsFunc(p.Source.Topics, func(t Topic) bool { return t.Name == name })
	})
}
