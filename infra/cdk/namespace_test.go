package main

import (
	"strings"
	"testing"
)

// CloudFormation keeps a parameter's value and refuses one that the new template does not allow: so an update that changes the
// namespace fails before anything changes.
func TestTheNamespaceIsPinned(t *testing.T) {
	for name, c := range map[string]struct {
		settings values
		want     string
	}{
		"by default": {nil, "payments-ledger"},
		"by setting": {values{"namespace": "ledger", "deployedNamespace": "ledger"}, "ledger"},
	} {
		t.Run(name, func(t *testing.T) {
			tpl := synthesise(t, plain(t, c.settings))
			equal(t, "the function's", variables(t, tpl)["IDEMSK_NAMESPACE"], c.want)
			parameter := at(t, tpl["Parameters"], "Namespace")
			equal(t, "default", at(t, parameter, "Default"), c.want)
			equal(t, "allowed", at(t, parameter, "AllowedValues"), []string{c.want})
			says := at(t, parameter, "ConstraintDescription").(string)
			if !strings.Contains(says, "--parameters Namespace="+c.want) {
				t.Errorf("%q does not say how to change it on purpose", says)
			}
			equal(t, "output", at(t, tpl["Outputs"], "DeployedNamespace", "Value"), values{"Ref": "Namespace"})
		})
	}
}
