package consumer_test

import (
	"strings"
	"testing"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// CloudFormation keeps a parameter's value and refuses one that the new template does not allow: so an update
// that changes the namespace or the scope of keys fails before anything changes.
func TestMeaningOfKeysIsPinned(t *testing.T) {
	for name, c := range map[string]struct {
		parameter, want string
		changes         change
	}{
		"namespace by default": {"Namespace", "payments-ledger", nil},
		"namespace by property": {"Namespace", "ledger",
			func(p *props) { p.Idempotency.Namespace = "ledger"; p.Idempotency.DeployedNamespace = "ledger" }},
		"one topic":         {"KeyScope", "topic:payments", nil},
		"two, in any order": {"KeyScope", "topic:payments+refunds", func(p *props) { p.Source.Topics = []consumer.Topic{{Name: "refunds", Group: "g2"}, {Name: "payments"}} }},
		"a topic was added": {"KeyScope", "topic:payments+refunds",
			func(p *props) {
				p.Source.Topics = []consumer.Topic{{Name: "refunds", Group: "g2"}, {Name: "payments"}}
				p.Idempotency.DeployedKeyScope = "topic:payments"
			}},
		"all that it reads": {"KeyScope", "namespace", func(p *props) { p.Idempotency.KeyScope = "namespace" }},
		"a topic was renamed": {"KeyScope", "namespace",
			func(p *props) {
				p.Idempotency.KeyScope = "namespace"
				p.Source.Topics = []consumer.Topic{{Name: "paid"}}
				p.Idempotency.DeployedKeyScope = "namespace"
			}},
	} {
		t.Run(name, func(t *testing.T) {
			tpl := synthesise(t, plain(t, c.changes))
			scope, _, _ := strings.Cut(c.want, ":")
			variable := map[string]string{"Namespace": "IDEMSK_NAMESPACE", "KeyScope": "IDEMSK_KEY_SCOPE"}[c.parameter]
			equal(t, "the function's", variables(t, tpl)[variable], scope)
			parameter := at(t, tpl["Parameters"], c.parameter)
			equal(t, "default", at(t, parameter, "Default"), c.want)
			equal(t, "allowed", at(t, parameter, "AllowedValues"), []string{c.want})
			says := at(t, parameter, "ConstraintDescription").(string)
			if !strings.Contains(says, "--parameters "+c.parameter+"="+c.want) {
				t.Errorf("%q does not say how to change it on purpose", says)
			}
			equal(t, "output", at(t, tpl["Outputs"], "Deployed"+c.parameter, "Value"), values{"Ref": c.parameter})
		})
	}
}
